"""`python -m bench.pipeline`: the coordinator's log through Spark, beside plain PySpark and DuckDB.

The log is made from its number of commits alone, the same bytes each time: 720 groups commit 100 partitions
each, round after round, 100 records a batch, in 8 partitions of `__consumer_offsets`. Measured are the
decoder alone, Spark with a sink that does nothing, the landed tables, the committed offsets at the end of the
log, the memory of the driver, and a read of ten thousand partitions. DuckDB is measured if it is installed
(`pip install '.[bench]'`), and numba is used if it is.
"""

from __future__ import annotations

import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.paths import BUILD
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicName
from headgate.domain.partitioning import partition_for
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import SyncMark, save_sync_mark
from headgate.records import OffsetCommit, encode

GROUPS = 720
PARTITIONS = 100
LOG_PARTITIONS = 8
START_MS = 1_795_000_000_000
ROUND_MS = 5_000
SEGMENT_BYTES = 64 << 20
MANY = 10_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: what, rows, and seconds; or bytes of memory.

    `cpu_seconds` is the processor time of this process, without Spark's: on a busy machine it tells more.
    """

    what: str
    rows: int
    seconds: float
    memory_bytes: int = 0
    cpu_seconds: float = 0

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row of the printed table."""
        if not self.seconds:
            return self.what, "", f"{self.memory_bytes / (1 << 20):.0f} MiB", ""
        rate = f"{self.rows / self.seconds / 1e6:.2f}"
        return self.what, f"{self.seconds:.2f}", rate, f"{self.cpu_seconds:.2f}"


