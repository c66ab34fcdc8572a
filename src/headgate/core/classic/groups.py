"""All classic groups of a shard: their records, and the groups in memory.

`recorded` is durable: the last record of each group, changed only by `apply`. `live` is volatile: groups with
members or pending members. A group without them needs only its record. A group that only commits has no
record here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from headgate.core.classic import offsets
from headgate.core.classic.context import ClassicContext, ClassicSettings
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.rebalance import prepare_rebalance
from headgate.core.classic.state import ClassicState
from headgate.core.commands import ListedGroup
from headgate.core.kinds import CommitCheck, ShardContext
from headgate.core.offsets.commands import CommitOffsets
from headgate.core.offsets.expiry import GroupClock
from headgate.core.topic_image import TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import GroupMetadata, GroupTombstone, Record


class ClassicGroups:
    """The classic groups of one shard; a `headgate.core.kinds.GroupKind`."""

    __slots__ = ("_deadlines", "_events", "_settings", "_system_time", "live", "recorded")
    NAME: ClassVar[str] = "classic"
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset({GroupMetadata, GroupTombstone})

    def __init__(self, context: ShardContext) -> None:
        self._settings = ClassicSettings.of(context.settings)
        self._deadlines = context.deadlines
        self._events = context.events
        self._system_time = context.system_time
        self.recorded: dict[GroupId, GroupMetadata] = {}
        self.live: dict[GroupId, ClassicGroup] = {}

    # --- records ---

    def apply(self, record: GroupMetadata | GroupTombstone) -> bool:
        """Apply a record to the durable state; return whether the group was removed, which ends its volatile
        state.
        """
        if isinstance(record, GroupMetadata):
            self.recorded[record.group_id] = record
            return False
        self.recorded.pop(record.group_id, None)
        self.live.pop(record.group_id, None)
        return True

    def current_record(self, record: GroupMetadata | GroupTombstone) -> GroupMetadata | None:
        """Return the current record with the key of `record`; None if there is none."""
        return self.recorded.get(record.group_id)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """Return the records that restore a group; an empty list if there is no such group."""
        recorded = self.recorded.get(group_id)
        return [] if recorded is None else [recorded]

    # --- groups ---

    def group_ids(self) -> list[GroupId]:
        """Return the ids of all groups, also of those that a first member is joining."""
        return [*self.recorded, *(group_id for group_id in self.live if group_id not in self.recorded)]

    def holds(self, group_id: GroupId) -> bool:
        """Return whether it is a classic group, by its record or by a client that is joining."""
        return group_id in self.recorded or group_id in self.live

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """Return a group's entry in a list of groups; None if there is none."""
        group = self.live.get(group_id)
        if group is not None:
            return ListedGroup(group_id, group.protocol_type or "", group.state.value, self.NAME)
        recorded = self.recorded.get(group_id)
        if recorded is None:
            return None
        return ListedGroup(group_id, recorded.protocol_type, ClassicState.EMPTY.value, self.NAME)

    def member_count(self, group_id: GroupId) -> int:
        """Return the number of members; 0 for other groups."""
        group = self.live.get(group_id)
        return 0 if group is None else len(group.members)

    def is_empty(self, group_id: GroupId) -> bool:
        """Return whether it is a classic group without members."""
        group = self.live.get(group_id)
        return group_id in self.recorded if group is None else group.state is ClassicState.EMPTY

    def non_empty(self, group_id: GroupId) -> ClassicGroup | None:
        """Return the group if it has members, else None."""
        group = self.live.get(group_id)
        return None if group is None or group.state is ClassicState.EMPTY else group

    def tombstones(self, group_id: GroupId) -> tuple[GroupTombstone]:
        """Return the records that remove the group."""
        return (GroupTombstone(group_id),)

    def look(self, group_id: GroupId) -> ClassicGroup | None:
        """Return the group to be read: the live one, or one made from its record; None without either."""
        group = self.live.get(group_id)
        if group is None and group_id in self.recorded:
            group = ClassicGroup.of(self.recorded[group_id])
        return group

    def settle(self, group: ClassicGroup) -> None:
        """Keep a group in memory after a step if it has volatile state; else only its record remains."""
        if group.is_idle:
            self.live.pop(group.group_id, None)
        else:
            self.live[group.group_id] = group

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """Return the groups whose commits are checked, and the check: those with members or pending
        members.
        """
        return self.live, self._commit_error

    def _commit_error(self, group: ClassicGroup, command: CommitOffsets, now: Millis) -> ErrorCode:
        """Return the error of a commit; without one, restart the member's session timer.

        A transactional commit comes from a producer, and does not restart it.
        """
        error = offsets.commit_error(group, command)
        if not error and not command.is_transactional:
            offsets.on_commit(self._deadlines, now, group, command)
        return error

    def fetch_check(self) -> None:
        """Return None: fetches are not checked."""

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Return the error of any deletion of a group's offsets."""
        group = self.live.get(group_id)
        return ErrorCode.NONE if group is None else offsets.delete_error(group)

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Return the function that tells whether members of the group subscribe to a topic."""
        group = self.live.get(group_id)
        return (lambda topic: False) if group is None else group.is_subscribed_to

    def clock_of(self, group_id: GroupId) -> GroupClock | None:
        """Return since when a group's offsets age; None while a client is joining an empty group."""
        group = self.look(group_id)
        if group is None or (group.state is ClassicState.EMPTY and group.pending_joins):
            return None
        return offsets.clock_of(group)

    # --- volatile ---

    def context(self, now: Millis) -> ClassicContext:
        """Return the context of a step."""
        return ClassicContext(now, self._system_time.at(now), self._settings, self._deadlines, self._events)

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """Do nothing: members of classic groups watch the topics themselves."""

    def loaded(self, now: Millis) -> None:
        """Create the groups with members after a load, and restart their session timers.

        A group over the maximum size rebalances, and the first members to join stay. So does a group without
        a leader, which was a consumer group before.
        """
        self.live.clear()
        for group_id, metadata in self.recorded.items():
            if metadata.members:
                self.live[group_id] = ClassicGroup.of(metadata)
        context = self.context(now)
        for group in self.live.values():
            for member in group.members.values():
                context.start_session(group, member)
            if len(group.members) > context.settings.max_size or group.leader is None:
                prepare_rebalance(context, group)
