"""The driver's part: fix the ranges, have the workers land them, and advance the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headgate.client.errors import ClientError
from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.landing import tables as landed_tables
from headgate.spark.landing.exclusive import only_run
from headgate.spark.landing.files import Folder
from headgate.spark.landing.logs import Bounds, coordinator_logs
from headgate.spark.landing.merging import merge_tasks
from headgate.spark.landing.progress import (
    HOME,
    Gap,
    LandingRefused,
    Progress,
    Range,
    load_progress,
    save_progress,
)
from headgate.spark.landing.sampling import sample
from headgate.spark.landing.work import (
    Done,
    Failed,
    Failure,
    LandingTask,
    Task,
    ends_of_ranges,
    failure_of,
    try_task,
)
from headgate.spark.options import OptionError, Options, parse, source_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[[Sequence[Task]], list[Done | Failed]]
"""Runs tasks and returns the result of each."""


class LandingFailed(RuntimeError):
    """A range could not be read or written; the next run begins with it."""


class SourceAway(LandingFailed):
    """The source could not be read at that moment: no broker was reachable, for example. Run it again."""


@dataclass(frozen=True, slots=True)
class Landed:
    """Result of a run: new rows by table, and the landed end offset of each partition.

    `incomplete` has the partitions with gaps, and the offset from which on all records are landed.
    """

    rows: dict[str, int]
    ends: dict[int, int]
    incomplete: dict[int, int]


def run_here(tasks: Sequence[Task]) -> list[Done | Failed]:
    """Run the tasks in this process, one after another."""
    return [try_task(task) for task in tasks]


def run_on_spark(spark: SparkSession) -> Run:
    """Run the tasks in the workers of a session, one Spark task each."""

    def run(tasks: Sequence[Task]) -> list[Done | Failed]:
        if not tasks:
            return []
        ranges = spark.sparkContext.parallelize(list(tasks), len(tasks))
        found: list[Done | Failed] = ranges.map(try_task).collect()
        return found

    return run


def land(
    source: str,
    target: str,
    run: Run = run_here,
    tables: Sequence[str] | None = None,
    *,
    is_sampling: bool = True,
    timeout: str = "60s",
) -> Landed:
    """Land the durable part of the coordinator's log that was not landed yet.

    `source` is a data directory or HOST:PORT[,HOST:PORT...], `target` a folder or a URI. None for `tables`:
    those of the target, or all if it is new. Without `is_sampling`, no end offsets are sampled. `timeout` is
    how long a call waits for a broker. Raises LandingRefused, LandingFailed (SourceAway if no broker was
    reachable), MissingData, OptionError, ClientError, OSError.
    """
    chosen = None if tables is None else _checked(tables)
    name, value = source_option(source)
    options = parse({name: value, "subscribe": GROUP_OFFSETS_TOPIC, "timeout": timeout})
    folder = Folder(target)
    with only_run(folder):
        try:
            return _land(options, folder, run, chosen, is_sampling=is_sampling)
        except (ClientError, CompactedWhileRead) as problem:
            if failure_of(problem) is Failure.AWAY:
                raise SourceAway(str(problem)) from problem
            raise


def _land(
    options: Options, folder: Folder, run: Run, chosen: tuple[str, ...] | None, *, is_sampling: bool
) -> Landed:
    cluster_id, logs = coordinator_logs(options)
    progress = load_progress(folder, cluster_id, chosen, landed_tables.TABLES)
    _remove_unfinished(folder, progress)
    rows = {table: 0 for table in progress.tables if table in landed_tables.GROWING}
    job = _Job(options, folder, logs, run, rows)
    if progress.is_merging:
        progress = _merge(job, progress)
    if progress.planned:  # by an unfinished run
        progress = _do(job, progress)
    while planned := _ranges(options, progress, logs):
        progress = replace(progress, planned=planned)
        save_progress(folder, progress)
        progress = _do(job, progress)
    if is_sampling and set(landed_tables.SAMPLED) & set(progress.tables):
        progress, sampled = sample(options, folder, progress)
        rows |= sampled
    progress = _merge(job, progress)
    landed = progress.partitions
    return Landed(
        rows,
        {partition: one.end for partition, one in landed.items()},
        {partition: one.complete_from for partition, one in landed.items() if one.gaps},
    )


_ERRORS: Mapping[Failure, Callable[[str], Exception]] = {
    Failure.REFUSED: LandingRefused,
    Failure.AWAY: SourceAway,
    Failure.OTHER: LandingFailed,
}


def _checked(tables: Sequence[str]) -> tuple[str, ...]:
    known = landed_tables.TABLES
    if unknown := [table for table in tables if table not in known]:
        raise OptionError(f"there is no table {unknown[0]!r}; there are {', '.join(known)}")
    if missing := landed_tables.missing_for(tables):
        raise OptionError(f"the chosen tables are made from others: add {', '.join(missing)}")
    return landed_tables.in_order(tables)


@dataclass(frozen=True, slots=True)
class _Job:
    """What is landed, where, and how; `rows` counts the new rows by table."""

    options: Options
    folder: Folder
    logs: Mapping[int, Bounds]
    run: Run
    rows: dict[str, int]


def _do(job: _Job, progress: Progress) -> Progress:
    """Land the planned ranges and advance the progress."""
    tasks = [
        LandingTask(
            job.options,
            job.folder.uri,
            progress.tables,
            partition,
            start,
            end,
            progress.partitions[partition].epoch if partition in progress.partitions else -1,
            job.logs[partition][0],
            is_first=partition not in progress.partitions,
        )
        for partition, start, end in progress.planned
    ]
    found: list[Done] = []
    for done in _run(job, tasks):
        found.append(done)
        for table, count in done.rows.items():
            job.rows[table] += count
    progress = progress.done({done.partition: done.epoch for done in found}, _gaps(job, progress, found))
    save_progress(job.folder, progress)
    return progress


def _run(job: _Job, tasks: Sequence[Task]) -> list[Done]:
    """Run tasks. Raises LandingRefused, LandingFailed."""
    found = []
    for done in job.run(tasks):
        if isinstance(done, Failed):
            raise _ERRORS[done.failure](done.message)
        found.append(done)
    return found


def _remove_unfinished(folder: Folder, progress: Progress) -> None:
    """Remove the files that a killed run left unfinished; the tables have some only if it was at work."""
    folder.remove_unfinished(HOME)
    if progress.planned or progress.is_merging or progress.sampled_at is not None:
        for table in (*progress.tables, landed_tables.OFFSETS_DAILY):
            folder.remove_unfinished(table)


def _merge(job: _Job, progress: Progress) -> Progress:
    """Merge the files of past days, once a day, or where a run before was killed."""
    today = landed_tables.date_of(time.time_ns() // 1000)
    if progress.merged_before == today and not progress.is_merging:
        return progress
    if tasks := merge_tasks(job.folder, progress.tables, today):
        progress = replace(progress, is_merging=True)
        save_progress(job.folder, progress)
        _run(job, tasks)
    progress = replace(progress, merged_before=today, is_merging=False)
    save_progress(job.folder, progress)
    return progress


def _gaps(job: _Job, progress: Progress, found: Sequence[Done]) -> dict[int, Gap]:
    """Return the gaps of the ranges.

    A removed record was replaced before the range was read, by a record before the end of the log then.
    """
    before = {done.partition: done.before for done in found if done.has_gap}
    if not before:
        return {}
    _, logs = coordinator_logs(job.options)
    now = time.time_ns() // 1000
    starts = {partition: start for partition, start, _ in progress.planned}
    return {
        partition: Gap(
            starts[partition] if partition in progress.partitions else 0, logs[partition][1], since, now
        )
        for partition, since in before.items()
    }


def _ranges(options: Options, progress: Progress, logs: Mapping[int, Bounds]) -> tuple[Range, ...]:
    """Return the next range of each partition: from its landed end on, without dividing a run of records."""
    if gone := sorted(progress.partitions.keys() - logs.keys()):
        raise LandingRefused(
            f"{GROUP_OFFSETS_TOPIC}-{gone[0]} is gone, but was landed up to "
            f"{progress.partitions[gone[0]].end}: records were lost, or it is another log; land it elsewhere"
        )
    wanted = {}
    for partition, (first, durable) in sorted(logs.items()):
        landed = progress.partitions.get(partition)
        start = landed.end if landed else first
        if durable < start:
            raise LandingRefused(
                f"{GROUP_OFFSETS_TOPIC}-{partition} ends at offset {durable}, but was landed up to {start}: "
                "records were lost, or it is another log; land it elsewhere"
            )
        wanted[partition] = start, durable
    ends = ends_of_ranges(options, wanted)
    return tuple((each, start, ends[each]) for each, (start, _) in wanted.items() if start < ends[each])
