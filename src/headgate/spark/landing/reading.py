"""Read a range of one partition of a coordinator's log, once: its checks and the rows of its views."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicName, TopicPartition
from headgate.log.batch_records import Records, unpack
from headgate.log.batch_scan import only
from headgate.spark import commit_columns, event_columns
from headgate.spark.arrow import Rows
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.landing import tables
from headgate.spark.landing.epochs import Epochs, what_is_in
from headgate.spark.options import Options
from headgate.spark.plan import Task
from headgate.spark.schemas import arrow_schema
from headgate.spark.source import complete_records, plan

ATTEMPTS = 5
"""Maximum number of reads of a range that compaction rewrites during the read."""

MOST_BYTES = 1 << 30
"""Maximum size of the rows of a range, in bytes in memory, which limits a worker's memory. A column of Arrow
cannot be sorted if it has twice as many.
"""

_WHERE_COLUMN = "log_partition"
"""Not in the files of a table: it is in their path."""


class TooLarge(Exception):
    """The rows of a range are larger than allowed. Those up to the offset `end` are as large as allowed."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.end = end


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets of one partition, from `start` up to but not including `end`.

    `epoch` is the leader epoch of the last batch before `start`, -1 if there is none or it is not to be
    checked. `log_start` is the first offset of the log: earlier ones were deleted.
    """

    where: TopicPartition
    start: int
    end: int
    epoch: int = -1
    log_start: int = 0
    is_limited: bool = True
    """Whether its rows are limited to `MOST_BYTES`."""


@dataclass(frozen=True, slots=True)
class RangeRead:
    """The rows of the views by table, the epoch of the last batch, and whether records are missing."""

    rows: dict[str, pa.Table]
    epoch: int
    has_gap: bool
    is_torn: bool = False
    """Whether compaction removed records of the range while it was read: the rows are of no single moment."""


def options_of(options: Options, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Options:
    """Return the options that read a range of each of these partitions, in one task."""
    partitions: dict[TopicName, tuple[int, ...]] = {}
    for where in ranges:
        partitions[where.topic] = (*partitions.get(where.topic, ()), where.partition)
    return replace(
        options,
        topics=replace(options.topics, names=(), partitions=partitions),
        starting_offsets={where: start for where, (start, _) in ranges.items()},
        ending_offsets={where: end for where, (_, end) in ranges.items()},
        min_partitions=1,
    )


def read_range(options: Options, wanted: LogRange, views: Collection[str]) -> RangeRead:
    """Read the rows of these views of the log (`tables.VIEWS`) in a range.

    Raises LandingRefused if the epochs show that the log was written anew, TooLarge, CorruptLog, MissingData,
    CompactedWhileRead, ClientError, OSError.
    """
    for attempt in range(ATTEMPTS):
        try:
            found = _read_once(options, wanted, views)
            if not found.is_torn or attempt + 1 == ATTEMPTS:
                return found
        except CompactedWhileRead:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError


def _read_once(options: Options, wanted: LogRange, views: Collection[str]) -> RangeRead:
    where = wanted.where
    epochs = Epochs(where, wanted.start, wanted.end, wanted.epoch)
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in views}
    size = 0
    first = max(wanted.start - (wanted.epoch >= 0), min(wanted.log_start, wanted.end))
    tasks = plan(options_of(options, {where: (first, wanted.end)}))
    for planned in tasks:
        for records in complete_records(planned):
            epochs.check(records.batches)
            new = only(records, records.offset >= wanted.start)
            for name, batch in _batches(new, views, where):
                found[name].append(batch)
                size += batch.nbytes
            if wanted.is_limited and size > MOST_BYTES and len(new):
                end = int(new.offset[-1]) + 1
                if end < wanted.end:
                    raise TooLarge(end)
    rows = {name: pa.Table.from_batches(batches, view_schema(name)) for name, batches in found.items()}
    is_torn = epochs.has_gap and epochs.seen != _what_is_there(tasks)
    return RangeRead(rows, epochs.last, epochs.has_gap, is_torn)


def _what_is_there(tasks: Sequence[Task]) -> int:
    """Return a checksum of the batches that the tasks read now."""
    seen = 0
    for task in tasks:
        for _, scan in task.scans():
            for records, _ in unpack(scan):
                seen = what_is_in(records.batches, seen)
    return seen


def _batches(
    records: Records, views: Collection[str], where: TopicPartition
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each view; the records are decoded once."""
    if where.topic != GROUP_OFFSETS_TOPIC:
        for name in views:
            yield name, _batch(name, tables.VIEWS[name].rows(records, where))
        return
    commits = commit_columns.read_commits(records)
    if tables.OFFSET_COMMITS in views:
        rows = commit_columns.rows_of(records, commits, where)
        yield tables.OFFSET_COMMITS, _batch(tables.OFFSET_COMMITS, rows)
    if tables.GROUP_EVENTS in views:
        rows = event_columns.rows_of(only(records, ~commits.fits), where)
        yield tables.GROUP_EVENTS, _batch(tables.GROUP_EVENTS, rows)


def _batch(table: str, rows: Rows) -> pa.RecordBatch:
    schema = view_schema(table)
    if not rows.count:
        return pa.RecordBatch.from_pylist([], schema)
    return pa.RecordBatch.from_arrays([rows.columns[name]() for name in schema.names], schema=schema)


@cache
def view_schema(table: str) -> pa.Schema:
    """Return the columns of the files of a table that is a view of a log."""
    schema = arrow_schema(tables.VIEWS[table].schema)
    return pa.schema([field for field in schema if field.name != _WHERE_COLUMN])
