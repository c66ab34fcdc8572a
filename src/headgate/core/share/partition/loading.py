"""A window from persisted state batches, in slices: there may be a million.

Offsets between two batches were acquired for the first time when the state was written, or never (R4.3, F14):
they are available with delivery count 0. What the log no longer has of them is archived by the first fetch.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from headgate.core.share.partition.ranges import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    MOST,
    NO_BATCH,
    Ranges,
)
from headgate.records.share_batches import (
    COUNT,
    FIRST,
    LAST,
    PERSISTED_STATES,
    STATE,
    BatchRows,
    StateBatches,
)

SLICE = 8_192
"""Batches that are read in one step, which takes about two milliseconds."""

Ints = NDArray[np.int64]


class InvalidState(Exception):
    """The persisted batches overlap, are not in order, or have an unknown state."""


def load_steps(ranges: Ranges, batches: StateBatches) -> Generator[None, None, bool]:
    """Add `batches` to an empty window; pause at each yield. Ignores offsets below the window's start.

    Return whether a batch is ARCHIVING. Raises InvalidState; the window is then of no use.
    """
    has_archiving = False
    for part in batches.parts:
        for begin in range(0, len(part), SLICE):
            rows = part[begin : begin + SLICE]
            _add_rows(ranges, rows)
            has_archiving = has_archiving or bool((rows[:, STATE] == ARCHIVING).any())
            yield None
    return has_archiving


def _add_rows(ranges: Ranges, rows: BatchRows) -> None:
    firsts, lasts, states = rows[:, FIRST], rows[:, LAST], rows[:, STATE]
    _check(firsts, lasts, states)
    kept = lasts >= ranges.start
    if not kept.any():
        return
    firsts = np.maximum(firsts[kept], ranges.start)
    if firsts[0] < ranges.end:
        raise InvalidState(f"the batch at offset {firsts[0]} overlaps the one before it")
    _add(ranges, firsts, lasts[kept], states[kept], rows[kept, COUNT])


def _check(firsts: Ints, lasts: Ints, states: Ints) -> None:
    if (lasts < firsts).any() or (firsts[1:] <= lasts[:-1]).any():
        raise InvalidState("state batches overlap or are not in the order of their offsets")
    if not np.isin(states, list(PERSISTED_STATES)).all():
        raise InvalidState("a state batch has an unknown delivery state")


def _add(ranges: Ranges, firsts: Ints, lasts: Ints, states: Ints, counts: Ints) -> None:
    """Add ranges and the holes before them to the end of the window."""
    hole_ends = np.concatenate((np.array([ranges.end], np.int64), lasts[:-1] + 1))
    has_hole = firsts > hole_ends
    places = np.arange(len(firsts)) + np.cumsum(has_hole)
    holes = places[has_hole] - 1
    size = len(firsts) + len(holes)
    all_firsts, all_states = np.zeros(size, np.int64), np.full(size, AVAILABLE, np.int8)
    all_counts, batch_firsts = np.zeros(size, np.int16), np.full(size, NO_BATCH, np.int64)
    batch_sizes = np.zeros(size, np.int32)
    all_firsts[places], all_firsts[holes] = firsts, hole_ends[has_hole]
    all_states[places], all_counts[places] = states, counts
    is_complete = (states == ACKNOWLEDGED) | (states == ARCHIVED)
    batch_firsts[places] = np.where(is_complete, NO_BATCH, firsts)
    batch_sizes[places] = np.where(is_complete, 0, np.minimum(lasts - firsts + 1, np.iinfo(np.int32).max))
    columns = (all_firsts, all_states, all_counts, batch_firsts, batch_sizes)
    ends = np.append(all_firsts[MOST::MOST], lasts[-1] + 1).tolist()
    for begin, end in zip(range(0, size, MOST), ends, strict=True):
        _add_chunk(ranges, [one[begin : begin + MOST] for one in columns], end)


def _add_chunk(ranges: Ranges, columns: list[NDArray[np.signedinteger]], end: int) -> None:
    firsts, states, counts, batch_firsts, batch_sizes = columns
    size = len(firsts)
    ranges.add_chunk(
        (
            array("q", firsts.tobytes()),
            array("b", states.tobytes()),
            array("h", counts.tobytes()),
            array("i", bytes(4 * size)),  # NOBODY
            array("q", bytes(8 * size)),
            array("q", batch_firsts.tobytes()),
            array("i", batch_sizes.tobytes()),
            array("q", bytes(8 * size)),
        ),
        end,
    )
