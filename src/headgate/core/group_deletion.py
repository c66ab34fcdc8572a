"""Deleting groups with all their offsets, on request. Rules:

1. A group of few offsets goes in one piece, `OFFSETS_AT_ONCE`. Of a wider one the offsets go first, some in
   each slice, and the group goes with the last of them; others have their turn in between.
2. Whoever asks meanwhile to delete the same group gets the same answer. Whoever reads it finds fewer and
   fewer offsets; what is committed to it meanwhile goes as well.
3. When a member joins meanwhile the deletion ends with NON_EMPTY_GROUP. What is gone then stays gone.
4. What is still to be done is volatile. After a crash the group is there with the offsets that are left; who
   asked has no answer and asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headgate.core.consumer.removal import group_tombstones
from headgate.core.contract import Effects, Reply, Token
from headgate.core.deadlines import Deadlines
from headgate.core.effects import NOTHING, GroupEffects
from headgate.core.groups import Groups
from headgate.core.offsets.removal import removals_of
from headgate.core.offsets.table import OffsetTable
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, GroupTombstone

OFFSETS_AT_ONCE = 2000
OFFSETS_A_SLICE = 500
"""To find, apply and write the removal of an offset takes some microseconds."""
BETWEEN_SLICES_MS = 5
_DELETE = Timer(TimerKind.DELETE)


class _Deletion:
    """The deletion of one group."""

    __slots__ = ("_arrivals", "_table", "_was_cut", "group_id", "is_over", "offsets", "tokens")

    def __init__(self, table: OffsetTable, group_id: GroupId, token: Token) -> None:
        self._table = table
        self.group_id = group_id
        self.tokens = [token]
        """The requests that wait for it."""
        self.look_again()

    def look_again(self) -> None:
        """Begin to go along the group's offsets."""
        self._arrivals = self._table.arrivals
        self.offsets = self._table.walk(self.group_id)
        self.is_over = self._was_cut = False

    @property
    def may_have_missed_some(self) -> bool:
        """Whether offsets came where the walk had been."""
        return self._was_cut and self._table.arrivals != self._arrivals

    def step(self, most: int) -> Sequence[Change]:
        """Remove up to so many offsets."""
        found = list(islice(self.offsets, most))
        self.is_over = len(found) < most
        self._was_cut |= not self.is_over
        gone: dict[TopicName, list[int]] = {}
        for one in found:
            if one is not None:
                gone.setdefault(one[0], []).append(one[1])
        return removals_of(self.group_id, gone)


class GroupDeletions:
    """The groups of one shard that are being deleted."""

    __slots__ = ("_deadlines", "_groups", "_offsets", "_under_way")

    def __init__(self, offsets: OffsetTable, groups: Groups, deadlines: Deadlines[Timer]) -> None:
        self._offsets = offsets
        self._groups = groups
        self._deadlines = deadlines
        self._under_way: dict[GroupId, _Deletion] = {}

    def loaded(self) -> None:
        """Nothing is under way."""
        self._under_way.clear()

    def refusal_of(self, group_id: GroupId) -> ErrorCode:
        """Why a group cannot be deleted, or NONE."""
        groups = self._groups
        if groups.with_classic_members(group_id) is not None:
            return ErrorCode.NON_EMPTY_GROUP
        consumer_group = groups.consumer.find(group_id)
        if consumer_group is not None and not consumer_group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.GROUP_ID_NOT_FOUND if groups.type_of(group_id) is None else ErrorCode.NONE

    def begin(self, group_id: GroupId, now: Millis, token: Token) -> GroupEffects:
        """Delete a group that can be deleted; the reply comes when it is gone."""
        under_way = self._under_way.get(group_id)
        if under_way is not None:
            under_way.tokens.append(token)
            return NOTHING
        return self._go_on(_Deletion(self._offsets, group_id, token), OFFSETS_AT_ONCE, now)

    def go_on(self, now: Millis) -> GroupEffects:
        """One slice of the deletion that has waited longest."""
        group_id = next(iter(self._under_way), None)
        if group_id is None:
            return NOTHING
        effects = self._go_on(self._under_way.pop(group_id), OFFSETS_A_SLICE, now)
        if self._under_way:
            self._deadlines.set(_DELETE, Millis(now + BETWEEN_SLICES_MS))
        return effects

    def _go_on(self, deletion: _Deletion, most: int, now: Millis) -> GroupEffects:
        error = self.refusal_of(deletion.group_id)
        if error:
            # A group that is gone by now was deleted, or was removed as one without offsets.
            deletion.offsets.close()
            is_gone = error is ErrorCode.GROUP_ID_NOT_FOUND
            return Effects((), _replies(deletion, ErrorCode.NONE if is_gone else error))
        records = deletion.step(most)
        if deletion.is_over and not deletion.may_have_missed_some:
            return Effects(
                [*records, *self._tombstones(deletion.group_id)], _replies(deletion, ErrorCode.NONE)
            )
        if deletion.is_over:
            deletion.look_again()
        self._under_way[deletion.group_id] = deletion
        self._deadlines.set(_DELETE, Millis(now + BETWEEN_SLICES_MS))
        return Effects(records)

    def _tombstones(self, group_id: GroupId) -> Sequence[Change]:
        consumer_group = self._groups.consumer.find(group_id)
        if consumer_group is not None:
            return list(group_tombstones(consumer_group))
        return (GroupTombstone(group_id),)


def _replies(deletion: _Deletion, error: ErrorCode) -> list[Reply]:
    return [Reply(token, error) for token in deletion.tokens]
