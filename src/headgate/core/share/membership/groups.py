"""All share groups of a shard, with their volatile state.

`by_id` is durable. Volatile are the sessions (in the shard's deadlines), the groups' overrides, the topics,
and the times of the last requests for initialization.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

from headgate.core.commands import ListedGroup
from headgate.core.kinds import CommitCheck, FetchCheck, ShardContext
from headgate.core.offsets.commands import CommitOffsets
from headgate.core.offsets.expiry import GroupClock
from headgate.core.share.membership.context import ShareContext, ShareSettings, ShareTimer
from headgate.core.share.membership.group import ShareGroup, tombstone_of
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Record
from headgate.records.share_group_model import (
    SHARE_GROUP_RECORDS,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareGroupTombstone,
)

_PROTOCOL_TYPE = "share"
_COUNTED_AT_ONCE = 500


class ShareGroups:
    """The share groups of one shard; a `headgate.core.kinds.GroupKind`."""

    __slots__ = (
        "_deadlines",
        "_overrides",
        "_requested",
        "_settings",
        "_standard",
        "_system_time",
        "by_id",
        "events",
        "paused",
        "rebalances",
        "topics",
    )
    NAME: ClassVar[str] = "share"
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = SHARE_GROUP_RECORDS

    def __init__(self, context: ShardContext) -> None:
        self._settings = context.settings
        self._standard = ShareSettings.of(context.settings, {})
        self._overrides: dict[GroupId, ShareSettings] = {}
        self._deadlines = context.deadlines
        self._system_time = context.system_time
        self._requested: dict[GroupId, Millis] = {}
        """When the initialization of share-partitions was last requested."""
        self.by_id: dict[GroupId, ShareGroup] = {}
        self.topics = context.topics
        self.events = context.events
        self.paused = context.paused
        self.rebalances = 0
        """Target assignments that were computed since the start of the shard."""

    # --- records ---

    def apply(self, record: ShareGroupRecord) -> bool:
        """Apply a record to the durable state; return whether it is the tombstone of the group's own
        record.
        """
        group_id = record.group_id
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ShareGroup(group_id)
        group.apply(record)
        if group.is_without_records:
            del self.by_id[group_id]
            self._requested.pop(group_id, None)
        return isinstance(record, ShareGroupTombstone) and record.record_type is ShareGroupRecordType.GROUP

    def current_record(self, record: ShareGroupRecord) -> ShareGroupRecord | None:
        """Return the current record with the key of `record`; None if there is none."""
        group = self.by_id.get(record.group_id)
        return None if group is None else group.current_record(record)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """Return the records that restore a group; an empty list if there is no such group."""
        group = self.by_id.get(group_id)
        return [] if group is None else list(group.records())

    # --- groups ---

    def counting_by_state(self) -> Generator[None, None, Counter[str]]:
        """Return the number of share groups by the name of their state, in small steps."""
        states: Counter[str] = Counter()
        for number, group_id in enumerate(list(self.by_id)):
            group = self.find(group_id)
            if group is not None:
                states[group.state.value] += 1
            if number % _COUNTED_AT_ONCE == 0:
                yield
        return states

    def group_ids(self) -> list[GroupId]:
        """Return every group, and every id with remaining records."""
        return list(self.by_id)

    def find(self, group_id: GroupId) -> ShareGroup | None:
        """Return the group; None if there is none, or only remaining records of members and targets."""
        group = self.by_id.get(group_id)
        return group if group is not None and group.exists else None

    def holds(self, group_id: GroupId) -> bool:
        """Return whether it is a share group."""
        return self.find(group_id) is not None

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """Return a group's entry in a list of groups; None if there is none."""
        group = self.find(group_id)
        return None if group is None else ListedGroup(group_id, _PROTOCOL_TYPE, group.state.value, self.NAME)

    def member_count(self, group_id: GroupId) -> int:
        """Return the number of members; 0 for other groups."""
        group = self.find(group_id)
        return 0 if group is None else len(group.members)

    def is_empty(self, group_id: GroupId) -> bool:
        """Return whether it is a share group without members."""
        group = self.find(group_id)
        return group is not None and not group.members

    def tombstones(self, group_id: GroupId) -> list[Record]:
        """Return the tombstones of all records of the group; that of its own record also if it has none."""
        group = self.by_id[group_id]
        found: list[Record] = [tombstone_of(record) for record in group.records()]
        if group.metadata is None:
            found.append(ShareGroupTombstone(ShareGroupRecordType.GROUP, group_id))
        return found

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """Return the groups whose commits are checked, which are all: a share group has no such offsets."""

        def error(group: ShareGroup, command: CommitOffsets, now: Millis) -> ErrorCode | None:
            return ErrorCode.GROUP_ID_NOT_FOUND if group.exists else None

        return self.by_id, error

    def fetch_check(self) -> FetchCheck | None:
        """Return None: a fetch finds no offsets."""
        return None

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Return GROUP_ID_NOT_FOUND: a share group has no such offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Return the function that tells whether members of a group subscribe to a topic."""
        return self.by_id[group_id].topics.__contains__

    def clock_of(self, group_id: GroupId) -> GroupClock | None:
        """Return None: a share group stays until it is deleted (F20)."""
        return None

    # --- volatile ---

    def context(self, group_id: GroupId, now: Millis) -> ShareContext:
        """Return the context of a step of that group."""
        settings = self._overrides.get(group_id, self._standard)
        return ShareContext(
            now, self._system_time.at(now), settings, self.topics, self._deadlines, self.events
        )

    def configure(self, group_id: GroupId, overrides: Mapping[str, int]) -> None:
        """Set the overrides of a group; an empty mapping removes them."""
        if overrides:
            self._overrides[group_id] = ShareSettings.of(self._settings, overrides)
        else:
            self._overrides.pop(group_id, None)

    def is_retry_due(self, group_id: GroupId, now: Millis) -> bool:
        """Return whether initializations that were not confirmed must be requested again."""
        requested = self._requested.get(group_id)
        return requested is None or now - requested >= self._standard.initialize_retry_ms

    def requested(self, group_id: GroupId, now: Millis) -> None:
        """Note that initializations were requested."""
        self._requested[group_id] = now

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """Handle a change of topics: groups forget the share-partitions of deleted ones."""
        if all(change.topic is not None for change in command.changes):
            return
        for group_id, group in self.by_id.items():
            if gone_topics(group, self):
                self._deadlines.set(Timer(ShareTimer.TOPICS, group_id), now)

    def loaded(self, now: Millis) -> None:
        """Restart session timers after a load."""
        self._requested.clear()
        for group_id, group in self.by_id.items():
            if group.exists:
                context = self.context(group_id, now)
                for member_id in group.members:
                    context.start_session(group_id, member_id)


def gone_topics(group: ShareGroup, groups: ShareGroups) -> list[bytes]:
    """Return the ids of deleted topics that are in the group's record of share-partitions."""
    states = group.states
    if states is None:
        return []
    known = (*states.initialized, *states.initializing, *states.deleting)
    return [topic_id for topic_id in known if groups.topics.name_of(topic_id) is None]
