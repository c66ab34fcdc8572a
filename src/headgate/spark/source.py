"""The readers behind the data sources, which Spark calls to plan a read and to run its tasks.

All of them read a log the same way and differ in the view of its records. A task decodes in its own Python
worker and returns Arrow record batches to Spark: no row becomes a Python object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from headgate.client.errors import AuthenticationFailed, ConnectionFailed, RequestTimedOut, TlsFailed
from headgate.domain.ids import TopicPartition
from headgate.domain.wording import counted
from headgate.log.batch_records import Records, unpack
from headgate.log.batch_scan import Bits, Corruption, CorruptLog, only
from headgate.spark import arrow, broker, segments
from headgate.spark.arrow import Column, Rows
from headgate.spark.memory import keep_freed_memory
from headgate.spark.options import OptionError, Options, choose_columns
from headgate.spark.plan import MissingData, Task
from headgate.spark.reasons import without_stack
from headgate.spark.run_rows import Run, incomplete, run_of
from headgate.spark.schemas import (
    CORRUPTIONS,
    GROUP_EVENTS,
    OFFSET_COMMITS,
    RECORDS,
    SHARE_DELIVERIES,
    TRANSACTIONS,
    arrow_schema,
)

REASONS = (
    OptionError,
    MissingData,
    ConnectionFailed,
    RequestTimedOut,
    TlsFailed,
    AuthenticationFailed,
)
"""Errors of a plan whose message says all: the user, or whoever runs the brokers, can mend the cause."""

FEWEST_ROWS = 10_000
FEWEST_BYTES = 4 << 20
"""A record batch for Spark has at least so many rows or bytes, except for the last one of a task."""


class Taken(Enum):
    """The records that a view includes, by the runs of the coordinator's log."""

    EVERYTHING = auto()
    COMPLETE = auto()
    INCOMPLETE = auto()


@dataclass(frozen=True, slots=True)
class View:
    """A view of a log: which records, and which columns.

    `aliases` maps column names of earlier releases to the current names.
    """

    schema: StructType
    rows: Callable[[Records, TopicPartition], Rows]
    aliases: Mapping[str, str] = field(default_factory=dict)
    takes: Taken = Taken.EVERYTHING

    def names(self, options: Options) -> list[str]:
        """Return the columns that the options select. Raises OptionError."""
        every = self.schema.fieldNames()
        if options.columns is not None:
            return choose_columns(options.columns, [*every, *self.aliases])
        return [name for name in every if options.include_headers or name != "headers"]

    def only(self, names: Sequence[str]) -> StructType:
        """Return the schema of these columns."""
        fields = [self.schema[self.aliases.get(name, name)] for name in names]
        return StructType(
            [
                StructField(name, kept.dataType, kept.nullable)
                for name, kept in zip(names, fields, strict=True)
            ]
        )

    def names_in(self, schema: StructType) -> list[str]:
        """Return the requested columns of a schema. Raises OptionError for a column that the view lacks."""
        names = choose_columns(tuple(schema.fieldNames()), [*self.schema.fieldNames(), *self.aliases])
        for name, ours in zip(names, self.only(names), strict=True):
            if schema[name].dataType != ours.dataType:
                kind = ours.dataType.simpleString()
                raise OptionError(
                    f"column {name} is {kind}, not {schema[name].dataType.simpleString()}: cast it afterwards"
                )
        return names


@dataclass(frozen=True, slots=True)
class _RowsOf:
    """The function `rows` of a module, which is imported when a task reads records.

    Spark starts three processes for a stream that read none. With what they need not import, they start in
    half of the time.
    """

    module: str

    def __call__(self, records: Records, where: TopicPartition) -> Rows:
        found: Rows = import_module(f"headgate.spark.{self.module}").rows(records, where)
        return found


def _record_rows(records: Records, where: TopicPartition) -> Rows:
    """Return all data records, as `schemas.RECORDS`."""
    records = only(records, ~records.is_control)
    payload, count = records.payload, len(records)
    appended = records.batches.uses_log_append_time[records.batch]
    columns: dict[str, Column] = {
        "topic": lambda: arrow.constant(where.topic, count, pa.string()),
        "partition": lambda: arrow.constant(where.partition, count, pa.int32()),
        "offset": lambda: arrow.integers(records.offset, pa.int64()),
        "timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "timestampType": lambda: pa.array(appended).cast(pa.int32()),
        "key": lambda: arrow.binaries(payload, records.key_at, records.key_size),
        "value": lambda: arrow.binaries(payload, records.value_at, records.value_size),
        "headers": lambda: arrow.headers(records),
    }
    return Rows(count, columns)


RECORDS_VIEW = View(RECORDS, _record_rows, {"timestamp_type": "timestampType"})
OFFSET_COMMITS_VIEW = View(OFFSET_COMMITS, _RowsOf("commit_columns"), takes=Taken.COMPLETE)
INCOMPLETE_COMMITS_VIEW = View(OFFSET_COMMITS, _RowsOf("commit_columns"), takes=Taken.INCOMPLETE)
OFFSETS_HISTORY_VIEW = View(OFFSET_COMMITS, _RowsOf("history_columns"))
GROUP_EVENTS_VIEW = View(GROUP_EVENTS, _RowsOf("event_columns"), takes=Taken.COMPLETE)
TRANSACTIONS_VIEW = View(TRANSACTIONS, _RowsOf("transaction_columns"), takes=Taken.COMPLETE)
SHARE_DELIVERIES_VIEW = View(SHARE_DELIVERIES, _RowsOf("share_columns"), takes=Taken.COMPLETE)
CORRUPTIONS_VIEW = View(CORRUPTIONS, _record_rows)
"""Its rows are not made from records."""


