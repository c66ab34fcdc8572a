"""Which records of the coordinator's log belong to incomplete runs.

A commit too large for one batch is a run of records over several (`headgate.records.runs`). A crash may cut
it; then none of its records count. The records of a run follow each other without a gap, so a run is
complete when its last record is there: if not among the records at hand, then further on in the log.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import Bits, Ints, gather
from headgate.records.runs import HEADER_KEY, RUN_PLACE_BYTES

Run = tuple[int, int]
"""The offset of a run's first record, and how many records it has."""


def incomplete(records: Records, run_at: Callable[[int], Run | None]) -> Bits:
    """Which records are of incomplete runs; `run_at` tells the run of the record at an offset of the log."""
    found = np.zeros(len(records), np.bool_)
    rows, first, total = _places(records)
    if not len(rows):
        return found
    runs = list(zip(first.tolist(), total.tolist(), strict=True))
    at_hand: dict[int, Run] = dict(zip(records.offset[rows].tolist(), runs, strict=True))
    is_incomplete: dict[Run, bool] = {}
    for run in set(runs):
        last = run[0] + run[1] - 1
        is_incomplete[run] = (at_hand[last] if last in at_hand else run_at(last)) != run
    found[rows] = [is_incomplete[run] for run in runs]
    return found


def run_of(records: Records, offset: int) -> Run | None:
    """The run of the record at an offset; None if it is in none, or not there."""
    rows, first, total = _places(records)
    for row, *run in zip(rows.tolist(), first.tolist(), total.tolist(), strict=True):
        if records.offset[row] == offset:
            return run[0], run[1]
    return None


def last_run(records: Records) -> Run | None:
    """The run of the last record; None if it is in none."""
    return run_of(records, int(records.offset[-1])) if len(records) else None


def _places(records: Records) -> tuple[Ints, Ints, Ints]:
    """The rows of records that are in runs, and of each the run's first offset and its size."""
    if not records.header_count.any():
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    headers, _ = read_headers(records.payload, records.headers_at, records.headers_end, records.header_count)
    candidates = np.flatnonzero(
        (headers.key_size == len(HEADER_KEY)) & (headers.value_size == RUN_PLACE_BYTES)
    )
    name = np.frombuffer(HEADER_KEY, np.uint8)
    octets = np.frombuffer(records.payload, np.uint8)
    spelt = octets[headers.key_at[candidates][:, None] + np.arange(len(name))]
    chosen = candidates[(spelt == name).all(axis=1)]
    at = headers.value_at[chosen]
    first = gather(records.payload, ">i8", at).astype(np.int64)
    total = gather(records.payload, ">i4", at + 12).astype(np.int64)
    return headers.row[chosen], first, total
