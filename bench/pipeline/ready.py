"""A Python data source that does nothing but yield rows that are ready: what Spark itself costs.

Each task decodes one record batch of the log once, and then yields that batch until it has yielded its rows.
So a read of it takes what PySpark takes to carry such rows from Python to its sink: the limit of any
Python data source with these columns on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.spark.options import parse
from headgate.spark.source import OFFSET_COMMITS_VIEW, ViewReader

_made: dict[str, pa.RecordBatch] = {}
"""The batch of each data directory, as long as this worker lives."""


class ReadyDataSource(DataSource):
    """`format("bench_ready")`: `rows` rows of `offset_commits` from `path`, in `tasks` tasks."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "bench_ready"

    def schema(self) -> StructType:
        """Return the columns of `offset_commits`."""
        return OFFSET_COMMITS_VIEW.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return _ReadyReader(self.options["path"], int(self.options["rows"]), int(self.options["tasks"]))


class _ReadyReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self.path = path
        self.rows = rows
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self.path not in _made:
            _made[self.path] = _first_batch(self.path)
        batch = _made[self.path]
        left = self.rows * (partition.value + 1) // self.tasks - self.rows * partition.value // self.tasks
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def _first_batch(path: str) -> pa.RecordBatch:
    reader = ViewReader(OFFSET_COMMITS_VIEW, parse({"path": path, "subscribe": GROUP_OFFSETS_TOPIC}))
    return next(reader.read(reader.partitions()[0]))