def plan(options: Options) -> list[Task]:
    """Fix the extent of a read and divide it among tasks."""
    return segments.plan(options) if options.path is not None else broker.plan(options)


class ViewReader(DataSourceReader):
    """Reads a view of a topic's log."""

    def __init__(self, view: View, options: Options, schema: StructType | None = None) -> None:
        """With a `schema`, only its columns are read."""
        self.view = view
        self.options = options
        self.names = view.names(options) if schema is None else view.names_in(schema)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return arrow_schema(self.view.only(self.names))

    @without_stack(*REASONS)
    def partitions(self) -> list[InputPartition]:
        """Return one `Task` for each Spark task."""
        return list(plan(self.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task, as Arrow record batches. Raises CorruptLog at an unreadable batch."""
        assert isinstance(partition, Task)
        keep_freed_memory()
        return joined(self._batches(partition))

    def _batches(self, partition: Task) -> Iterator[pa.RecordBatch]:
        schema = self.arrow_schema
        columns = [self.view.aliases.get(name, name) for name in self.names]
        skipped: list[Corruption] = []
        for where, records, corruptions in _records(partition):
            self._judge(corruptions, skipped)
            rows = self._rows(partition, where, self._taken(partition, where, records))
            if rows.count:
                arrays = [rows.columns[name]() for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if skipped:
            size = sum(corruption.size for corruption in skipped)
            print(
                f"headgate: skipped {counted(len(skipped), 'unreadable part')} of {self.options.topics}, "
                f"{counted(size, 'byte')} in all; the first is {skipped[0]}",
                file=sys.stderr,
            )

    def _rows(self, task: Task, where: TopicPartition, records: Records) -> Rows:
        return self.view.rows(records, where)

    def _taken(self, task: Task, where: TopicPartition, records: Records) -> Records:
        """Return the records that the view includes."""
        if self.view.takes is Taken.EVERYTHING:
            return records
        is_incomplete = _is_incomplete(task, where, records)
        return only(records, is_incomplete == (self.view.takes is Taken.INCOMPLETE))

    def _judge(self, corruptions: list[Corruption], skipped: list[Corruption]) -> None:
        found = [corruption for corruption in corruptions if not corruption.is_tail]
        if found and self.options.fail_on_corrupt:
            raise CorruptLog(
                f"{found[0]}; to read on without it set failOnCorrupt to false, to list all such places use "
                "headgate.spark.corruptions"
            )
        skipped += found


class HistoryReader(ViewReader):
    """Reads the history of offsets, which is empty if none is kept or nothing was moved to it yet."""

    def __init__(self, view: View, options: Options, schema: StructType | None = None) -> None:
        """With a `schema`, only its columns are read."""
        _refuse_committed(options, "a history of offsets")
        super().__init__(view, options, schema)

    @without_stack(*REASONS)
    def partitions(self) -> list[InputPartition]:
        """Return one `Task` for each Spark task; without a history, one that reads nothing."""
        try:
            return super().partitions()
        except MissingData:
            return [Task()]


class CorruptionsReader(DataSourceReader):
    """Reads only the unreadable parts of a log."""

    def __init__(self, options: Options, schema: StructType | None = None) -> None:
        """With a `schema`, only its columns are read."""
        _refuse_committed(options, "a list of corruptions")
        self.options = options
        self.schema = CORRUPTIONS_VIEW.only(
            CORRUPTIONS_VIEW.names(options) if schema is None else CORRUPTIONS_VIEW.names_in(schema)
        )

    @without_stack(*REASONS)
    def partitions(self) -> list[InputPartition]:
        """Return one `Task` for each Spark task."""
        return list(plan(self.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one row for each part of the log that cannot be read."""
        assert isinstance(partition, Task)
        schema = arrow_schema(self.schema)
        for where, _, corruptions in _records(partition):
            if corruptions:
                rows = [_corruption_row(where, corruption) for corruption in corruptions]
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _refuse_committed(options: Options, what: str) -> None:
    if options.is_committed_only:
        raise OptionError(f"option isolationLevel: read_committed does not go with {what}")


def _corruption_row(where: TopicPartition, corruption: Corruption) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        **{name: getattr(corruption, name) for name in Corruption.__slots__},
    }


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of a size that is worth their transfer to Spark.

    A read of thousands of small partitions has thousands of small batches, and Spark takes a millisecond or
    more for each.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= FEWEST_ROWS or size >= FEWEST_BYTES:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def complete_records(task: Task) -> Iterator[Records]:
    """Yield the records of a task that are in no incomplete run, with all batches read. Raises CorruptLog."""
    for where, records, corruptions in _records(task):
        if found := [corruption for corruption in corruptions if not corruption.is_tail]:
            raise CorruptLog(f"{where}: {found[0]}")
        yield only(records, ~_is_incomplete(task, where, records))


def _is_incomplete(task: Task, where: TopicPartition, records: Records) -> Bits:
    return incomplete(records, lambda offset: _run_at(task, where, offset))


def _run_at(task: Task, where: TopicPartition, offset: int) -> Run | None:
    """Return the run of a later record of the log."""
    for scan in task.scans_at(where, offset):
        for records, _ in unpack(scan):
            if len(records):
                return run_of(records, offset)
    return None


def _records(task: Task) -> Iterator[tuple[TopicPartition, Records, list[Corruption]]]:
    """Yield all records of a task, each piece with the corruptions found since the previous one."""
    for where, scan in task.scans():
        for records, corruptions in unpack(scan):
            yield where, records, corruptions
