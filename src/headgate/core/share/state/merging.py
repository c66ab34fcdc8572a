"""The merge rule of state batches (F18), over arrays.

1. A combined list is sorted, without overlaps, and neighbours with equal state and count are one batch.
2. Where two batches overlap, each offset has the higher delivery count; of equal counts, the higher delivery
   state. So the order of merges does not matter, and a repeated merge changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from headgate.records.share_batches import (
    COUNT,
    FIRST,
    LAST,
    NO_ROWS,
    STATE,
    BatchRows,
    DeliveryState,
    StateBatch,
    StateBatches,
)

_STATES: Final = 256
"""Delivery states are smaller: state and count are one number, which orders batches by rule 2."""
_NO_BATCH: Final = -(2**62)


def combined(batches: BatchRows) -> BatchRows:
    """Return any batches, in any order, as a combined list."""
    if len(batches) < 2:
        return batches
    if (batches[1:, FIRST] > batches[:-1, LAST]).all():
        return _joined(batches[:, FIRST], batches[:, LAST], _ranks(batches))
    ranks = _ranks(batches)
    bounds = _bounds(batches)
    found = np.full(len(bounds) - 1, _NO_BATCH)
    begins = np.searchsorted(bounds, batches[:, FIRST])
    ends = np.searchsorted(bounds, batches[:, LAST] + 1)
    for at in np.argsort(ranks, kind="stable").tolist():
        found[begins[at] : ends[at]] = ranks[at]
    return _between(bounds, found)


def merged(one: BatchRows, other: BatchRows) -> BatchRows:
    """Return the combination of two combined lists."""
    if not len(one) or not len(other):
        return other if len(other) else one
    bounds = _bounds(one, other)
    return _between(bounds, np.maximum(_ranks_at(one, bounds[:-1]), _ranks_at(other, bounds[:-1])))


def above(batches: BatchRows, start_offset: int) -> BatchRows:
    """Return the part of a combined list that is not below an offset."""
    if not len(batches) or batches[0, FIRST] >= start_offset:
        return batches
    left = batches[np.searchsorted(batches[:, LAST], start_offset) :]
    if len(left) and left[0, FIRST] < start_offset:
        left = left.copy()
        left[0, FIRST] = start_offset
    return left


def replaced(batches: BatchRows, offsets: Sequence[tuple[int, int]]) -> BatchRows:
    """Return a combined list in which these ranges, ascending, are available and were never delivered."""
    new = StateBatches.of(StateBatch(first, last, DeliveryState.AVAILABLE, 0) for first, last in offsets).rows
    if not len(batches):
        return combined(new)
    bounds = _bounds(batches, new)
    is_new = _ranks_at(new, bounds[:-1]) != _NO_BATCH
    return _between(bounds, np.where(is_new, 0, _ranks_at(batches, bounds[:-1])))


def _bounds(*lists: BatchRows) -> BatchRows:
    """Return where batches begin, and the offsets after their ends, ascending, each once.

    (`numpy.unique` does the same, and imports a module of 15 ms when it is called first.)
    """
    bounds = np.concatenate([edge for rows in lists for edge in (rows[:, FIRST], rows[:, LAST] + 1)])
    bounds.sort()
    return bounds[np.concatenate(([True], bounds[1:] != bounds[:-1]))]


def _ranks(batches: BatchRows) -> BatchRows:
    return batches[:, COUNT] * _STATES + batches[:, STATE]


def _ranks_at(batches: BatchRows, offsets: BatchRows) -> BatchRows:
    """Return the rank of the batch that contains each offset; `_NO_BATCH` if none does."""
    at = np.searchsorted(batches[:, FIRST], offsets, side="right") - 1
    is_inside = (at >= 0) & (batches[at, LAST] >= offsets)
    return np.where(is_inside, _ranks(batches)[at], _NO_BATCH)


def _between(bounds: BatchRows, ranks: BatchRows) -> BatchRows:
    """Return batches of the stretches between bounds that have a rank."""
    has_batch = ranks != _NO_BATCH
    return _joined(bounds[:-1][has_batch], bounds[1:][has_batch] - 1, ranks[has_batch])


def _joined(firsts: BatchRows, lasts: BatchRows, ranks: BatchRows) -> BatchRows:
    """Return sorted batches without overlaps, with equal neighbours made one."""
    if not len(firsts):
        return NO_ROWS
    is_new = (ranks[1:] != ranks[:-1]) | (firsts[1:] != lasts[:-1] + 1)
    begins = np.flatnonzero(np.concatenate(([True], is_new)))
    ends = np.append(begins[1:], len(firsts)) - 1
    batches = np.empty((len(begins), 4), np.int64)
    batches[:, FIRST] = firsts[begins]
    batches[:, LAST] = lasts[ends]
    batches[:, COUNT], batches[:, STATE] = np.divmod(ranks[begins], _STATES)
    return batches
