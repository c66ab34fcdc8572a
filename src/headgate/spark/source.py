"""The Python data sources: what Spark calls to plan a read and to carry out its tasks.

All of them read a log the same way and differ in the view they give of its records. A task decodes in its own
Python worker and hands Spark whole Arrow record batches: no row is ever a Python object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC
from headgate.spark import arrow, broker, commit_columns, event_columns, history_columns, segments
from headgate.spark.arrow import Column, Rows
from headgate.spark.options import Options, choose_columns, parse
from headgate.spark.plan import Task
from headgate.spark.scan import Chunk, Corruption, CorruptLog, only
from headgate.spark.schemas import CORRUPTIONS, GROUP_EVENTS, OFFSET_COMMITS, RECORDS, arrow_schema
from headgate.spark.unpack import Records, unpack


@dataclass(frozen=True, slots=True)
class View:
    """A way to see a log: which of its records, and as what columns."""

    schema: StructType
    rows: Callable[[Records, Chunk], Rows]


def _record_rows(records: Records, chunk: Chunk) -> Rows:
    """All data records, as `schemas.RECORDS`."""
    records = only(records, ~records.is_control)
    payload, count = records.payload, len(records)
    appended = records.batches.uses_log_append_time[records.batch]
    columns: dict[str, Column] = {
        "topic": lambda: arrow.constant(chunk.topic, count, pa.string()),
        "partition": lambda: arrow.constant(chunk.partition, count, pa.int32()),
        "offset": lambda: arrow.integers(records.offset, pa.int64()),
        "timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "timestamp_type": lambda: pa.array(appended).cast(pa.int32()),
        "key": lambda: arrow.binaries(payload, records.key_at, records.key_size),
        "value": lambda: arrow.binaries(payload, records.value_at, records.value_size),
        "headers": lambda: arrow.headers(records),
    }
    return Rows(count, columns)


RECORDS_VIEW = View(RECORDS, _record_rows)
OFFSET_COMMITS_VIEW = View(OFFSET_COMMITS, commit_columns.rows)
OFFSETS_HISTORY_VIEW = View(OFFSET_COMMITS, history_columns.rows)
GROUP_EVENTS_VIEW = View(GROUP_EVENTS, event_columns.rows)


def plan(options: Options) -> list[Task]:
    """Fix what a read covers and share it out among tasks."""
    return segments.plan(options) if options.path is not None else broker.plan(options)


class ViewReader(DataSourceReader):
    """Reads a view of a topic's log."""

    def __init__(self, view: View, options: Options) -> None:
        self.view = view
        self.options = options
        self.names = choose_columns(options.columns, view.schema.fieldNames())

    def partitions(self) -> list[InputPartition]:
        """One `Task` for each task."""
        return list(plan(self.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow record batches; raises CorruptLog at a batch that cannot be read."""
        assert isinstance(partition, Task)
        schema = arrow_schema(StructType([self.view.schema[name] for name in self.names]))
        skipped: list[Corruption] = []
        for chunk, records, corruptions in _records(partition):
            self._judge(corruptions, skipped)
            rows = self.view.rows(records, chunk)
            if rows.count:
                arrays = [rows.columns[name]() for name in self.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if skipped:
            size = sum(corruption.size for corruption in skipped)
            print(
                f"headgate: skipped {len(skipped)} unreadable stretches of {self.options.topic}, {size} "
                f"bytes in all; the first is {skipped[0]}",
                file=sys.stderr,
            )

    def _judge(self, corruptions: list[Corruption], skipped: list[Corruption]) -> None:
        found = [corruption for corruption in corruptions if not corruption.is_tail]
        if found and self.options.fail_on_corrupt:
            raise CorruptLog(
                f"{found[0]}; to read on without it set failOnCorrupt to false, to list all such places use "
                "headgate.spark.corruptions"
            )
        skipped += found


class HistoryReader(ViewReader):
    """Reads the history of offsets, which is empty where none is kept or nothing was moved yet."""

    def partitions(self) -> list[InputPartition]:
        """One `Task` for each task; one that reads nothing where there is no history."""
        try:
            return super().partitions()
        except segments.MissingData:
            return [Task(())]


class CorruptionsReader(DataSourceReader):
    """Reads nothing but what cannot be read."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.names = choose_columns(options.columns, CORRUPTIONS.fieldNames())

    def partitions(self) -> list[InputPartition]:
        """One `Task` for each task."""
        return list(plan(self.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row for each stretch of log that cannot be read."""
        assert isinstance(partition, Task)
        schema = arrow_schema(StructType([CORRUPTIONS[name] for name in self.names]))
        for chunk, _, corruptions in _records(partition):
            if corruptions:
                rows = [_corruption_row(chunk, corruption) for corruption in corruptions]
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _corruption_row(chunk: Chunk, corruption: Corruption) -> dict[str, Any]:
    return {
        "topic": chunk.topic,
        "partition": chunk.partition,
        **{name: getattr(corruption, name) for name in Corruption.__slots__},
    }


def _records(task: Task) -> Iterator[tuple[Chunk, Records, list[Corruption]]]:
    """Everything a task reads, and with each piece the corruptions found since the one before."""
    for piece in task.pieces:
        for scan in piece.scans():
            for records, corruptions in unpack(scan):
                yield scan.chunk, records, corruptions


class _LogDataSource(DataSource):
    """What the data sources have in common."""

    view: ClassVar[View]
    topic: ClassVar[str | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.checked = parse(dict(options), self.topic)

    def schema(self) -> StructType:
        """The view's schema, or the columns that were asked for."""
        names = choose_columns(self.checked.columns, self.view.schema.fieldNames())
        return StructType([self.view.schema[name] for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Spark's way to the reader; the schema is always our own."""
        return ViewReader(self.view, self.checked)


class HeadgateDataSource(_LogDataSource):
    """`spark.read.format("headgate")`: a topic's records, with the columns of Spark's Kafka connector."""

    view = RECORDS_VIEW

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate"


class OffsetCommitsDataSource(_LogDataSource):
    """`format("headgate_offset_commits")`: the coordinator's log as `schemas.OFFSET_COMMITS`."""

    view = OFFSET_COMMITS_VIEW
    topic = GROUP_OFFSETS_TOPIC

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate_offset_commits"


class OffsetHistoryDataSource(_LogDataSource):
    """`format("headgate_offset_history")`: what compaction replaced, as `schemas.OFFSET_COMMITS`.

    A record that a crash had moved twice is there twice.
    """

    view = OFFSETS_HISTORY_VIEW
    topic = OFFSETS_HISTORY_TOPIC

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate_offset_history"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Spark's way to the reader."""
        return HistoryReader(self.view, self.checked)


class GroupEventsDataSource(_LogDataSource):
    """`format("headgate_group_events")`: the coordinator's log as `schemas.GROUP_EVENTS`."""

    view = GROUP_EVENTS_VIEW
    topic = GROUP_OFFSETS_TOPIC

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate_group_events"


class CorruptionsDataSource(_LogDataSource):
    """`format("headgate_corruptions")`: what of a topic's log cannot be read, as `schemas.CORRUPTIONS`."""

    view = View(CORRUPTIONS, _record_rows)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate_corruptions"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Spark's way to the reader."""
        return CorruptionsReader(self.checked)


DATA_SOURCES = (
    HeadgateDataSource,
    OffsetCommitsDataSource,
    OffsetHistoryDataSource,
    GroupEventsDataSource,
    CorruptionsDataSource,
)
