"""The driver's part: fix the ranges, have the workers land them, and advance the progress."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.client.errors import ClientError
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TopicPartition
from headgate.log.sync_mark import SYNC_MARK_NAME
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.landing import delta as delta_logs
from headgate.spark.landing import tables as landed_tables
from headgate.spark.landing.checking import check_files, remember
from headgate.spark.landing.empty import write_empty
from headgate.spark.landing.exclusive import only_run
from headgate.spark.landing.files import Folder
from headgate.spark.landing.logs import (
    HIGH_WATERMARKS_NAME,
    Bounds,
    CoordinatorLogs,
    coordinator_logs,
    has_record_before,
)
from headgate.spark.landing.merging import merge_tasks
from headgate.spark.landing.progress import (
    HOME,
    Gap,
    LandingRefused,
    Progress,
    Range,
    load_progress,
    read_progress,
    save_progress,
)
from headgate.spark.landing.sampling import ends_now, remove_unfinished_sample, sample
from headgate.spark.landing.until import complete_until, written_until
from headgate.spark.landing.work import (
    RUN_ID_FILE,
    Done,
    Failed,
    Failure,
    LandingTask,
    Result,
    Smaller,
    Task,
    ends_of_ranges,
    failure_of,
    result_of,
    try_task,
)
from headgate.spark.landing.workers import context_of, run_in_workers
from headgate.spark.options import OptionError, Options, parse, source_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

Run = Callable[[Sequence[Task]], list[Result]]
"""Runs tasks and returns the result of each."""


class LandingFailed(RuntimeError):
    """A range could not be read or written; the next run begins with it."""


class SourceAway(LandingFailed):
    """The source could not be read at that moment: no broker was reachable, for example. Run it again."""


@dataclass(frozen=True, slots=True)
class Landed:
    """Result of a run: new rows by table, and the landed end offset of each partition.

    `incomplete` has the partitions with gaps, and the offset from which on all records are landed. `unmarked`
    has those of a directory with records of which none is landed yet, as nothing tells which are durable.
    """

    rows: dict[str, int]
    ends: dict[TopicPartition, int]
    incomplete: dict[TopicPartition, int]
    unmarked: tuple[TopicPartition, ...] = ()


def run_here(tasks: Sequence[Task]) -> list[Result]:
    """Run the tasks in this process, one after another."""
    return [try_task(task) for task in tasks]


def run_on_spark(spark: SparkSession) -> Callable[[Sequence[Any]], list[Any]]:
    """Run the tasks of a landing, or of an audit, in the workers of a session, one Spark task each.

    Raises OptionError for a session of Spark Connect.
    """
    context_of(spark)
    return lambda tasks: run_in_workers(spark, result_of, tasks)


def land(
    source: str,
    target: str,
    run: Run = run_here,
    tables: Sequence[str] | None = None,
    *,
    is_sampling: bool = True,
    timeout: str = "60s",
    delta: bool = False,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Landed:
    """Land the durable part of the coordinators' logs that was not landed yet.

    `source` is a data directory or HOST:PORT[,HOST:PORT...], `target` a folder or a URI. None for `tables`:
    those of the target, or all if it is new. Without `is_sampling`, no end offsets are sampled. `timeout` is
    how long a call waits for a broker. With `delta`, the tables have Delta logs from now on. `options` are
    further options of the source, for TLS and SASL. Raises
    LandingRefused, LandingFailed (SourceAway if no broker was reachable), MissingData, OptionError,
    ClientError, OSError.
    """
    with landings(source, target, run, tables, timeout=timeout, delta=delta, options=options) as land_once:
        return land_once(is_sampling)


@contextmanager
def landings(
    source: str,
    target: str,
    run: Run = run_here,
    tables: Sequence[str] | None = None,
    *,
    timeout: str = "60s",
    delta: bool = False,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Iterator[Callable[[bool], Landed]]:
    """Land more than once, and keep other runs away from the target also between two landings.

    Yields a function that lands once, with or without sampling. Arguments and errors are those of `land`.
    """
    chosen = None if tables is None else _checked(tables)
    name, value = source_option(source)
    checked = parse({**options, name: value, "subscribe": GROUP_OFFSETS_TOPIC, "timeout": timeout})
    folder = Folder(target).absolute()

    def land_once(is_sampling: bool) -> Landed:
        try:
            return _land(checked, folder, run, chosen, is_sampling=is_sampling, has_delta=delta)
        except (ClientError, CompactedWhileRead) as problem:
            if failure_of(problem) is Failure.AWAY:
                raise SourceAway(str(problem)) from problem
            raise

    with only_run(folder):
        yield land_once


def _land(
    options: Options,
    folder: Folder,
    run: Run,
    chosen: tuple[str, ...] | None,
    *,
    is_sampling: bool,
    has_delta: bool,
) -> Landed:
    tables = _tables_of(folder, chosen)
    until = written_until(options)
    logs = coordinator_logs(options, landed_tables.logs_of(tables))
    progress = load_progress(folder, logs.cluster_id, chosen, landed_tables.TABLES)
    is_sampling = is_sampling and bool(set(landed_tables.SAMPLED) & set(progress.tables))
    ends = ends_now(options) if is_sampling else None
    progress = replace(progress, has_delta=progress.has_delta or has_delta)
    if progress.has_delta:
        delta_logs.check_installed()
    check_files(folder, progress)
    _remove_unfinished(folder, progress)
    progress = remove_unfinished_sample(folder, progress)
    rows = {table: 0 for table in progress.tables if table in landed_tables.GROWING}
    job = _Job(options, folder, logs.bounds, run, rows)
    failed: Failed | None = None
    if progress.planned:  # by an unfinished run; a merge before that could take files that are written again
        progress, failed = _do(job, progress, progress.planned)
    if progress.is_merging and not progress.planned:
        with suppress(LandingFailed):  # new records are not kept waiting: it fails again at the end
            progress = _merge(job, progress)
    while planned := _ranges(options, progress, logs):
        progress = replace(progress, planned=(*progress.planned, *planned))
        save_progress(folder, progress)
        progress, problem = _do(job, progress, planned)
        failed = failed or problem
    if failed is not None:  # no other partition waits for one that is damaged, as its log is compacted
        raise _ERRORS[failed.failure](failed.message)
    if ends is not None:
        progress, sampled = sample(folder, progress, ends)
        rows |= sampled
    problems = []
    try:
        progress = _merge(job, progress)
    except LandingFailed as problem:
        progress = replace(progress, is_merging=True)
        problems.append(f"files of past days are not merged: {problem}")
    progress = replace(progress, landed_until=complete_until(folder, progress, until))
    save_progress(folder, progress)
    if progress.has_delta:
        problems += delta_logs.sync_logs(folder, progress)
    if problems:
        raise LandingFailed(f"the tables are landed, but {'; '.join(problems)}")
    remember(folder, progress)
    landed = progress.partitions
    return Landed(
        rows,
        {where: one.end for where, one in landed.items()},
        {where: one.complete_from for where, one in landed.items() if one.gaps},
        tuple(sorted(logs.unmarked - landed.keys())),
    )


def _tables_of(folder: Folder, chosen: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the tables to land: those of the target, else the chosen ones."""
    progress = read_progress(folder)
    return progress.tables if progress is not None else chosen or landed_tables.TABLES


