"""Drops the rows of removed offsets, a few at a time: the last rows of the table move into their places.

To remove a row from its group's chain, the row before it must be known; to release a topic, its number of
rows must be known. Neither is stored permanently (R3.6): both are computed when rows are to be dropped, a
stretch of rows in each step, and discarded when no row is left to drop. Rows that are added meanwhile are
included at the start of the next step, so that adding a row needs no work here.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from headgate.core.offsets.columns import NONE, flip
from headgate.core.offsets.keys import GROUP_SHIFT, PARTITION_BITS, TOPIC_MASK, topics_of
from headgate.core.offsets.rows import Rows, Version

_FOUND_OUT_AT_ONCE = 1 << 15
_ROOM_AT_ONCE = 1 << 19
_LOOKED_THROUGH_AT_ONCE = 1 << 16
_SLOTS_A_ROW = 16
"""Number of index slots to process for each dropped row, if the index is to shrink."""


class Unused(NamedTuple):
    """The numbers of groups that are unknown and without rows, and of topics without rows."""

    groups: list[int]
    topics: list[int]


class Reclaiming:
    """Drops left-behind rows until none is left. It can be discarded at any time: a new one starts again."""

    __slots__ = ("_before", "_found_out_to", "_looked_down_to", "_rows", "_rows_of_topic")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._before = array("i")
        """The previous row of each row in its chain, NONE for the first."""
        self._rows_of_topic = array("I")
        self._found_out_to = 0
        """Rows before this one are included."""
        self._looked_down_to = 0
        """Rows from here on are not left behind, unless they were since they were scanned."""

    def step(self, count: int) -> Unused:
        """Drop up to `count` rows; return the groups and topics that are no longer used."""
        unused = Unused([], [])
        if self._found_out():
            for row in self._left_behind(count):
                self._drop(row, unused)
        rows = self._rows
        rows.index.shrink(len(rows.keys), count * _SLOTS_A_ROW, rows.keys)
        return unused

    @property
    def is_done(self) -> bool:
        """Return whether no row is left behind."""
        return not self._rows.left_behind and not self._rows.index.is_shrinking

    # --- scanning ---

    def _found_out(self) -> bool:
        """Scan some of the rows that were added since; return whether all are scanned."""
        rows, first = self._rows, self._found_out_to
        end = min(first + _FOUND_OUT_AT_ONCE, len(rows.keys))
        if first == end:
            return True
        missing = len(rows.keys) - len(self._before)
        self._before.extend(array("i", (NONE,)) * min(missing, _ROOM_AT_ONCE))
        if missing > _ROOM_AT_ONCE:
            return False
        before = np.frombuffer(self._before, np.int32)
        links = np.frombuffer(rows.nexts, np.int32)[first:end]
        following = np.where(links >= NONE, links, flip(links))
        has_following = following != NONE
        before[following[has_following]] = np.arange(first, end, dtype=np.int32)[has_following]
        counts = np.bincount(topics_of(np.frombuffer(rows.keys, np.uint64)[first:end]))
        missing = len(counts) - len(self._rows_of_topic)
        self._rows_of_topic.extend(array("I", (0,)) * max(missing, 0))
        np.frombuffer(self._rows_of_topic, np.uint32)[: len(counts)] += counts.astype(np.uint32)
        self._found_out_to = end
        return end == len(rows.keys)

    def _left_behind(self, count: int) -> list[int]:
        """Return up to `count` rows that are left behind, the last row first; empty if none is near."""
        links = np.frombuffer(self._rows.nexts, np.int32)
        if not 0 < self._looked_down_to <= len(links):
            self._looked_down_to = len(links)
        end = self._looked_down_to
        first = max(end - _LOOKED_THROUGH_AT_ONCE, 0)
        found: list[int] = (first + np.flatnonzero(links[first:end] < NONE)[::-1][:count]).tolist()
        self._looked_down_to = found[-1] if len(found) == count else first
        return found

    # --- dropping ---

    def _drop(self, row: int, unused: Unused) -> None:
        rows = self._rows
        key = rows.keys[row]
        group, topic = key >> GROUP_SHIFT, key >> PARTITION_BITS & TOPIC_MASK
        self._link(group, self._before[row], flip(rows.nexts[row]))
        rows.index.discard(row, rows.keys)
        last = len(rows.keys) - 1
        if row != last:
            self._move(last, row)
        for column in (rows.keys, rows.offsets, rows.timestamps, rows.epochs, rows.nexts, self._before):
            column.pop()
        self._found_out_to = last
        rows.left_behind -= 1
        rows.numbering = Version()
        self._rows_of_topic[topic] -= 1
        if not self._rows_of_topic[topic]:
            unused.topics.append(topic)
        if rows.is_unused(group):
            unused.groups.append(group)

    def _move(self, row: int, to: int) -> None:
        """Move a row to another number; the row that had the number is in no chain."""
        rows = self._rows
        key, link = rows.keys[row], rows.nexts[row]
        rows.index.replace(row, to, key)
        for column in (rows.keys, rows.offsets, rows.timestamps, rows.epochs, rows.nexts, self._before):
            column[to] = column[row]
        following = link if link >= NONE else flip(link)
        if following != NONE:
            self._before[following] = to
        self._link(key >> GROUP_SHIFT, self._before[to], to)

    def _link(self, group: int, row: int, following: int) -> None:
        """Make `following` the next row of a row, or the first row of the group; keep marks."""
        rows = self._rows
        if row == NONE:
            rows.heads[group] = following if rows.heads[group] >= NONE else flip(following)
        else:
            rows.nexts[row] = following if rows.nexts[row] >= NONE else flip(following)
        if following != NONE:
            self._before[following] = row
