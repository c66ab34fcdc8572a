"""All classic groups of a shard: what their records say, and those that live.

`recorded` is durable: the last record of each group, changed by `apply` alone. `live` is volatile: groups
with members or with members on the way. A group without them needs no more than its record, and a group that
only ever committed not even that.
"""

from __future__ import annotations

from typing import Any, ClassVar

from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.rebalance import prepare_rebalance
from headgate.core.classic.turn import Turn
from headgate.core.effects import GroupEffects, together
from headgate.domain.ids import GroupId
from headgate.records import GroupMetadata, GroupTombstone, Record


class ClassicGroups:
    """The classic groups of one shard."""

    __slots__ = ("live", "recorded")
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset({GroupMetadata, GroupTombstone})

    def __init__(self) -> None:
        self.recorded: dict[GroupId, GroupMetadata] = {}
        self.live: dict[GroupId, ClassicGroup] = {}

    def apply(self, record: GroupMetadata | GroupTombstone) -> None:
        """Take a record into durable state. A group that is gone has no life either."""
        if isinstance(record, GroupMetadata):
            self.recorded[record.group_id] = record
        else:
            self.recorded.pop(record.group_id, None)
            self.live.pop(record.group_id, None)

    def standing(self, record: GroupMetadata | GroupTombstone) -> GroupMetadata | None:
        """The record that stands under the key of another one; None when there is none."""
        return self.recorded.get(record.group_id)

    def group_ids(self) -> list[GroupId]:
        """Every group with a record."""
        return list(self.recorded)

    def records_of(self, group_id: GroupId) -> list[Record]:
        """The records that make a group what it is; none if there is no such group."""
        recorded = self.recorded.get(group_id)
        return [] if recorded is None else [recorded]

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

    def loaded(self, turn: Turn) -> GroupEffects:
        """The log is read: groups with members live, their sessions begin anew.

        A group that is larger than what is allowed now rebalances, and the first to join get the places. So
        does one that nobody leads, because it was a consumer group before.
        """
        self.live = {
            group_id: ClassicGroup.of(metadata)
            for group_id, metadata in self.recorded.items()
            if metadata.members
        }
        effects = []
        for group in self.live.values():
            for member in group.members.values():
                turn.start_session(group, member)
            if len(group.members) > turn.settings.max_size or group.leader is None:
                effects.append(prepare_rebalance(turn, group))
        return together(*effects)