_ERRORS: Mapping[Failure, Callable[[str], Exception]] = {
    Failure.REFUSED: LandingRefused,
    Failure.AWAY: SourceAway,
    Failure.OTHER: LandingFailed,
}


def _checked(tables: Sequence[str]) -> tuple[str, ...]:
    known = landed_tables.TABLES
    if isinstance(tables, str):
        raise OptionError(f"tables are given as a list: [{tables!r}]")
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
    logs: Mapping[TopicPartition, Bounds]
    run: Run
    rows: dict[str, int]


def _do(job: _Job, progress: Progress, planned: Sequence[Range]) -> tuple[Progress, Failed | None]:
    """Land these of the planned ranges and advance the progress; return the first failure, too.

    Ranges that failed remain planned.
    """
    tasks = [
        LandingTask(
            job.options,
            job.folder.uri,
            tuple(table for table in progress.tables if landed_tables.log_of(table) == where.topic),
            where,
            start,
            end,
            progress.partitions[where].epoch if where in progress.partitions else -1,
            job.logs[where][0],
            is_first=where not in progress.partitions,
        )
        for where, start, end in planned
    ]
    progress, found, failed = _run_ranges(job, progress, tasks)
    epochs = {done.where: done.epoch for done in found if done.where}
    progress = progress.done(epochs, _gaps(job, progress, found))
    save_progress(job.folder, progress)
    return progress, failed


def _run_ranges(
    job: _Job, progress: Progress, tasks: Sequence[LandingTask]
) -> tuple[Progress, list[Done], Failed | None]:
    """Run the tasks of planned ranges; where rows are too large, plan a smaller range and run that."""
    found: list[Done] = []
    failed: Failed | None = None
    while tasks:
        ends: dict[TopicPartition, int] = {}
        for result in _run(job, tasks):
            if isinstance(result, Failed):
                failed = failed or result
                continue
            if isinstance(result, Smaller):
                ends[result.where] = result.end
                continue
            found.append(result)
            for table, count in result.rows.items():
                job.rows[table] += count
        if ends:
            planned = tuple((where, start, ends.get(where, end)) for where, start, end in progress.planned)
            progress = replace(progress, planned=planned)
            save_progress(job.folder, progress)
        tasks = [replace(task, end=ends[task.where]) for task in tasks if task.where in ends]
    return progress, found, failed


def _run(job: _Job, tasks: Sequence[Task]) -> list[Result]:
    """Run tasks, which look whether they see this target."""
    run_id = uuid.uuid4().hex
    job.folder.write(RUN_ID_FILE, run_id.encode())
    return job.run([replace(task, run_id=run_id) for task in tasks])


