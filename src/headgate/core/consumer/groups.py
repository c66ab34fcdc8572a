"""All consumer groups of a shard: what their records make, and what is kept beside them.

`by_id` is durable. Volatile are the sessions (in the shard's deadlines), the groups' own settings, the
topics, and which groups have looked at the topics since those changed: after a load, none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.patterns import PatternMatching
from headgate.core.consumer.turn import ConsumerSettings, ConsumerTurn
from headgate.core.deadlines import Deadlines
from headgate.core.system_time import SystemTime
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicImage, TopicsChanged
from headgate.domain.ids import GroupId, Millis
from headgate.domain.settings import Settings
from headgate.records import ConsumerRecord, MemberState, Record


class ConsumerGroups:
    """The consumer groups of one shard."""

    __slots__ = (
        "_deadlines",
        "_overrides",
        "_settings",
        "_standard",
        "_system_time",
        "by_id",
        "patterns",
        "topics",
        "verified",
    )
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset(get_args(ConsumerRecord))

    def __init__(self, settings: Settings, deadlines: Deadlines[Timer], system_time: SystemTime) -> None:
        self._settings = settings
        self._standard = ConsumerSettings.of(settings, {})
        self._overrides: dict[GroupId, ConsumerSettings] = {}
        self._deadlines = deadlines
        self._system_time = system_time
        self.by_id: dict[GroupId, ConsumerGroup] = {}
        self.topics = TopicImage()
        self.patterns = PatternMatching()
        self.verified: set[GroupId] = set()
        """Groups whose topics are as their record says."""

    # --- durable ---

    def apply(self, record: ConsumerRecord) -> None:
        """Take a record into durable state."""
        group_id = record.group_id
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ConsumerGroup(group_id)
        group.apply(record)
        if group.is_without_records:
            del self.by_id[group_id]
            self.verified.discard(group_id)
            self.patterns.forget(group_id)

    def standing(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """The record that stands under the key of another one; None when there is none."""
        group = self.by_id.get(record.group_id)
        return None if group is None else group.standing(record)

    def group_ids(self) -> list[GroupId]:
        """Every group with a record."""
        return list(self.by_id)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """The records that make a group what it is; none if there is no such group."""
        group = self.by_id.get(group_id)
        return [] if group is None else list(group.records())

    def find(self, group_id: GroupId) -> ConsumerGroup | None:
        """The group, if there is one: a group without its own record is only what is left of one."""
        group = self.by_id.get(group_id)
        return group if group is not None and group.metadata is not None else None

    # --- volatile ---

    def turn(self, group_id: GroupId, now: Millis) -> ConsumerTurn:
        """What a step of that group may use."""
        system_time = self._system_time.at(now)
        return ConsumerTurn(now, system_time, self.settings_of(group_id), self.topics, self._deadlines)

    def settings_of(self, group_id: GroupId) -> ConsumerSettings:
        """The settings in force for a group."""
        return self._overrides.get(group_id, self._standard)

    def configure(self, group_id: GroupId, overrides: Mapping[str, int]) -> None:
        """Give a group settings of its own, or take them away."""
        if overrides:
            self._overrides[group_id] = ConsumerSettings.of(self._settings, overrides)
        else:
            self._overrides.pop(group_id, None)

    def verify(self, group: ConsumerGroup) -> bool:
        """Whether the group's topics are as its record says; if so, that stands until topics change."""
        group_id = group.group_id
        if (
            group_id not in self.verified
            and self.topics.hash_of(group.subscriptions.topics()) == group.metadata_hash
        ):
            self.verified.add(group_id)
        return group_id in self.verified

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """The topics are others: groups that read them have to look again."""
        for change in command.changes:
            self.topics.change(change)
        names = {change.name for change in command.changes}
        self.verified = {
            group_id
            for group_id in self.verified
            if not self.by_id[group_id].subscriptions.reads_any_of(names)
        }
        readers = (group for group in self.by_id.values() if group.subscriptions.regex_users)
        for group_id in self.patterns.topics_changed(readers, command.changes):
            self.turn(group_id, now).match_patterns(group_id)

    def loaded(self, now: Millis) -> None:
        """The log is read: members' sessions begin anew, and their time to let partitions go.

        Who of the classic ones is to join again or to sync is told so in its next heartbeat.
        """
        self.patterns.loaded(self.by_id.values())
        for group_id, group in self.by_id.items():
            if group.metadata is None:
                continue
            turn = self.turn(group_id, now)
            for member_id, metadata in group.members.items():
                if metadata.classic is not None:
                    turn.start_session(group_id, member_id, metadata.classic.session_timeout_ms)
                    continue
                turn.start_session(group_id, member_id)
                if group.member(member_id).current.state is MemberState.UNREVOKED_PARTITIONS:
                    turn.wait_for_revocation(group_id, member_id, metadata.rebalance_timeout_ms)