def make_log(directory: Path, commits: int) -> int:
    """Write the data directory of a broker with so many commits at least; return how many it has."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "meta.properties").write_text("version=1\ncluster.id=bench\n")
    groups = [GroupId(f"group-{number:04d}") for number in range(GROUPS)]
    homes = {group: partition_for(group, LOG_PARTITIONS) for group in groups}
    ends = dict.fromkeys(homes.values(), 0)
    segments: dict[int, Path] = {}
    rounds = -(-commits // (GROUPS * PARTITIONS))
    for number in range(rounds):
        for group in groups:
            where = homes[group]
            batch = encode_batch(list(_commits(group, number)), base_offset=ends[where])
            path = segments.get(where)
            if path is None or path.stat().st_size > SEGMENT_BYTES:
                folder = directory / f"{GROUP_OFFSETS_TOPIC}-{where}"
                folder.mkdir(exist_ok=True)
                path = segments[where] = folder / f"{ends[where]:020d}.log"
            with path.open("ab") as file:
                file.write(batch)
            ends[where] += PARTITIONS
    for where, end in ends.items():
        folder = directory / f"{GROUP_OFFSETS_TOPIC}-{where}"
        save_sync_mark(OsFileSystem(), folder, SyncMark(0, 0, end))
    return sum(ends.values())


def _commits(group: GroupId, number: int) -> Iterator[Record]:
    now = START_MS + number * ROUND_MS
    for partition in range(PARTITIONS):
        offset = number * 1000 + partition
        commit = OffsetCommit(group, TopicName("orders"), partition, offset, 0, "", Millis(now))
        yield Record(*encode(commit), now)


def measure(data: Path, target: Path, commits: int, master: str) -> Iterator[Figure]:
    """Yield the figures."""
    import pyarrow.dataset as ds
    from pyspark.sql import SparkSession

    import headgate.spark
    from headgate.spark.landing import current, land, run_on_spark
    from headgate.spark.options import parse
    from headgate.spark.source import OFFSET_COMMITS_VIEW, ViewReader
    from headgate.spark.transforms import latest_offsets

    session = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = session.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    headgate.spark.offset_commits(spark, data).limit(1).collect()  # start the workers

    def to_nothing() -> int:
        headgate.spark.offset_commits(spark, data).write.format("noop").mode("overwrite").save()
        return commits

    yield _timed("Spark, sink that does nothing", to_nothing)
    views = ["offset_commits", "group_events"]

    def landed() -> int:
        return land(str(data), str(target / "views"), run_on_spark(spark), views).rows["offset_commits"]

    def landed_with_states() -> int:
        tables = [*views, "offsets_current"]
        return land(str(data), str(target / "states"), run_on_spark(spark), tables).rows["offset_commits"]

    before = _peak_bytes()
    yield _timed("land commits", landed)
    yield _timed("land commits and offsets_current", landed_with_states)
    yield Figure("memory of the driver's Python that the landings added", commits, 0, _peak_bytes() - before)
    reader = ViewReader(OFFSET_COMMITS_VIEW, parse({"path": str(data), "topic": GROUP_OFFSETS_TOPIC}))

    def decode() -> int:
        return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))

    decode()  # compile, and read the files into the page cache
    yield _timed("decode to Arrow, one process, warm", decode)
    files = target / "views" / "offset_commits"
    rows = ds.dataset(files, partitioning="hive").to_table()
    events = ds.dataset([], schema=current.COMMITS_SCHEMA).to_table()
    events = events.append_column("event", events["group_id"])
    rows = rows.sort_by([("log_offset", "ascending")])

    def fold() -> int:
        found = current.advance(current.nothing_at(0), rows, events, commits)
        assert found.rows.num_rows == GROUPS * PARTITIONS
        return commits

    yield _timed("offsets_current of landed rows in memory, one process", fold)

    def plain() -> int:
        assert spark.read.parquet(str(files)).transform(latest_offsets()).count() == GROUPS * PARTITIONS
        return commits

    yield _timed("the same, plain PySpark on the landed files", plain)
    if find_spec("duckdb"):
        yield _timed("the same, DuckDB on the landed files", lambda: _by_duckdb(files, commits))
    many = target / "many"
    make_many(many)
    read = headgate.spark.records(spark, many, "many", columns="offset")
    yield _timed(f"read {MANY:,} partitions of one record each", read.count)
    spark.stop()


def make_many(directory: Path) -> None:
    """Write a data directory with a topic of `MANY` partitions of one record each."""
    batch = bytes(encode_batch([Record(b"k", b"v", START_MS)]))
    for partition in range(MANY):
        folder = directory / f"many-{partition}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(batch)


def _peak_bytes() -> int:
    """Return the largest memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _by_duckdb(files: Path, commits: int) -> int:
    import importlib

    duckdb: Any = importlib.import_module("duckdb")
    query = (
        "select group_id, topic, partition, arg_max(committed_offset, log_offset) from "
        f"read_parquet('{files}/**/*.parquet') group by all"
    )
    assert len(duckdb.sql(query).fetchall()) == GROUPS * PARTITIONS
    return commits


def _timed(what: str, work: Callable[[], int]) -> Figure:
    begin, cpu = time.perf_counter(), time.process_time()
    rows = work()
    return Figure(what, rows, time.perf_counter() - begin, cpu_seconds=time.process_time() - cpu)


def main(
    commits: Annotated[int, typer.Option(help="Number of commits in the log.")] = 10_000_000,
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
) -> None:
    """Make the log, measure, and print the figures; they are also in build/bench-spark.json."""
    home = BUILD / "bench-spark"
    console = Console()
    begin = time.perf_counter()
    count = make_log(home / "data", commits)
    console.print(f"{count:,} commits written in {time.perf_counter() - begin:.0f} s")
    shutil.rmtree(home / "tables", ignore_errors=True)
    figures = list(measure(home / "data", home / "tables", count, master))
    shown = Table("", "s", "M rows/s", "CPU s here")
    for figure in figures:
        shown.add_row(*figure.cells())
    console.print(shown)
    (BUILD / "bench-spark.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    shutil.rmtree(home)


if __name__ == "__main__":
    typer.run(main)
