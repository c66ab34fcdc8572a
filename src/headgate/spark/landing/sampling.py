"""Samples of end offsets, and the lag of every committed offset at that time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client.errors import ClientError
from headgate.log.batch_scan import Ints
from headgate.spark.landing import tables
from headgate.spark.landing.checking import check_sample
from headgate.spark.landing.current import key_numbers
from headgate.spark.landing.files import Folder
from headgate.spark.landing.logs import EndOffset, end_offsets
from headgate.spark.landing.progress import Progress, save_progress
from headgate.spark.landing.state import landed_offsets
from headgate.spark.options import Options
from headgate.spark.schemas import END_OFFSET_SAMPLES, LAG_SAMPLES, arrow_schema

ENDS_SCHEMA: pa.Schema = arrow_schema(END_OFFSET_SAMPLES)
LAG_SCHEMA: pa.Schema = arrow_schema(LAG_SAMPLES)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of all logs at a time, in us since the epoch; or why they could not be read."""

    at: int
    offsets: Sequence[EndOffset]
    problem: Exception | None = None


def ends_now(options: Options) -> Ends:
    """Read the ends of all logs.

    That is done when the ends of the coordinators' logs are read: a landing may take hours, and what groups
    commit meanwhile is not landed, so with later ends their lag would be too large.
    """
    try:
        return Ends(time.time_ns() // 1000, end_offsets(options))
    except (ClientError, OSError) as problem:  # the records are landed all the same
        return Ends(0, (), problem)


def sample(target: Folder, progress: Progress, found: Ends) -> tuple[Progress, dict[str, int]]:
    """Write one sample of the tables of samples; return the progress, and the rows by table.

    Raises what prevented that the ends were read.
    """
    if found.problem is not None:
        raise found.problem
    ends, at = found.offsets, found.at
    run = progress.run + 1
    check_sample(target, tables.sample_file(tables.END_OFFSETS, run, at))
    progress = replace(progress, run=run, sampled_at=at)
    save_progress(target, progress)
    sampled = _ends_table(ends, at)
    target.write_table(tables.sample_file(tables.END_OFFSETS, run, at), sampled)
    rows = {tables.END_OFFSETS: sampled.num_rows}
    if tables.LAG in progress.tables:
        rows[tables.LAG] = 0
        lags = _lags(target, list(progress.of_log()), sampled, rows)
        target.write_tables(tables.sample_file(tables.LAG, run, at), LAG_SCHEMA, lags)
    progress = replace(progress, sampled_at=None)
    save_progress(target, progress)
    return progress, rows


def remove_unfinished_sample(target: Folder, progress: Progress) -> Progress:
    """Remove a sample that was cut short: its tables would not fit together."""
    if progress.sampled_at is None:
        return progress
    for table in tables.SAMPLED:
        target.delete(tables.sample_file(table, progress.run, progress.sampled_at))
    return replace(progress, run=progress.run - 1, sampled_at=None)


def _ends_table(ends: Sequence[EndOffset], at: int) -> pa.Table:
    columns = [
        pa.array([one.where.topic for one in ends], pa.string()),
        pa.array([one.topic_id for one in ends], pa.string()),
        pa.array([one.where.partition for one in ends], pa.int32()),
        pa.repeat(pa.scalar(at, pa.int64()), len(ends)).cast(ENDS_SCHEMA.field("at").type),
        pa.array([one.end for one in ends], pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=ENDS_SCHEMA)


def _lags(
    target: Folder, partitions: Sequence[int], ends: pa.Table, rows: dict[str, int]
) -> Iterator[pa.Table]:
    """Yield the lags of the groups of each partition of the log, and count them."""
    at = ends["at"][0] if ends.num_rows else pa.scalar(None, ENDS_SCHEMA.field("at").type)
    for partition in partitions:
        offsets = landed_offsets(target, partition)
        if not offsets.rows.num_rows:
            continue
        found = with_ends(offsets.rows, ends)
        count = found.num_rows
        found = found.append_column("at", pa.chunked_array([pa.repeat(at, count)]))
        found = found.append_column("lag", pc.subtract(found["end_offset"], found["committed_offset"]))
        where = pa.repeat(pa.scalar(partition, pa.int32()), count)
        rows[tables.LAG] += count
        yield found.append_column("log_partition", where).select(LAG_SCHEMA.names).cast(LAG_SCHEMA)


def with_ends(offsets: pa.Table, ends: pa.Table) -> pa.Table:
    """Add the columns of `ends` to the offsets, in their order: a join would have to be sorted again."""
    key = ("topic", "partition")
    both = pa.concat_tables([ends.select(key), offsets.select(key)])
    number, count = key_numbers(both, key), ends.num_rows
    row_of: Ints = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    row_of[number[:count]] = np.arange(count)
    row = row_of[number[count:]]
    found = ends.take(pa.array(row, mask=row < 0))
    for name in ("topic_id", "end_offset"):
        offsets = offsets.append_column(name, found[name])
    return offsets
