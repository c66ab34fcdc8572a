"""The committed offsets of a target, now or as of a time: read from the tables, without Spark and without a
broker.

The state at a time is a snapshot (`offsets_current`, or one of `offsets_daily`) all of whose commits have
that time or an earlier one, and the later rows of `offset_commits` up to that time, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.log.batch_scan import Bits, Ints
from headgate.spark.landing import tables
from headgate.spark.landing.current import (
    COMMITS_SCHEMA,
    CURRENT_SCHEMA,
    KEY,
    MARKER_COLUMNS,
    Offsets,
    advance,
    key_numbers,
    markers_of,
    nothing_at,
    times_of,
)
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import Gap, LandedPartition, LandingRefused, read_progress
from headgate.spark.landing.state import LAST_TIME_KEY, load_offsets_file

SCHEMA: pa.Schema = pa.schema(
    [
        *CURRENT_SCHEMA,
        pa.field("log_partition", pa.int32()),
        # False: compaction removed records before they were landed, and the offset at the time among them.
        pa.field("is_known", pa.bool_()),
    ]
)
"""The columns of the result."""


def offsets_as_of(target: str, time_ms: int, group_id: str | None = None) -> pa.Table:
    """Return the committed offsets at a time, in ms since the epoch, of all groups or one: `SCHEMA`.

    Like `Admin.offsets_as_of`, it counts a commit from its commit timestamp on. An offset that is not known
    has a row with `is_known` false; without a row, there was no offset. Raises LandingRefused if the target
    has no such tables, OSError.
    """
    return _sorted(_as_of(Folder(target), time_ms * 1000 + 999, group_id))


def offsets_now(target: str, group_id: str | None = None) -> pa.Table:
    """Return the committed offsets at the end of what is landed. Raises LandingRefused, OSError."""
    return _sorted(_now(Folder(target), group_id))


def _sorted(parts: Iterator[pa.Table]) -> pa.Table:
    found = pa.concat_tables([SCHEMA.empty_table(), *parts])
    return found.sort_by([(column, "ascending") for column in KEY])


def _partitions(target: Folder, *needed: str) -> dict[int, LandedPartition]:
    progress = read_progress(target)
    if progress is None:
        raise LandingRefused(f"there are no landed tables in {target.uri}")
    if missing := [table for table in needed if table not in progress.tables]:
        raise LandingRefused(f"{target.uri} has no table {missing[0]}; land it with {', '.join(needed)}")
    return progress.of_log()


def _now(target: Folder, group_id: str | None) -> Iterator[pa.Table]:
    for partition in _partitions(target, tables.OFFSETS_CURRENT):
        found = load_offsets_file(target, tables.current_file(tables.OFFSETS_CURRENT, partition))
        if found is not None:
            rows = _of_group(found.rows, group_id)
            yield _result(rows, np.ones(rows.num_rows, np.bool_), partition)


def _as_of(target: Folder, time_us: int, group_id: str | None) -> Iterator[pa.Table]:
    needed = (tables.OFFSET_COMMITS, tables.GROUP_EVENTS, tables.OFFSETS_CURRENT)
    for partition, landed in _partitions(target, *needed).items():
        base = _snapshot(target, partition, time_us) or nothing_at(landed.start)
        commits = _tail(target, partition, base.end, landed.end, group_id)
        is_due = pc.less_equal(pc.cast(times_of(commits), pa.int64()), time_us)
        markers = _markers(target, partition, base.end, landed.end)
        markers = markers.filter(pc.less_equal(pc.cast(markers["log_timestamp"], pa.int64()), time_us))
        found = advance(base, commits.filter(is_due), markers, landed.end)
        gaps = [gap for gap in landed.gaps if gap.since <= time_us < gap.until]
        rows = _of_group(found.rows, group_id)
        yield _result(rows, _is_known(rows["log_offset"], gaps), partition)
        if gaps:
            yield _unknown(rows, commits.filter(pc.invert(is_due)), partition)


def _snapshot(target: Folder, partition: int, time_us: int) -> Offsets | None:
    """Return the last snapshot all of whose commits have this time or an earlier one."""
    folder = f"{tables.OFFSETS_DAILY}/log_partition={partition}"
    names = [tables.current_file(tables.OFFSETS_CURRENT, partition), *reversed(target.names(folder))]
    for name in names:
        metadata = target.metadata(name)
        if metadata is not None and int(metadata[LAST_TIME_KEY]) <= time_us:
            return load_offsets_file(target, name)
    return None


def _tail(target: Folder, partition: int, start: int, end: int, group_id: str | None) -> pa.Table:
    """Return the landed commits of a range, in log order."""
    where = _between(start, end)
    if group_id is not None:
        where &= pc.field("group_id") == group_id
    return _read(target, tables.OFFSET_COMMITS, partition, start, COMMITS_SCHEMA, where)


def _markers(target: Folder, partition: int, start: int, end: int) -> pa.Table:
    types = {"log_timestamp": COMMITS_SCHEMA.field("log_timestamp").type, "event": pa.string()}
    schema = pa.schema([pa.field(name, types.get(name, pa.int64())) for name in MARKER_COLUMNS])
    events = _read(target, tables.GROUP_EVENTS, partition, start, schema, _between(start, end))
    return markers_of(events)


def _between(start: int, end: int) -> pc.Expression:
    return (pc.field("log_offset") >= start) & (pc.field("log_offset") < end)


def _read(
    target: Folder, table: str, partition: int, start: int, schema: pa.Schema, where: pc.Expression
) -> pa.Table:
    parts = [
        target.read_table(name, schema.names, where).select(schema.names)
        for name in tables.whole_files(target.names(f"{table}/log_partition={partition}"))
        if tables.bounds_in(name)[1] > start
    ]
    found = pa.concat_tables([schema.empty_table(), *parts])
    return found.sort_by([("log_offset", "ascending")])


def _of_group(rows: pa.Table, group_id: str | None) -> pa.Table:
    return rows if group_id is None else rows.filter(pc.equal(rows["group_id"], group_id))


def _is_known(log_offset: pa.ChunkedArray, gaps: list[Gap]) -> Bits:
    """A row from before a gap may have been replaced in it by a record that compaction removed."""
    is_known: Bits = np.ones(len(log_offset), np.bool_)
    at: Ints = np.asarray(log_offset).astype(np.int64)
    for gap in gaps:
        is_known &= at >= gap.start
    return is_known


def _unknown(rows: pa.Table, later: pa.Table, partition: int) -> pa.Table:
    """Return a row for each key that has no offset at the time, but a record after it."""
    both = pa.concat_tables([rows.select(list(KEY)), later.select(list(KEY))]).combine_chunks()
    number = key_numbers(both, KEY)
    known, number = set(number[: rows.num_rows].tolist()), number[rows.num_rows :]
    _, first = np.unique(number, return_index=True)
    chosen = [at for at in first.tolist() if int(number[at]) not in known]
    keys = later.select(list(KEY)).take(pa.array(chosen, pa.int64()))
    for field in list(CURRENT_SCHEMA)[len(KEY) :]:
        keys = keys.append_column(field, pa.nulls(len(chosen), field.type))
    return _result(keys.select(CURRENT_SCHEMA.names), np.zeros(len(chosen), np.bool_), partition)


def _result(rows: pa.Table, is_known: Bits, partition: int) -> pa.Table:
    where = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
    found = rows.append_column("log_partition", where).append_column("is_known", pa.array(is_known))
    return found.cast(SCHEMA)
