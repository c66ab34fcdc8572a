"""The driver's part: fix the ranges, have the workers land them, and advance the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.client.cluster import EARLIEST, LATEST, Cluster
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from headgate.log.batch_records import unpack
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import load_sync_mark
from headgate.spark.directory import segment_files, topics_in
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import (
    LandingRefused,
    Progress,
    Range,
    load_progress,
    save_progress,
)
from headgate.spark.landing.work import TABLES, Done, Failed, LandingTask, options_of, try_range
from headgate.spark.options import OptionError, Options, parse, source_option
from headgate.spark.plan import MissingData
from headgate.spark.run_rows import last_run
from headgate.spark.source import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_OFFSETS = 2_000_000
"""Maximum number of offsets in one range, which limits a worker's memory."""

Bounds = tuple[int, int]
"""The first offset of a log, and the end of its durable part."""

Run = Callable[[Sequence[LandingTask]], list[Done | Failed]]
"""Runs tasks and returns the result of each."""


class LandingFailed(RuntimeError):
    """A range could not be read or written; the next run begins with it."""


@dataclass(frozen=True, slots=True)
class Landed:
    """Result of a run: rows by table, and the landed end offset of each partition."""

    rows: dict[str, int]
    ends: dict[int, int]


def run_here(tasks: Sequence[LandingTask]) -> list[Done | Failed]:
    """Run the tasks in this process, one after another."""
    return [try_range(task) for task in tasks]


def run_on_spark(spark: SparkSession) -> Run:
    """Run the tasks in the workers of a session, one Spark task each."""

    def run(tasks: Sequence[LandingTask]) -> list[Done | Failed]:
        if not tasks:
            return []
        ranges = spark.sparkContext.parallelize(list(tasks), len(tasks))
        found: list[Done | Failed] = ranges.map(try_range).collect()
        return found

    return run


def land(source: str, target: str, run: Run = run_here, tables: Sequence[str] = tuple(TABLES)) -> Landed:
    """Land the durable part of the coordinator's log that was not landed yet.

    `source` is a data directory or HOST:PORT[,HOST:PORT...], `target` a folder or a URI. Raises
    LandingRefused, LandingFailed, MissingData, OptionError, OSError.
    """
    if unknown := [table for table in tables if table not in TABLES]:
        raise OptionError(f"there is no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    name, value = source_option(source)
    options = parse({name: value, "subscribe": GROUP_OFFSETS_TOPIC})
    cluster_id, logs = _look(options)
    folder = Folder(target)
    progress = load_progress(folder, cluster_id, tuple(tables))
    rows = dict.fromkeys(tables, 0)
    if progress.planned:  # by an unfinished run
        progress = _do(options, folder, progress, run, rows)
    while planned := _ranges(options, progress, logs):
        progress = Progress(cluster_id, progress.tables, progress.partitions, planned)
        save_progress(folder, progress)
        progress = _do(options, folder, progress, run, rows)
    return Landed(rows, {partition: landed.end for partition, landed in progress.partitions.items()})


def _do(options: Options, folder: Folder, progress: Progress, run: Run, rows: dict[str, int]) -> Progress:
    tasks = [
        LandingTask(
            options,
            folder.uri,
            progress.tables,
            partition,
            start,
            end,
            progress.partitions[partition].epoch if partition in progress.partitions else -1,
        )
        for partition, start, end in progress.planned
    ]
    epochs = {}
    for done in run(tasks):
        if isinstance(done, Failed):
            raise LandingRefused(done.message) if done.is_refusal else LandingFailed(done.message)
        epochs[done.partition] = done.epoch
        for table, count in done.rows.items():
            rows[table] += count
    progress = progress.done(epochs)
    save_progress(folder, progress)
    return progress


def _ranges(options: Options, progress: Progress, logs: Mapping[int, Bounds]) -> tuple[Range, ...]:
    """Return the next range of each partition: from its landed end on, without dividing a run of records."""
    ranges = []
    for partition, (first, durable) in sorted(logs.items()):
        landed = progress.partitions.get(partition)
        start = landed.end if landed else first
        if durable < start:
            raise LandingRefused(
                f"{GROUP_OFFSETS_TOPIC}-{partition} ends at offset {durable}, but was landed up to {start}: "
                "records were lost, or it is another log; land it elsewhere"
            )
        for size in (MOST_OFFSETS, durable - start):
            end = _without_open_run(options, partition, start, min(start + size, durable))
            if start < end:
                ranges.append((partition, start, end))
                break
    return tuple(ranges)


def _without_open_run(options: Options, partition: int, start: int, end: int) -> int:
    """Return `end`, or the first offset of the run of records that continues after it."""
    if start >= end:
        return end
    run = None
    for planned in plan(options_of(options, partition, end - 1, end)):
        for _, scan in planned.scans():
            for records, _ in unpack(scan):
                run = last_run(records)
    if run is None or run[0] + run[1] <= end:
        return end
    return max(run[0], start)


def _look(options: Options) -> tuple[str, dict[int, Bounds]]:
    """Return the cluster's id, and the start and durable end of each partition of the coordinator's log."""
    if options.bootstrap_servers is not None:
        with Cluster(options.bootstrap_servers, options.timeout_s, waits_for_nodes=True) as cluster:
            cluster_id = cluster.metadata([]).cluster_id
            partitions = cluster.partitions_of(GROUP_OFFSETS_TOPIC)
            wanted = [TopicPartition(GROUP_OFFSETS_TOPIC, partition) for partition in partitions]
            starts = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
            ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST))
        return str(cluster_id), {where.partition: (starts[where], ends[where]) for where in wanted}
    assert options.path is not None
    folders = topics_in(options.path).get(GROUP_OFFSETS_TOPIC, {})
    if not folders:
        raise MissingData(f"nothing of {GROUP_OFFSETS_TOPIC} in {options.path}")
    watermarks, files = _high_watermarks(options.path), OsFileSystem()
    logs = {}
    for partition, folder in folders.items():
        if segments := segment_files(folder):
            end = watermarks.get(partition, load_sync_mark(files, folder).end_offset)
            logs[partition] = segments[0].base_offset, end
    return _cluster_id(options.path), logs


def _cluster_id(directory: Path) -> str:
    """Return the id in the `meta.properties` of a data directory."""
    try:
        lines = (directory / "meta.properties").read_text().splitlines()
    except FileNotFoundError:
        raise MissingData(f"{directory} has no meta.properties: it is no broker's data directory") from None
    properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return properties.get("cluster.id", "")


def _high_watermarks(directory: Path) -> dict[int, int]:
    """Return the high watermarks in Kafka's `replication-offset-checkpoint`; empty for Headgate."""
    try:
        lines = (directory / "replication-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return {}
    entries = (line.rsplit(" ", 2) for line in lines)
    return {
        int(partition): int(offset) for topic, partition, offset in entries if topic == GROUP_OFFSETS_TOPIC
    }
