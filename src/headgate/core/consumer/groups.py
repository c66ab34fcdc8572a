"""All consumer groups of a shard, with their volatile state.

`by_id` is durable. Volatile are the sessions (in the shard's deadlines), the groups' overrides, the topics,
and `verified`, which is empty after a load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, get_args

from headgate.core.commands import ListedGroup
from headgate.core.consumer import offsets
from headgate.core.consumer.context import ConsumerContext, ConsumerSettings
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.patterns import PatternMatching
from headgate.core.consumer.removal import group_tombstones
from headgate.core.kinds import CommitCheck, FetchCheck, ShardContext
from headgate.core.offsets.commands import CommitOffsets
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE, GroupClock
from headgate.core.topic_image import TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import (
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
    MemberState,
    Record,
)


class ConsumerGroups:
    """The consumer groups of one shard; a `headgate.core.kinds.GroupKind`."""

    __slots__ = (
        "_deadlines",
        "_events",
        "_overrides",
        "_settings",
        "_standard",
        "_system_time",
        "by_id",
        "patterns",
        "paused",
        "topics",
        "verified",
    )
    NAME: ClassVar[str] = "consumer"
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset(get_args(ConsumerRecord))

    def __init__(self, context: ShardContext) -> None:
        self._settings = context.settings
        self._standard = ConsumerSettings.of(context.settings, {})
        self._overrides: dict[GroupId, ConsumerSettings] = {}
        self._deadlines = context.deadlines
        self._events = context.events
        self._system_time = context.system_time
        self.by_id: dict[GroupId, ConsumerGroup] = {}
        self.topics = context.topics
        self.paused = context.paused
        self.patterns = PatternMatching()
        self.verified: set[GroupId] = set()
        """Groups whose subscribed topics have not changed since their own record."""

    # --- records ---

    def apply(self, record: ConsumerRecord) -> bool:
        """Apply a record to the durable state; return whether it is the tombstone of the group's own
        record.
        """
        group_id = record.group_id
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ConsumerGroup(group_id)
        group.apply(record)
        if group.is_without_records:
            del self.by_id[group_id]
            self.verified.discard(group_id)
            self.patterns.forget(group_id)
        return isinstance(record, ConsumerGroupTombstone) and record.record_type is ConsumerRecordType.GROUP

    def current_record(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """Return the current record with the key of `record`; None if there is none."""
        group = self.by_id.get(record.group_id)
        return None if group is None else group.current_record(record)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """Return the records that restore a group; an empty list if there is no such group."""
        group = self.by_id.get(group_id)
        return [] if group is None else list(group.records())

    # --- groups ---

    def group_ids(self) -> list[GroupId]:
        """Return every group, and every id with remaining records."""
        return list(self.by_id)

    def find(self, group_id: GroupId) -> ConsumerGroup | None:
        """Return the group; None if there is none, or only remaining records without the group's own one."""
        group = self.by_id.get(group_id)
        return group if group is not None and group.metadata is not None else None

    def holds(self, group_id: GroupId) -> bool:
        """Return whether it is a consumer group."""
        return self.find(group_id) is not None

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """Return a group's entry in a list of groups; None if there is none."""
        group = self.find(group_id)
        if group is None:
            return None
        return ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, self.NAME)

    def member_count(self, group_id: GroupId) -> int:
        """Return the number of members; 0 for other groups."""
        group = self.find(group_id)
        return 0 if group is None else len(group.members)

    def is_empty(self, group_id: GroupId) -> bool:
        """Return whether it is a consumer group without members."""
        group = self.find(group_id)
        return group is not None and group.is_empty

    def tombstones(self, group_id: GroupId) -> list[Record]:
        """Return the tombstones of all records of the group."""
        return list(group_tombstones(self.by_id[group_id]))

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """Return the groups whose commits are checked, which are all, and the check."""
        return self.by_id, self._commit_error

    def _commit_error(self, group: ConsumerGroup, command: CommitOffsets, now: Millis) -> ErrorCode | None:
        if group.metadata is None:
            return None
        paused = self.paused.by_group
        return offsets.commit_error(
            group, command, self.topics, paused.get(group.group_id) if paused else None
        )

    def fetch_check(self) -> FetchCheck:
        """Return the groups whose fetches are checked, which are all, and the check."""
        return self.by_id, offsets.fetch_error

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Return NONE: offsets of topics without subscribers may be deleted."""
        return ErrorCode.NONE

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Return the function that tells whether members of a group subscribe to a topic."""
        return self.by_id[group_id].is_subscribed_to

    def clock_of(self, group_id: GroupId) -> GroupClock:
        """Return since when a group's offsets age."""
        return offsets.clock_of(self.by_id[group_id])

    # --- volatile ---

    def context(self, group_id: GroupId, now: Millis) -> ConsumerContext:
        """Return the context of a step of that group."""
        system_time = self._system_time.at(now)
        return ConsumerContext(
            now,
            system_time,
            self.settings_of(group_id),
            self.topics,
            self._deadlines,
            self.paused,
            self._events,
        )

    def settings_of(self, group_id: GroupId) -> ConsumerSettings:
        """Return the settings in force for a group."""
        return self._overrides.get(group_id, self._standard)

    def configure(self, group_id: GroupId, overrides: Mapping[str, int]) -> None:
        """Set the overrides of a group; an empty mapping removes them."""
        if overrides:
            self._overrides[group_id] = ConsumerSettings.of(self._settings, overrides)
        else:
            self._overrides.pop(group_id, None)

    def verify(self, group: ConsumerGroup) -> bool:
        """Return whether the subscribed topics are those of the group's record; keep a positive result."""
        group_id = group.group_id
        if (
            group_id not in self.verified
            and self.topics.hash_of(group.subscriptions.topics()) == group.metadata_hash
        ):
            self.verified.add(group_id)
        return group_id in self.verified

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """Handle a change of topics: groups that subscribe to them are no longer verified."""
        names = {change.name for change in command.changes}
        self.verified = {
            group_id
            for group_id in self.verified
            if not self.by_id[group_id].subscriptions.reads_any_of(names)
        }
        readers = [group for group in self.by_id.values() if group.subscriptions.regex_users]
        for group_id in self.patterns.topics_changed(readers, command.changes):
            self.context(group_id, now).match_patterns(group_id)

    def loaded(self, now: Millis) -> None:
        """Restart session timers and timers for revocations after a load.

        Classic members that must rejoin or sync learn of it in their next heartbeat.
        """
        self.patterns.loaded(self.by_id.values())
        for group_id, group in self.by_id.items():
            if group.metadata is None:
                continue
            context = self.context(group_id, now)
            for member_id, metadata in group.members.items():
                if metadata.classic is not None:
                    context.start_session(group_id, member_id, metadata.classic.session_timeout_ms)
                    continue
                context.start_session(group_id, member_id)
                if group.member(member_id).current.state is MemberState.UNREVOKED_PARTITIONS:
                    context.wait_for_revocation(group_id, member_id, metadata.rebalance_timeout_ms)
