"""Find the groups that a sweep checks: empty groups with records, groups with old commits, and groups with a
retention of their own.

There may be a million of either. They are found on demand, a few at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from headgate.core.kinds import GroupKind
from headgate.core.offsets.removal import STRETCH_STEPS, Slice
from headgate.core.offsets.table import OffsetTable
from headgate.domain.ids import GroupId, Millis
from headgate.records.columns import Int64s

_NAMED_AT_ONCE: Final = 64


class Candidates:
    """The groups of one sweep, each once. Groups that are created meanwhile may be left to the next sweep."""

    __slots__ = ("_finding", "_kinds", "_named", "_numbers", "_offsets", "_own", "_recorded", "is_over")

    def __init__(
        self,
        offsets: OffsetTable,
        kinds: Sequence[GroupKind],
        committed_by: Millis,
        own: Sequence[GroupId] = (),
    ) -> None:
        """`committed_by`: newer commits cannot be expired, except those of the groups `own`."""
        self._offsets = offsets
        self._kinds = kinds
        self._recorded = iter([group_id for kind in kinds for group_id in kind.group_ids()])
        self._own = dict.fromkeys(own)
        """Groups with a retention of their own: returned once, whatever the age of their commits."""
        self._finding = offsets.groups_to_sweep(committed_by)
        self._numbers: Int64s | None = None
        """Numbers of the groups with old commits; None until all are found."""
        self._named: deque[GroupId] = deque()
        self.is_over = False
        """Whether all groups were returned."""

    def next(self, room: Slice) -> GroupId | None:
        """Return the next group; None if there is none, or no room left in the slice."""
        while not (self.is_over or room.is_full()):
            room.take_steps(1)
            recorded = next(self._recorded, None)
            if recorded is not None:
                if self._is_empty(recorded):
                    return recorded
            elif self._numbers is None:
                room.take_steps(STRETCH_STEPS)
                if not self._finding.step():
                    self._numbers = self._finding.groups()
            elif self._named:
                group_id = self._named.popleft()
                self._own.pop(group_id, None)
                if not self._is_empty(group_id):
                    return group_id
            elif len(self._numbers):
                self._named.extend(self._offsets.group_ids_of(self._numbers[:_NAMED_AT_ONCE]))
                self._numbers = self._numbers[_NAMED_AT_ONCE:]
            elif self._own:
                group_id, _ = self._own.popitem()
                if self._offsets.has_offsets(group_id) and not self._is_empty(group_id):
                    return group_id
            else:
                self.is_over = True
        return None

    def _is_empty(self, group_id: GroupId) -> bool:
        return any(kind.is_empty(group_id) for kind in self._kinds)
