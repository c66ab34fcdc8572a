"""All classic groups of a shard: what their records say, and those that live.

`recorded` is durable: the last record of each group, changed by `apply` alone. `live` is volatile: groups
with members or with members on the way. A group without them needs no more than its record, and a group that
only ever committed not even that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from headgate.core.classic import offsets
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.rebalance import prepare_rebalance
from headgate.core.classic.state import ClassicState
from headgate.core.classic.turn import ClassicSettings, Turn
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

    __slots__ = ("_deadlines", "_settings", "_system_time", "live", "recorded")
    NAME: ClassVar[str] = "classic"
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset({GroupMetadata, GroupTombstone})

    def __init__(self, context: ShardContext) -> None:
        self._settings = ClassicSettings.of(context.settings)
        self._deadlines = context.deadlines
        self._system_time = context.system_time
        self.recorded: dict[GroupId, GroupMetadata] = {}
        self.live: dict[GroupId, ClassicGroup] = {}

    # --- records ---

    def apply(self, record: GroupMetadata | GroupTombstone) -> bool:
        """Take a record into durable state. A group that is gone has no life either."""
        if isinstance(record, GroupMetadata):
            self.recorded[record.group_id] = record
            return False
        self.recorded.pop(record.group_id, None)
        self.live.pop(record.group_id, None)
        return True

    def standing(self, record: GroupMetadata | GroupTombstone) -> GroupMetadata | None:
        """The record that stands under the key of another one; None when there is none."""
        return self.recorded.get(record.group_id)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """The records that make a group what it is; none if there is no such group."""
        recorded = self.recorded.get(group_id)
        return [] if recorded is None else [recorded]

    # --- groups ---

    def group_ids(self) -> list[GroupId]:
        """Every group, also one that a first member is about to join."""
        return [*self.recorded, *(group_id for group_id in self.live if group_id not in self.recorded)]

    def holds(self, group_id: GroupId) -> bool:
        """Whether a record makes it a classic group, or a client that is about to join."""
        return group_id in self.recorded or group_id in self.live

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """A group's line in a list of groups."""
        group = self.live.get(group_id)
        if group is not None:
            return ListedGroup(group_id, group.protocol_type or "", group.state.value, self.NAME)
        recorded = self.recorded.get(group_id)
        if recorded is None:
            return None
        return ListedGroup(group_id, recorded.protocol_type, ClassicState.EMPTY.value, self.NAME)

    def is_empty(self, group_id: GroupId) -> bool:
        """Whether it is a classic group without members."""
        group = self.live.get(group_id)
        return group_id in self.recorded if group is None else group.state is ClassicState.EMPTY

    def non_empty(self, group_id: GroupId) -> ClassicGroup | None:
        """The group, if it is not empty."""
        group = self.live.get(group_id)
        return None if group is None or group.state is ClassicState.EMPTY else group

    def tombstones(self, group_id: GroupId) -> tuple[GroupTombstone]:
        """The record that removes the group."""
        return (GroupTombstone(group_id),)

    def look(self, group_id: GroupId) -> ClassicGroup | None:
        """The group as it is, to look at: live, or made from its record; None when it has neither."""
        group = self.live.get(group_id)
        if group is None and group_id in self.recorded:
            group = ClassicGroup.of(self.recorded[group_id])
        return group

    def settle(self, group: ClassicGroup) -> None:
        """After a step: a group with nothing volatile in it goes back to its record."""
        if group.is_idle:
            self.live.pop(group.group_id, None)
        else:
            self.live[group.group_id] = group

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """Groups that have members, or are about to, check commits."""
        return self.live, self._commit_error

    def _commit_error(self, group: ClassicGroup, command: CommitOffsets, now: Millis) -> ErrorCode:
        """Why a commit is refused; of one that is not, the member's session begins anew."""
        error = offsets.commit_error(group, command)
        if not error:
            offsets.on_commit(self._deadlines, now, group, command)
        return error

    def fetch_check(self) -> None:
        """Everybody may fetch."""

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Why offsets of a group may not be deleted at all."""
        group = self.live.get(group_id)
        return ErrorCode.NONE if group is None else offsets.delete_error(group)

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Whether members of a group read a topic."""
        group = self.live.get(group_id)
        return (lambda topic: False) if group is None else group.is_subscribed_to

    def clock_of(self, group_id: GroupId) -> GroupClock | None:
        """From when a group's offsets age; None if a client is about to join a group without members."""
        group = self.look(group_id)
        if group is None or (group.state is ClassicState.EMPTY and group.pending_joins):
            return None
        return offsets.clock_of(group)

    # --- volatile ---

    def turn(self, now: Millis) -> Turn:
        """What a step of a group may use."""
        return Turn(now, self._system_time.at(now), self._settings, self._deadlines)

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """Members of classic groups look after the topics themselves."""

    def loaded(self, now: Millis) -> None:
        """The log is read: groups with members live, their sessions begin anew.

        A group that is larger than what is allowed now rebalances, and the first to join get the places. So
        does one that nobody leads, because it was a consumer group before.
        """
        self.live.clear()
        for group_id, metadata in self.recorded.items():
            if metadata.members:
                self.live[group_id] = ClassicGroup.of(metadata)
        turn = self.turn(now)
        for group in self.live.values():
            for member in group.members.values():
                turn.start_session(group, member)
            if len(group.members) > turn.settings.max_size or group.leader is None:
                prepare_rebalance(turn, group)