def _remove_unfinished(folder: Folder, progress: Progress) -> None:
    """Remove the files that a killed run left unfinished; the tables have some only if it was at work."""
    folder.remove_unfinished(HOME)
    if progress.planned or progress.is_merging or progress.sampled_at is not None:
        for table in landed_tables.with_daily(progress.tables):
            folder.remove_unfinished(table)


def _merge(job: _Job, progress: Progress) -> Progress:
    """Merge the files of past days, once a day, or where a run before was killed.

    Tables without a file get one first.
    """
    today = landed_tables.date_of(time.time_ns() // 1000)
    if progress.merged_before == today and not progress.is_merging:
        return progress
    write_empty(job.folder, progress.tables, today)
    if tasks := merge_tasks(job.folder, progress.tables, today):
        progress = replace(progress, is_merging=True)
        save_progress(job.folder, progress)
        for result in _run(job, tasks):
            if isinstance(result, Failed):
                raise _ERRORS[result.failure](result.message)
    progress = replace(progress, merged_before=today, is_merging=False)
    save_progress(job.folder, progress)
    return progress


def _gaps(job: _Job, progress: Progress, found: Sequence[Done]) -> dict[TopicPartition, Gap]:
    """Return the gaps of the ranges.

    A removed record was replaced before the range was read, by a record before the end of the log then. The
    log of share states is not compacted: only its beginning is removed.
    """
    times = {done.where: (done.before, done.until) for done in found if done.where and done.has_gap}
    torn = {done.where for done in found if done.is_torn}
    if not times:
        return {}
    logs = coordinator_logs(job.options, landed_tables.logs_of(progress.tables)).bounds
    now = time.time_ns() // 1000
    starts = {where: start for where, start, _ in progress.planned}
    gaps = {}
    for where, (since, until) in times.items():
        start = starts[where] if where in progress.partitions else 0
        end = logs[where][0 if where.topic == SHARE_STATE_TOPIC else 1]
        # The clock here may be behind that of the broker.
        gaps[where] = Gap(start, end, since, max(now, until), end if where in torn else start)
    return gaps


def _ranges(options: Options, progress: Progress, logs: CoordinatorLogs) -> tuple[Range, ...]:
    """Return the next range of each partition: from its landed end on, without dividing a run of records.

    Partitions with a planned range, which has failed, have none.
    """
    held = {where for where, _, _ in progress.planned}
    if gone := sorted(progress.partitions.keys() - logs.bounds.keys()):
        raise LandingRefused(
            f"{gone[0]} is gone, but was landed up to "
            f"{progress.partitions[gone[0]].end}: records were lost, or it is another log; land it elsewhere"
        )
    wanted = {}
    for where, (first, durable) in sorted(logs.bounds.items()):
        landed = progress.partitions.get(where)
        start = landed.end if landed else first
        if where in held:
            continue
        if where in logs.unmarked:
            if not landed:
                continue  # a young log: the others are landed meanwhile
            raise _unmarked(options, where)
        if durable < start:
            raise _ends_early(options, where, durable, start)
        wanted[where] = start, durable
    young = [where for where in sorted(logs.unmarked) if where.topic == GROUP_OFFSETS_TOPIC]
    if young and not held and not any(where.topic == GROUP_OFFSETS_TOPIC for where in wanted):
        raise _unmarked(options, young[0])
    ends = ends_of_ranges(options, wanted)
    return tuple((each, start, ends[each]) for each, (start, _) in wanted.items() if start < ends[each])


def _ends_early(options: Options, where: TopicPartition, durable: int, start: int) -> Exception:
    """Return why what is durable of a log ends before what was landed, perhaps from the broker's port."""
    if options.path is None or not has_record_before(options, where, start):
        return LandingRefused(
            f"{where} ends at offset {durable}, but was landed up to {start}: "
            "records were lost, or it is another log; land it elsewhere"
        )
    mark = _mark_name(options.path)
    return SourceAway(
        f"{where} was landed up to offset {start}, perhaps from the broker's port. The directory has these "
        f"records, but of a running broker only those before {durable} are marked as durable yet ({mark}): "
        "land from the port again, or from the directory later, at the latest after the broker's stop"
    )


def _mark_name(directory: Path) -> str:
    is_kafka = (directory / HIGH_WATERMARKS_NAME).exists()
    return HIGH_WATERMARKS_NAME if is_kafka else SYNC_MARK_NAME


def _unmarked(options: Options, where: TopicPartition) -> SourceAway:
    assert options.path is not None
    if _mark_name(options.path) == HIGH_WATERMARKS_NAME:
        return SourceAway(
            f"{where} is not in {HIGH_WATERMARKS_NAME}, which tells what of it is durable: its broker writes "
            "the file every few seconds and at a stop. Land from the broker's port, or start and stop it once"
        )
    return SourceAway(
        f"{where} has no valid {SYNC_MARK_NAME}, which tells what of it is durable: its broker writes the "
        "file after the first megabyte and at a stop, or it was not copied with the log. Land from the "
        "broker's port, or start and stop it once"
    )
