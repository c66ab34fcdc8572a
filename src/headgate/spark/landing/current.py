"""The committed offsets at one position of a partition of the coordinator's log, and the step to a later one.

Offsets are ordered by their position in the log, as in the coordinator:

1. The last commit of a key holds, until a tombstone after it.
2. A transactional commit takes effect at the commit marker of its producer, unless a later commit or
   tombstone of the key was there before the marker. Without a marker it is pending.
3. The time of a commit is its commit timestamp, that of a tombstone or a marker the timestamp of its record.
   A transactional commit has the later time of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.log.batch_scan import Bits, Ints
from headgate.spark.schemas import LATEST_OFFSETS, OFFSET_COMMITS, arrow_schema

KEY = ("group_id", "topic", "partition")
COMMITS_SCHEMA: pa.Schema = pa.schema(
    [field for field in arrow_schema(OFFSET_COMMITS) if field.name != "log_partition"]
)
CURRENT_SCHEMA: pa.Schema = pa.schema(
    [field for field in arrow_schema(LATEST_OFFSETS) if field.name != "log_partition"]
)
"""The columns of `offsets_current`; the partition of the log is in the path."""

MARKER_COLUMNS = ("log_offset", "log_timestamp", "event", "producer_id")
NO_TIME = -1
_MOST_NUMBERS_A_ROW = 4
_COMMITTED, _ABORTED = "transaction_committed", "transaction_aborted"
MARKERS = (_COMMITTED, _ABORTED)
"""The events that are transaction markers."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The committed offsets at the end offset `end`: one row for each key, and pending commits.

    `last_time` is the latest time of any commit, tombstone or marker before `end`, in us since the epoch;
    `time_before` was that at the start of the range that was landed last, NO_TIME if it is not known.
    """

    end: int
    last_time: int
    rows: pa.Table
    pending: pa.Table
    time_before: int = NO_TIME


def nothing_at(end: int) -> Offsets:
    """Return the state without offsets."""
    return Offsets(end, NO_TIME, CURRENT_SCHEMA.empty_table(), COMMITS_SCHEMA.empty_table())


def advance(before: Offsets, commits: pa.Table, events: pa.Table, end: int) -> Offsets:
    """Return the state at `end`.

    `commits` has the rows of `offset_commits` from `before.end` to `end`, in any order; `events` the rows of
    `group_events`, of which only the markers count, with `MARKER_COLUMNS`.
    """
    markers = markers_of(events)
    last_time = max(before.last_time, _latest(times_of(commits)), _latest(markers["log_timestamp"]))
    commits = commits.select(COMMITS_SCHEMA.names)
    is_transactional = pc.fill_null(commits["is_transactional"], False)
    pending = pa.concat_tables([before.pending, commits.filter(is_transactional)])
    settled, pending = _settle(pending, markers)
    # Mostly there are none: a filter would copy all columns.
    has_any = pc.any(is_transactional).as_py()
    plain = commits.filter(pc.invert(is_transactional)) if has_any else commits
    rows = _fold(before.rows, plain, settled)
    return Offsets(end, last_time, rows, _not_removed(pending, plain))


def markers_of(events: pa.Table) -> pa.Table:
    """Return the transaction markers among events."""
    is_marker = pc.is_in(events["event"], value_set=pa.array(MARKERS))
    return events.select(list(MARKER_COLUMNS)).filter(is_marker)


def times_of(commits: pa.Table) -> pa.ChunkedArray:
    """Return the time of each commit and tombstone."""
    return pc.coalesce(commits["commit_timestamp"], commits["log_timestamp"])


def _settle(pending: pa.Table, markers: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the commits whose transaction was committed, and those that are still pending."""
    if not pending.num_rows or not markers.num_rows:
        return pending.slice(0, 0), pending
    # The first marker of the producer after the commit: one search over pairs of (producer, offset).
    order = [("producer_id", "ascending"), ("log_offset", "ascending")]
    markers = markers.sort_by(order)
    producers, of_marker = np.unique(_ints(markers["producer_id"]), return_inverse=True)
    marker_at = _ints(markers["log_offset"])
    commit_at, producer = _ints(pending["log_offset"]), _ints(pending["producer_id"])
    first = min(int(marker_at.min()), int(commit_at.min()))
    width = max(int(marker_at.max()), int(commit_at.max())) - first + 1
    of_commit = np.searchsorted(producers, producer)
    is_known = (of_commit < len(producers)) & (
        producers[np.minimum(of_commit, len(producers) - 1)] == producer
    )
    found = np.searchsorted(of_marker * width + marker_at - first, of_commit * width + commit_at - first)
    at = np.minimum(found, len(marker_at) - 1)
    is_decided = is_known & (found < len(marker_at)) & (of_marker[at] == of_commit)
    is_committed = is_decided & np.asarray(pc.equal(markers["event"], _COMMITTED))[at]
    return pending.filter(pa.array(is_committed)), pending.filter(pa.array(~is_decided))


