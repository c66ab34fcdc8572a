"""The merge rule of state batches (F18): over arrays, and one by one where there are a few.

1. A combined list is sorted, without overlaps, and neighbours with equal state and count are one batch.
2. Where two batches overlap, each offset has the higher delivery count; of equal counts, the higher delivery
   state. So the order of merges does not matter, and a repeated merge changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
    new = StateBatches.of(
        [StateBatch(first, last, DeliveryState.AVAILABLE, 0) for first, last in offsets]
    ).rows
    if not len(batches):
        return combined(new)
    bounds = _bounds(batches, new)
    is_new = _ranks_at(new, bounds[:-1]) != _NO_BATCH
    return _between(bounds, np.where(is_new, 0, _ranks_at(batches, bounds[:-1])))


def put(batches: list[StateBatch], new: StateBatch) -> None:
    """Merge one batch into a combined list."""
    if not batches or batches[-1].last_offset < new.first_offset:
        _append(batches, new)
        return
    begin = bisect_right(batches, (new.first_offset,)) - 1
    if begin < 0 or batches[begin].last_offset < new.first_offset - 1:
        begin += 1
    end = bisect_right(batches, (new.last_offset + 2,), begin)
    batches[begin:end] = _overlaid(batches[begin:end], new)


def _overlaid(batches: Sequence[StateBatch], new: StateBatch) -> list[StateBatch]:
    """Return a combined list of these batches and one that overlaps or touches each of them."""
    found: list[StateBatch] = []
    first, end, state, count = new.first_offset, new.last_offset, new.delivery_state, new.delivery_count
    for batch in batches:
        if batch.first_offset < first:
            last = min(batch.last_offset, first - 1)
            _append(found, StateBatch(batch.first_offset, last, batch.delivery_state, batch.delivery_count))
        elif first < batch.first_offset:
            last = min(end, batch.first_offset - 1)
            _append(found, StateBatch(first, last, state, count))
            first = last + 1
        last = min(batch.last_offset, end)
        if first <= last:
            is_higher = (count, state) > (batch.delivery_count, batch.delivery_state)
            higher = new if is_higher else batch
            _append(found, StateBatch(first, last, higher.delivery_state, higher.delivery_count))
            first = last + 1
        if batch.last_offset > end:
            rest = max(batch.first_offset, end + 1)
            _append(found, StateBatch(rest, batch.last_offset, batch.delivery_state, batch.delivery_count))
    if first <= end:
        _append(found, StateBatch(first, end, state, count))
    return found


def _append(batches: list[StateBatch], new: StateBatch) -> None:
    """Add a batch after all others; one that is equal to the last one, and touches it, is joined to it."""
    if batches:
        first, last, state, count = batches[-1]
        if last + 1 == new.first_offset and state == new.delivery_state and count == new.delivery_count:
            batches[-1] = StateBatch(first, new.last_offset, state, count)
            return
    batches.append(new)


def drop_below(batches: list[StateBatch], start_offset: int) -> None:
    """Remove all offsets below one from a combined list."""
    dropped = bisect_right(batches, (start_offset,))
    if dropped and batches[dropped - 1].last_offset >= start_offset:
        dropped -= 1
        batches[dropped] = batches[dropped]._replace(first_offset=start_offset)
    del batches[:dropped]


def kept_few(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return any few batches, in any order, as a combined list of what is not below an offset."""
    kept: list[StateBatch] = []
    for batch in batches:
        if batch.first_offset >= start_offset:
            put(kept, batch)
        elif batch.last_offset >= start_offset:
            put(kept, batch._replace(first_offset=start_offset))
    return kept


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
