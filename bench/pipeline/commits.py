"""The coordinator's log: decoded, through Spark, landed, and its committed offsets.

DuckDB is measured if it is installed, and numba is used if it is: `make bench-spark` installs both, and
`bench.pipeline.ways` tells which are used.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

import headgate.spark
from bench.pipeline.commit_log import PARTITIONS
from bench.pipeline.figures import Figure, peak_bytes, timed, timed_here
from bench.pipeline.ready import ReadyDataSource
from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.spark.landing import current, land, run_on_spark
from headgate.spark.options import parse
from headgate.spark.source import OFFSET_COMMITS_VIEW, ViewReader
from headgate.spark.transforms import latest_offsets

VIEWS = ["offset_commits", "group_events"]


def through_spark(spark: SparkSession, data: Path, commits: int) -> Iterator[Figure]:
    """Measure a sink that does nothing, and what of that is Spark's own."""
    spark.dataSource.register(ReadyDataSource)
    tasks = spark.sparkContext.defaultParallelism

    def to_nothing() -> int:
        headgate.spark.offset_commits(spark, data).write.format("noop").mode("overwrite").save()
        return commits

    def ready_rows() -> int:
        ready = spark.read.format("bench_ready").option("path", str(data))
        frame = ready.option("rows", commits).option("tasks", tasks).load()
        frame.write.format("noop").mode("overwrite").save()
        return commits

    to_nothing()  # start the workers, compile, and read the files into the page cache
    yield timed("Spark, sink that does nothing", to_nothing)
    ready_rows()
    yield timed("the same rows, ready in Python: Spark alone", ready_rows)


def landings(spark: SparkSession, data: Path, target: Path, commits: int) -> Iterator[Figure]:
    """Measure landings, and the memory of the driver."""

    def landed(name: str, tables: list[str]) -> int:
        return land(str(data), str(target / name), run_on_spark(spark), tables).rows["offset_commits"]

    before = peak_bytes()
    yield timed("land commits", lambda: landed("views", VIEWS))
    yield timed("land commits and offsets_current", lambda: landed("states", [*VIEWS, "offsets_current"]))
    yield Figure(
        "memory of the driver's Python that the landings added", commits, memory_bytes=peak_bytes() - before
    )
    yield Figure("heap of the driver's JVM in use after them", commits, memory_bytes=_heap_bytes(spark))


def decoding(data: Path) -> Iterator[Figure]:
    """Measure the decoder in this process, warm."""
    reader = ViewReader(OFFSET_COMMITS_VIEW, parse({"path": str(data), "subscribe": GROUP_OFFSETS_TOPIC}))

    def decode() -> int:
        return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))

    decode()
    yield timed_here("decode to Arrow, one process, warm", decode)


def current_offsets(spark: SparkSession, target: Path, commits: int, groups: int) -> Iterator[Figure]:
    """Measure the committed offsets at the end of what was landed, beside plain PySpark and DuckDB."""
    files = target / "views" / "offset_commits"
    keys = groups * PARTITIONS
    yield _folded(files, keys)

    def plain() -> int:
        assert spark.read.parquet(str(files)).transform(latest_offsets()).count() == keys
        return commits

    yield timed("the same, plain PySpark on the landed files", plain)
    if find_spec("duckdb"):
        yield timed_here("the same, DuckDB on the landed files", lambda: _by_duckdb(files, commits, keys))


def _folded(files: Path, keys: int) -> Figure:
    """Measure the step of a landing, one partition of the log after the other; their reads are not in it."""
    count = found = 0
    seconds = cpu_seconds = 0.0
    for folder in sorted(files.iterdir()):
        rows = ds.dataset(folder).to_table().sort_by([("log_offset", "ascending")])
        events = current.COMMITS_SCHEMA.empty_table()
        events = events.append_column("event", events["group_id"])
        begin, cpu = time.perf_counter(), time.process_time()
        state = current.advance(current.nothing_at(0), rows, events, rows.num_rows)
        seconds += time.perf_counter() - begin
        cpu_seconds += time.process_time() - cpu
        count, found = count + rows.num_rows, found + state.rows.num_rows
    assert found == keys
    what = "offsets_current of landed rows in memory, one process"
    return Figure(what, count, seconds, cpu_seconds=cpu_seconds)


def _by_duckdb(files: Path, commits: int, keys: int) -> int:
    duckdb: Any = importlib.import_module("duckdb")
    query = (
        "select group_id, topic, partition, arg_max(committed_offset, log_offset) from "
        f"read_parquet('{files}/**/*.parquet') group by all"
    )
    assert len(duckdb.sql(query).fetchall()) == keys
    return commits


def _heap_bytes(spark: SparkSession) -> int:
    """Return the heap in use after a collection. Its tasks run in it, too, with a local master."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())
