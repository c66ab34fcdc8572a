"""The combined state batches of one share-partition: a list of a few, or blocks of some hundred rows.

A merge replaces the blocks it touches and no other, so it costs the same for a thousand batches and for a
million. Arrays are replaced, never changed: whoever was given the batches keeps them as they were. Most
share-partitions have a few batches at any time, and a merge into a list costs a tenth.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np

from headgate.core.share.state.merging import above, combined, drop_below, kept_few, merged, put
from headgate.records.share_batches import FEW, FIRST, LAST, STATE, BatchRows, StateBatch, StateBatches

LARGEST_BLOCK: Final = 1024
_SMALLEST_BLOCK: Final = 256
MOST_LISTED: Final = 128
"""With more batches than this the list becomes blocks; with `FEW` again, the blocks become a list."""


class BatchBlocks:
    """Sorted blocks of batches, none of them empty; without blocks, the list."""

    __slots__ = ("_blocks", "_few", "_firsts", "_length")

    def __init__(self) -> None:
        self._few: list[StateBatch] = []
        """All batches, while there are no blocks."""
        self._blocks: list[BatchRows] = []
        self._firsts: list[int] = []
        """First offset of each block."""
        self._length = 0
        """Number of batches in blocks."""

    def __len__(self) -> int:
        return self._length or len(self._few)

    def copy(self) -> BatchBlocks:
        """Return a copy that changes independently."""
        copy = BatchBlocks()
        copy._few = self._few.copy()
        copy._blocks, copy._firsts, copy._length = self._blocks.copy(), self._firsts.copy(), self._length
        return copy

    def batches(self) -> StateBatches:
        """Return all batches as they are now."""
        return StateBatches.combined(*self._blocks) if self._blocks else StateBatches.of_few(tuple(self._few))

    def drop_below(self, start_offset: int) -> None:
        """Remove all offsets below the start offset."""
        if self._few:
            drop_below(self._few, start_offset)
            return
        if not self._firsts or self._firsts[0] >= start_offset:
            return
        whole = bisect_right(self._firsts, start_offset) - 1
        self._replace(0, whole + 1, above(self._blocks[whole], start_offset))
        if self._length <= FEW:
            self._become_list()

    def merge(self, batches: StateBatches, start_offset: int) -> None:
        """Merge any batches, as far as they are not below the start offset."""
        if not self._blocks and batches.few is not None:
            for batch in kept_few(batches.few, start_offset):
                put(self._few, batch)
            if len(self._few) > MOST_LISTED:
                self._become_blocks()
            return
        if self._few:
            self._become_blocks()
        if not self._adopt(batches, start_offset):
            self._merge_rows(batches, start_offset)

    def _adopt(self, batches: StateBatches, start_offset: int) -> bool:
        """Take over the arrays of a combined list that begins after all blocks; return False for another one.

        So a snapshot of a million batches is applied at once, whatever their number.
        """
        if not batches.are_combined:
            return False
        parts = batches.parts
        if parts[0][0, FIRST] < start_offset or (self._blocks and not _follows(parts[0], self._blocks[-1])):
            return False
        self._blocks += parts
        self._firsts += [int(part[0, FIRST]) for part in parts]
        self._length += sum(map(len, parts))
        return True

    def _become_list(self) -> None:
        self._few = list(self.batches())
        self._blocks, self._firsts, self._length = [], [], 0

    def _become_blocks(self) -> None:
        rows = np.array(self._few, np.int64)
        self._few = []
        self._replace(0, 0, rows)

    def _merge_rows(self, batches: StateBatches, start_offset: int) -> None:
        new = above(combined(batches.rows), start_offset)
        if len(new) < 2 or len(self._blocks) < 2:
            if len(new):
                self._merge_near(new)
            return
        # From the end, so that the places of the blocks before stay the same.
        groups = np.searchsorted(self._firsts, new[:, FIRST] - 1, side="right")
        for begin in reversed(np.flatnonzero(np.diff(groups, prepend=-1)).tolist()):
            self._merge_near(new[begin:])
            new = new[:begin]

    def _merge_near(self, new: BatchRows) -> None:
        """Merge a combined list that begins in one block."""
        lowest, highest = int(new[0, FIRST]) - 1, int(new[-1, LAST]) + 1
        begin = max(bisect_right(self._firsts, lowest) - 1, 0)
        end = bisect_right(self._firsts, highest)
        if end <= begin:
            self._replace(begin, begin, new)
            return
        touched = self._blocks[begin] if end - begin == 1 else np.concatenate(self._blocks[begin:end])
        before = int(np.searchsorted(touched[:, LAST], lowest))
        after = int(np.searchsorted(touched[:, FIRST], highest, side="right"))
        parts = (touched[:before], merged(touched[before:after], new), touched[after:])
        self._replace(begin, end, np.concatenate(parts))

    def _replace(self, begin: int, end: int, rows: BatchRows) -> None:
        """Replace the blocks from `begin` to `end` (exclusive) by blocks of these rows."""
        if len(rows) < _SMALLEST_BLOCK and end < len(self._blocks):
            rows = np.concatenate((rows, self._blocks[end]))
            end += 1
        self._length += len(rows) - sum(map(len, self._blocks[begin:end]))
        blocks = [rows] if len(rows) else []
        if len(rows) > LARGEST_BLOCK:
            blocks = np.array_split(rows, -(-len(rows) // LARGEST_BLOCK))
        self._blocks[begin:end] = blocks
        self._firsts[begin:end] = [int(block[0, FIRST]) for block in blocks]


def _follows(rows: BatchRows, before: BatchRows) -> bool:
    """Return whether rows begin after others, and the last of these is not to be joined with the first."""
    first, last = rows[0], before[-1]
    gap = int(first[FIRST] - last[LAST])
    return gap > 1 or (gap == 1 and bool((first[STATE:] != last[STATE:]).any()))
