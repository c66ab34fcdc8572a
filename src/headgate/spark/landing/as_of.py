"""The committed offsets of a target, now or as of a time: read from the tables, without Spark and without a
broker.

The state at a time is a snapshot (`offsets_current`, or one of `offsets_daily`) all of whose commits have
that time or an earlier one, and the later rows of `offset_commits` up to that time, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.domain.ids import Millis
from headgate.domain.times import as_datetime, millis
from headgate.log.batch_scan import Bits, Ints
from headgate.spark.landing import tables
from headgate.spark.landing.current import (
    COMMITS_SCHEMA,
    CURRENT_SCHEMA,
    KEY,
    MARKER_COLUMNS,
    MARKERS,
    Offsets,
    advance,
    key_numbers,
    nothing_at,
)
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import Gap, LandedPartition, LandingRefused, read_progress
from headgate.spark.landing.state import LAST_TIME_KEY, landed_offsets, load_offsets_file
from headgate.spark.schemas import GROUP_EVENTS, arrow_schema

SCHEMA: pa.Schema = pa.schema(
    [
        *CURRENT_SCHEMA,
        pa.field("log_partition", pa.int32()),
        # False: compaction removed records before they were landed, and the offset at the time among them.
        pa.field("is_known", pa.bool_()),
    ]
)
"""The columns of the result."""

_KEY_SCHEMA: pa.Schema = pa.schema([COMMITS_SCHEMA.field(name) for name in (*KEY, "log_offset")])
_MARKERS_SCHEMA: pa.Schema = pa.schema([arrow_schema(GROUP_EVENTS).field(name) for name in MARKER_COLUMNS])


def offsets_as_of(target: str, time: datetime | int, group_id: str | None = None) -> pa.Table:
    """Return the committed offsets at a time, of all groups or one: `SCHEMA`.

    The time is a datetime with a time zone, or in ms since the epoch.

    Like `Admin.offsets_as_of`, it counts a commit from its commit timestamp on. An offset that is not known
    has a row with `is_known` false; without a row, there was no offset, unless the time is in a gap
    (`gaps_at`). A time after `landed_until` gives what is landed. Raises LandingRefused if the target has no
    such tables, OSError, OptionError if it is no folder or URI, and ValueError or TypeError for what is no
    time.
    """
    return _sorted(_as_of(Folder(target), millis(time) * 1000 + 999, group_id))


def gaps_at(target: str, time: datetime | int) -> list[int]:
    """Return the partitions of `__consumer_offsets` with a gap at a time.

    Compaction removed records from them before they were landed. An offset of which it also removed the last
    record, because the offset was deleted, has no row. Raises as `offsets_as_of`.
    """
    time_us = millis(time) * 1000 + 999
    return [number for number, one in _partitions(Folder(target)).items() if _gaps_at(one, time_us)]


def offsets_now(target: str, group_id: str | None = None) -> pa.Table:
    """Return the committed offsets at the end of what is landed.

    Raises LandingRefused, OSError, OptionError if it is no folder or URI.
    """
    return _sorted(_now(Folder(target), group_id))


def landed_until(target: str) -> datetime | None:
    """Return a time before which all that was written is landed.

    It is that of the last run that landed from a broker's port, by the clock of its machine; of the stop of
    the Headgate whose directory was landed; or, of the directory of a Kafka, of its latest landed commit.
    None if that is not known: only an earlier version landed, or the source was the directory of a running
    server. Raises LandingRefused, OSError, OptionError if it is no folder or URI.
    """
    folder = Folder(target)
    progress = read_progress(folder)
    if progress is None:
        raise LandingRefused(f"there are no landed tables in {folder.uri}")
    return None if progress.landed_until is None else as_datetime(Millis(progress.landed_until // 1000))


def _sorted(parts: Iterator[pa.Table]) -> pa.Table:
    found = pa.concat_tables([SCHEMA.empty_table(), *parts])
    return found.sort_by([(column, "ascending") for column in KEY])


def _partitions(target: Folder, *needed: str) -> dict[int, LandedPartition]:
    progress = read_progress(target)
    if progress is None:
        raise LandingRefused(f"there are no landed tables in {target.uri}")
    if missing := [table for table in needed if table not in progress.tables]:
        raise LandingRefused(f"{target.uri} has no table {missing[0]}; land {', '.join(needed)} elsewhere")
    return progress.of_log()


def _now(target: Folder, group_id: str | None) -> Iterator[pa.Table]:
    for partition in _partitions(target, tables.OFFSETS_CURRENT):
        rows = _of_group(landed_offsets(target, partition).rows, group_id)
        yield _result(rows, np.ones(rows.num_rows, np.bool_), partition)


def _as_of(target: Folder, time_us: int, group_id: str | None) -> Iterator[pa.Table]:
    needed = (tables.OFFSET_COMMITS, tables.GROUP_EVENTS, tables.OFFSETS_CURRENT)
    for partition, landed in _partitions(target, *needed).items():
        base = _snapshot(target, partition, time_us) or nothing_at(landed.start)
        tail = _Tail(target, partition, base.end, landed.end)
        tail.check(landed.gaps)
        chosen = None if group_id is None else pc.field("group_id") == group_id
        found = advance(
            base, tail.commits(COMMITS_SCHEMA, _is_due(time_us), chosen), tail.markers(time_us), landed.end
        )
        gaps = _gaps_at(landed, time_us)
        rows = _of_group(found.rows, group_id)
        yield _result(rows, _is_known(rows["log_offset"], gaps), partition)
        if gaps:
            yield _unknown(rows, tail.commits(_KEY_SCHEMA, _is_later(time_us), chosen), partition)


def _gaps_at(landed: LandedPartition, time_us: int) -> list[Gap]:
    return [gap for gap in landed.gaps if gap.since <= time_us < gap.until]


def _snapshot(target: Folder, partition: int, time_us: int) -> Offsets | None:
    """Return the last snapshot all of whose commits have this time or an earlier one."""
    folder = f"{tables.OFFSETS_DAILY}/log_partition={partition}"
    daily = reversed([name for name in target.names(folder) if tables.is_landed(name)])
    for name in (tables.current_file(tables.OFFSETS_CURRENT, partition), *daily):
        try:
            metadata = target.footer(name).metadata or {}
        except FileNotFoundError:
            continue
        if int(metadata.get(LAST_TIME_KEY, 0)) <= time_us:
            found = load_offsets_file(target, name)
            # A run may have replaced the file since.
            if found is not None and found.last_time <= time_us:
                return found
    return None


@dataclass(frozen=True, slots=True)
class _Tail:
    """The landed rows of a partition behind a snapshot, from `start` up to but not including `end`.

    What a read chooses is in the terms of the statistics of a file, so that a file of later days is not read.
    """

    target: Folder
    partition: int
    start: int
    end: int

    def commits(self, schema: pa.Schema, is_wanted: pc.Expression, chosen: pc.Expression | None) -> pa.Table:
        """Return columns of commits and tombstones, in log order."""
        where = is_wanted if chosen is None else is_wanted & chosen
        return self._read(tables.OFFSET_COMMITS, schema, where)

    def markers(self, time_us: int) -> pa.Table:
        """Return the transaction markers up to a time, in log order."""
        where = (pc.field("log_timestamp") <= _at(time_us)) & pc.field("event").isin(MARKERS)
        return self._read(tables.GROUP_EVENTS, _MARKERS_SCHEMA, where)

    def check(self, gaps: Sequence[Gap]) -> None:
        """Refuse a tail without all of its files (dates may be deleted): each record has a row in one of two
        tables. Raises LandingRefused.
        """
        known = [(gap.start, gap.end) for gap in gaps]
        for table in (tables.OFFSET_COMMITS, tables.GROUP_EVENTS):
            known += map(tables.bounds_in, self._names(table))
        at = self.start
        for first, last in sorted(known):
            at = max(at, last) if first <= at else at
        if at < self.end:
            raise LandingRefused(
                f"{self.target.uri} has no rows of log_partition={self.partition} from offset {at} on, which "
                "were landed: the offsets as of that time are not known"
            )

    def _names(self, table: str) -> list[str]:
        names = tables.whole_files(self.target.names(f"{table}/log_partition={self.partition}"))
        return [name for name in names if tables.bounds_in(name)[1] > self.start]

    def _read(self, table: str, schema: pa.Schema, where: pc.Expression) -> pa.Table:
        offset = pc.field("log_offset")
        where &= (offset >= self.start) & (offset < self.end)
        parts = [
            self.target.read_table(name, schema.names, where).select(schema.names)
            for name in self._names(table)
        ]
        found = pa.concat_tables([schema.empty_table(), *parts])
        return found.sort_by([("log_offset", "ascending")])


def _is_due(time_us: int) -> pc.Expression:
    """Choose the commits and tombstones whose time (`times_of`) is not after this one."""
    at, committed, logged = _at(time_us), pc.field("commit_timestamp"), pc.field("log_timestamp")
    return (committed <= at) | (committed.is_null() & (logged <= at))


def _is_later(time_us: int) -> pc.Expression:
    """Choose the others: null is no answer of an expression, so this is not its negation."""
    at, committed, logged = _at(time_us), pc.field("commit_timestamp"), pc.field("log_timestamp")
    return (committed > at) | (committed.is_null() & (logged > at))


def _at(time_us: int) -> pa.Scalar:
    return pa.scalar(time_us, COMMITS_SCHEMA.field("log_timestamp").type)


def _of_group(rows: pa.Table, group_id: str | None) -> pa.Table:
    return rows if group_id is None else rows.filter(pc.equal(rows["group_id"], group_id))


def _is_known(log_offset: pa.ChunkedArray, gaps: list[Gap]) -> Bits:
    """A row from before a gap may have been replaced in it by a record that compaction removed."""
    is_known: Bits = np.ones(len(log_offset), np.bool_)
    at: Ints = np.asarray(log_offset).astype(np.int64)
    for gap in gaps:
        is_known &= at >= gap.known_from
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