def _not_removed(pending: pa.Table, commits: pa.Table) -> pa.Table:
    """Return the pending commits without a later tombstone of their key among these commits."""
    tombstones = commits.filter(commits["is_tombstone"])
    if not pending.num_rows or not tombstones.num_rows:
        return pending
    names = [*KEY, "log_offset"]
    both = pa.concat_tables([pending.select(names), tombstones.select(names)]).combine_chunks()
    key, offset = key_numbers(both, KEY), _ints(both["log_offset"])
    is_tombstone = np.arange(both.num_rows) >= pending.num_rows
    removed_at = _last(key, np.where(is_tombstone, offset, -1))
    return pending.filter(pa.array((offset > removed_at[key])[: pending.num_rows]))


def _fold(current: pa.Table, commits: pa.Table, settled: pa.Table) -> pa.Table:
    if not commits.num_rows and not settled.num_rows:
        return current
    names = [*CURRENT_SCHEMA.names, "is_tombstone"]
    alive = pa.array(np.zeros(current.num_rows, np.bool_))
    parts = [
        current.append_column("is_tombstone", alive).select(names),
        commits.select(names),
        settled.select(names),
    ]
    rows = pa.concat_tables(parts)  # without a copy: only the rows that stay are copied
    offset = _ints(rows["log_offset"])
    key = key_numbers(rows, KEY)
    is_tombstone = np.asarray(rows["is_tombstone"])
    is_last: Bits = offset == _last(key, offset)[key]
    return rows.filter(pa.array(is_last & ~is_tombstone)).select(CURRENT_SCHEMA.names)


def key_numbers(rows: pa.Table, columns: tuple[str, ...]) -> Ints:
    """Return a number for each row, equal for rows with equal values in these columns."""
    number: Ints = np.zeros(rows.num_rows, np.int64)
    size = 1
    for column in columns:
        codes = pc.fill_null(rows[column].combine_chunks().dictionary_encode().indices, -1)
        part = np.asarray(codes).astype(np.int64) + 1
        count = int(part.max(initial=0)) + 1
        number, size = number * count + part, size * count
        if size > _MOST_NUMBERS_A_ROW * rows.num_rows:
            # Compact numbers: they number arrays, and products of the numbers of values could overflow.
            found, number = np.unique(number, return_inverse=True)
            size = len(found)
    return number


def _last(key: Ints, position: Ints) -> Ints:
    """Return the highest position of each key."""
    found: Ints = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(found, key, position)
    return found


def _latest(times: pa.ChunkedArray) -> int:
    latest = pc.max(times.cast(pa.int64())).as_py()
    return NO_TIME if latest is None else int(latest)


def _ints(column: pa.ChunkedArray) -> Ints:
    values: Ints = np.asarray(pc.fill_null(column.cast(pa.int64()), -1)).astype(np.int64, copy=False)
    return values
