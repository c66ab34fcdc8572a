"""Find the records of the coordinator's log that belong to incomplete runs.

A commit too large for one batch is a run of records over several batches (`headgate.records.runs`). If a
crash cuts it, none of its records take effect. The records of a run have consecutive offsets, so a run is
complete if its last record exists: in these records, or later in the log.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import Bits, Ints, gather
from headgate.records.runs import HEADER_KEY, RUN_PLACE_BYTES

Run = tuple[int, int]
"""The offset of a run's first record, and the number of its records."""


def incomplete(records: Records, run_at: Callable[[int], Run | None]) -> Bits:
    """Return which records are in incomplete runs; `run_at` returns the run of the record at an offset."""
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
    """Return the run of the record at an offset; None if it is in no run or missing."""
    rows, first, total = _places(records)
    for row, *run in zip(rows.tolist(), first.tolist(), total.tolist(), strict=True):
        if records.offset[row] == offset:
            return run[0], run[1]
    return None


def last_run(records: Records) -> Run | None:
    """Return the run of the last record; None if it is in no run."""
    return run_of(records, int(records.offset[-1])) if len(records) else None


def _places(records: Records) -> tuple[Ints, Ints, Ints]:
    """Return the rows of records in runs, and for each the first offset and the size of its run."""
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
