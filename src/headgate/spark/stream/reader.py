"""The reader of a stream: what Spark calls in a process beside its driver.

Spark calls `latestOffset(start)` when the batch that ends at `start` is durably finished, also when there is
nothing new: there the stream commits. Spark's own `commit` never comes for the last batch.

The tasks get copies of the reader, so nothing happens before the first call of a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.spark import arrow
from headgate.spark.arrow import Rows
from headgate.spark.broker import FetchTask, divide
from headgate.spark.plan import Task
from headgate.spark.reasons import without_stack
from headgate.spark.schemas import STREAM_RECORDS
from headgate.spark.source import REASONS, RECORDS_VIEW, View, ViewReader
from headgate.spark.stream.group import StreamGroup
from headgate.spark.stream.member import GroupInUse, stop_on_sigterm
from headgate.spark.stream.options import StreamOptions
from headgate.spark.stream.positions import ForeignOffsets, StreamOffsets

STREAM_VIEW = View(STREAM_RECORDS, RECORDS_VIEW.rows, RECORDS_VIEW.aliases)


@dataclass(frozen=True)
class StreamTask(FetchTask):
    """The part of a batch that one task reads, and the epoch of each partition."""

    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)


def names_of(options: StreamOptions) -> list[str]:
    """Return the columns of a stream."""
    names = STREAM_VIEW.names(options.read)
    if options.include_epoch or options.read.columns is not None:
        return names
    return [name for name in names if name != "epoch"]


class _BatchReader(ViewReader):
    """Reads the records of a task, with the epoch."""

    def _rows(self, task: Task, where: TopicPartition, records: Records) -> Rows:
        assert isinstance(task, StreamTask)
        rows, epoch = super()._rows(task, where, records), task.epochs[where]
        return Rows(
            rows.count, {**rows.columns, "epoch": lambda: arrow.constant(epoch, rows.count, pa.int32())}
        )


_REASONS = (*REASONS, GroupInUse, ForeignOffsets)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one stream."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self.options = options
        self._batches = _BatchReader(STREAM_VIEW, options.read, schema)
        self._group: StreamGroup | None = None
        self._initial: StreamOffsets | None = None
        self._targets: dict[TopicPartition, int] | None = None
        """With the trigger `availableNow`, the ends of the partitions at the start of the query."""

    # --- in the driver's process ---

    @without_stack(*_REASONS)
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new checkpoint starts: at the group's offsets, else at `startingOffsets`.

        Those are committed first, so that the result is the same if the first batch is repeated.
        """
        if self._initial is None:
            self._initial = self._started().initial()
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch."""
        most = self.options.most_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @without_stack(*_REASONS)
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends of all partitions."""
        self._targets = self._started().log_ends()

    @without_stack(*_REASONS)
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit `start`, and return the end of the next batch; `start` itself if there is nothing new.

        With the trigger `availableNow` that ends the query: the stream leaves the group now, because Spark
        does not wait for `stop`.
        """
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        following = self._started().following(StreamOffsets.from_json(start), most, self._targets)
        if following is not None:
            return following.to_json()
        if self._targets is not None:
            self.stop()
        return start

    @without_stack(*_REASONS)
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch. Everything about it is in its end."""
        batch = StreamOffsets.from_json(end)
        epochs = {where: position.epoch for where, position in batch.positions.items()}
        bounds = {
            where: (position.start, position.end)
            for where, position in batch.positions.items()
            if position.start < position.end
        }
        tasks = divide(bounds, self.options.read, self._started().cluster.leaders, batch.topic_ids)
        return [
            StreamTask(
                **{each.name: getattr(task, each.name) for each in fields(FetchTask) if each.init},
                epochs={offsets.where: epochs[offsets.where] for offsets in task.ranges},
            )
            for task in tasks
        ]

    def stop(self) -> None:
        """Leave the group."""
        if self._group is not None:
            self._group.leave()
            self._group = None

    def _started(self) -> StreamGroup:
        if self._group is None:
            stop_on_sigterm()
            self._group = StreamGroup(self.options)
        return self._group

    # --- in a task ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task, as Arrow record batches."""
        if isinstance(partition, StreamTask):
            yield from self._batches.read(partition)
