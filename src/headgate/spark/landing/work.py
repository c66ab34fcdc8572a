"""The worker's part: land one range of one partition of a coordinator's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from headgate.client.cluster import is_passing
from headgate.client.errors import ClientError, NoNodeReachable, RequestTimedOut
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from headgate.log.batch_records import unpack
from headgate.log.batch_scan import CorruptLog
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.landing import current, groups, tables
from headgate.spark.landing.files import Folder
from headgate.spark.landing.merging import MergeTask, merge, with_size
from headgate.spark.landing.ordering import by_date, sorted_rows
from headgate.spark.landing.progress import HOME, LandingRefused
from headgate.spark.landing.reading import LogRange, TooLarge, options_of, read_range
from headgate.spark.landing.state import load_groups, load_offsets, save_groups, save_offsets
from headgate.spark.memory import keep_freed_memory
from headgate.spark.options import Options
from headgate.spark.plan import MissingData
from headgate.spark.run_rows import last_run
from headgate.spark.source import plan

MOST_OFFSETS = 2_000_000
"""Maximum number of offsets in one range, which limits a worker's memory."""

MOST_OF_OTHERS = 200_000
"""The same for other logs than that of the group coordinator: one of their records may be large."""
RUN_ID_FILE = f"{HOME}/run"
"""Has a text of the driver's, by which workers see that the target is the same folder for them."""


@dataclass(frozen=True)
class LandingTask:
    """A range of one partition; `epoch` is that of the last batch landed before `start`, -1 without one.

    `tables` are those that are made from its log.
    """

    options: Options
    target: str
    tables: tuple[str, ...]
    where: TopicPartition
    start: int
    end: int
    epoch: int
    log_start: int
    """The first offset of the log."""
    is_first: bool
    """Whether nothing of the partition was landed before."""
    run_id: str = ""
    """What the driver has written into RUN_ID_FILE of the target; empty: it is not looked for."""


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a task: its partition (None: it landed nothing), the epoch of the last batch, and new rows by
    growing table.

    With `has_gap`, compaction had removed records of the range; with `is_torn` it did so while the range was
    read, or between two attempts at it. `before` and `until` are the latest time of the commits before the
    range, and before its end, in us; -1 if there is none or it is not known.
    """

    where: TopicPartition | None
    epoch: int
    rows: dict[str, int]
    has_gap: bool = False
    before: int = current.NO_TIME
    until: int = current.NO_TIME
    is_torn: bool = False


@runtime_checkable
class Work(Protocol):
    """A task that workers do for something else than a landing, such as an audit."""

    def result(self) -> object:
        """Do it. A failure is a value, because Spark would wrap an exception."""
        ...


class Failure(Enum):
    """What a failure means for the job."""

    REFUSED = auto()
    """The target belongs to another log: no later run can go on."""
    AWAY = auto()
    """The source could not be read at that moment: a later run can go on."""
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a worker could not land its range; a value, because Spark would wrap an exception."""

    message: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Smaller:
    """Nothing was written: the rows of the range need too much memory. Those up to `end` do not."""

    where: TopicPartition
    end: int


Task = LandingTask | MergeTask
Result = Done | Smaller | Failed


def try_task(task: Task) -> Result:
    """Do the work of a task; return a failure as a value."""
    keep_freed_memory()
    try:
        _check_target(task)
        if isinstance(task, LandingTask):
            return land_range(task)
        merge(task)
        return Done(None, -1, {})
    except (LandingRefused, MissingData, CorruptLog, ClientError, OSError) as problem:
        return Failed(str(problem), failure_of(problem))


def result_of(task: Task | Work) -> Any:
    """Return the result of a task of a landing, or of another one."""
    return task.result() if isinstance(task, Work) else try_task(task)


def _check_target(task: Task) -> None:
    """Raise LandingRefused if the target is not the driver's: its files would be in no table."""
    if task.run_id and Folder(task.target).read(RUN_ID_FILE) != task.run_id.encode():
        raise LandingRefused(
            f"{task.target} is not the same folder on all machines, or another run lands into it: the driver "
            f"has written {RUN_ID_FILE} there, and a worker does not find it. Name a folder or a URI that "
            "all machines share"
        )


def failure_of(problem: Exception) -> Failure:
    """Return what an error means for the job."""
    if isinstance(problem, LandingRefused):
        return Failure.REFUSED
    is_away = isinstance(problem, NoNodeReachable | RequestTimedOut | CompactedWhileRead) or (
        isinstance(problem, ClientError) and is_passing(problem)
    )
    return Failure.AWAY if is_away else Failure.OTHER


def land_range(task: LandingTask) -> Done | Smaller:
    """Write the files of a range, or tell how far it may go. Raises as `read_range`, except TooLarge."""
    target = Folder(task.target)
    offsets, state = _offsets_before(task, target), _groups_before(task, target)
    wanted = LogRange(task.where, task.start, task.end, task.epoch, task.log_start)
    try:
        read = read_range(task.options, wanted, _views_of(task))
    except TooLarge as large:
        end = _end_within(task, task.start, large.end)
        has_states = any(one is not None and one.end == task.end for one in (offsets, state))
        if end > task.start and not has_states and not _has_files(task, target):
            return Smaller(task.where, end)
        read = read_range(task.options, replace(wanted, is_limited=False), _views_of(task))
    has_gap = read.has_gap or (task.is_first and task.start > 0)
    rows, views, is_torn = {}, read.rows, read.is_torn
    for table in tables.VIEWS:
        if table in task.tables:
            ordered = sorted_rows(views[table], tables.ORDER[table])
            rows[table] = _write(task, table, ordered, has_gap=has_gap)
            # With rows of an earlier attempt, the range is of no single moment, either.
            is_torn |= has_gap and _rows_there(task, table) > ordered.num_rows
            if table == tables.OFFSET_COMMITS:
                views[table] = ordered  # the offsets are saved in this order, too
    # Compaction may have removed a key with its tombstone: the states are then made from the whole log.
    is_anew = has_gap and not task.is_first
    before = until = current.NO_TIME
    if offsets is not None:
        before, until = _advance_offsets(task, offsets, views, is_anew)
    if state is not None:
        rows |= _advance_groups(task, state, views, is_anew)
    return Done(task.where, read.epoch, rows, has_gap, before, until, is_torn)


def _end_within(task: LandingTask, start: int, end: int) -> int:
    """Return where a range ends that should not go further than `end`, without dividing a run of records."""
    return _without_open_runs(task.options, {task.where: (start, end)})[task.where]


def _has_files(task: LandingTask, target: Folder) -> bool:
    """Return whether an earlier attempt wrote files of the range, whose end is therefore fixed."""
    growing = [table for table in task.tables if table in tables.GROWING]
    names = (
        name for table in growing for name in target.names(f"{table}/log_partition={task.where.partition}")
    )
    return any(tables.bounds_in(name) == (task.start, task.end) for name in names if tables.is_landed(name))


def ends_of_ranges(
    options: Options, wanted: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Return where to end the range of each partition, given its start and the end of its log.

    A range is of limited size and has complete runs only. It is empty if a run begins at its start that is
    not complete before the end of the log.
    """
    limited = {
        where: (start, min(start + _most_offsets(where), end)) for where, (start, end) in wanted.items()
    }
    ends = _without_open_runs(options, limited)
    stuck = {each: wanted[each] for each, end in ends.items() if end == wanted[each][0]}
    return ends | _without_open_runs(options, stuck)


def _most_offsets(where: TopicPartition) -> int:
    return MOST_OFFSETS if where.topic == GROUP_OFFSETS_TOPIC else MOST_OF_OTHERS


def _without_open_runs(
    options: Options, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Return the end of each range, or the first offset of the run of records that continues after it."""
    ends = {where: end for where, (_, end) in ranges.items()}
    last = {where: (end - 1, end) for where, (start, end) in ranges.items() if start < end}
    for planned in plan(options_of(options, last)) if last else ():
        for where, scan in planned.scans():
            for records, _ in unpack(scan):
                run, (start, end) = last_run(records), ranges[where]
                if run is not None and run[0] + run[1] > end:
                    ends[where] = max(run[0], start)
    return ends


# --- writing rows ---


def _views_of(task: LandingTask) -> list[str]:
    """Return the views of the log that the tables are made from."""
    if task.where.topic != GROUP_OFFSETS_TOPIC:
        return list(task.tables)
    if set(task.tables) <= {tables.GROUP_EVENTS, *tables.OF_GROUPS}:
        return [tables.GROUP_EVENTS]
    return [tables.OFFSET_COMMITS, tables.GROUP_EVENTS]


def _write(task: LandingTask, table: str, rows: pa.Table, *, has_gap: bool = False) -> int:
    """Write sorted rows to a file for each date; return how many there are."""
    target, count = Folder(task.target), 0
    for date, of_date in by_date(rows, tables.TIME[table]):
        name = tables.range_file(table, task.where.partition, date, task.start, task.end)
        # An attempt before this one may have read records that were removed from the log since.
        there = target.footer(name).num_rows if has_gap and target.has(name) else 0
        if there <= of_date.num_rows:
            target.write_table(name, with_size(of_date))
        count += max(there, of_date.num_rows)
    return count


def _rows_there(task: LandingTask, table: str) -> int:
    """Return how many rows an earlier attempt wrote to the files of the range."""
    target = Folder(task.target)
    names = target.names(f"{table}/log_partition={task.where.partition}")
    return sum(
        target.footer(name).num_rows
        for name in names
        if tables.is_landed(name) and tables.bounds_in(name) == (task.start, task.end)
    )


# --- states ---


def _pieces(
    task: LandingTask, views: dict[str, pa.Table], is_anew: bool
) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """Yield the rows that a state is made from, in pieces of limited size, each with its end offset."""
    if not is_anew:
        yield views, task.end
        return
    start = task.log_start
    while start < task.end:
        end = ends_of_ranges(task.options, {task.where: (start, task.end)})[task.where]
        wanted = LogRange(task.where, start, end)
        try:
            rows = read_range(task.options, wanted, _views_of(task)).rows
        except TooLarge as large:
            within = _end_within(task, start, large.end)
            end = within if within > start else end
            rows = read_range(task.options, replace(wanted, end=end, is_limited=False), _views_of(task)).rows
        yield rows, end
        start = end


def _offsets_before(task: LandingTask, target: Folder) -> current.Offsets | None:
    """Return `offsets_current`, at the start of the range or, by an earlier attempt, at its end; None if it
    is not landed.
    """
    if tables.OFFSETS_CURRENT not in task.tables:
        return None
    found = load_offsets(target, task.where.partition)
    _check_state(task, tables.OFFSETS_CURRENT, None if found is None else found.end)
    return current.nothing_at(task.start) if found is None else found


def _groups_before(task: LandingTask, target: Folder) -> groups.Groups | None:
    """Return the state of the groups, as `_offsets_before` does."""
    if not any(table in task.tables for table in tables.OF_GROUPS):
        return None
    found = load_groups(target, task.where.partition)
    _check_state(task, "the state of groups", None if found is None else found.end)
    return groups.Groups(task.start) if found is None else found


def _check_state(task: LandingTask, what: str, end: int | None) -> None:
    """Refuse a state that is gone (`end` is None), or that ends elsewhere than what is landed."""
    if (end is None and task.is_first) or end in (task.start, task.end):
        return
    there = "is gone" if end is None else f"ends at offset {end}"
    raise LandingRefused(
        f"{what} of {task.where} in {task.target} {there}, the progress ends at offset {task.start}: "
        "files were changed or removed; restore them, or land elsewhere"
    )


def _advance_offsets(
    task: LandingTask, before: current.Offsets, views: dict[str, pa.Table], is_anew: bool
) -> tuple[int, int]:
    """Bring `offsets_current` to the end of the range; return the latest times before the range and
    before its end, in us.
    """
    if before.end == task.end:
        return before.time_before, before.last_time  # an earlier attempt has replaced the file
    target = Folder(task.target)
    after = replace(current.nothing_at(task.log_start), last_time=before.last_time) if is_anew else before
    for rows, end in _pieces(task, views, is_anew):
        after = current.advance(after, rows[tables.OFFSET_COMMITS], rows[tables.GROUP_EVENTS], end)
    is_next_day = before.last_time != current.NO_TIME and (
        tables.date_of(before.last_time) != tables.date_of(after.last_time)
    )
    if is_next_day:
        save_offsets(target, tables.daily_file(task.where.partition, before.last_time), before)
    after = replace(after, time_before=before.last_time)
    save_offsets(target, tables.current_file(tables.OFFSETS_CURRENT, task.where.partition), after)
    return before.last_time, after.last_time


def _advance_groups(
    task: LandingTask, state: groups.Groups, views: dict[str, pa.Table], is_anew: bool
) -> dict[str, int]:
    """Bring the tables of groups to the end of the range, and their state last; return the new rows."""
    if state.end == task.end:  # an earlier attempt has done so
        growing = [table for table in (tables.REBALANCES, tables.PAUSES) if table in task.tables]
        return {table: _rows_there(task, table) for table in growing}
    target = Folder(task.target)
    if is_anew:
        state = groups.Groups(task.log_start)
    grown: dict[str, list[pa.Table]] = {tables.REBALANCES: [], tables.PAUSES: []}
    for rows, end in _pieces(task, views, is_anew):
        changes = groups.advance(state, rows[tables.GROUP_EVENTS], end)
        grown[tables.REBALANCES].append(changes.rebalances)
        grown[tables.PAUSES].append(changes.pauses)
    written = {}
    for table, parts in grown.items():
        if table in task.tables:
            found = pa.concat_tables(parts)
            new = found.filter(pc.greater_equal(found["log_offset"], task.start))
            written[table] = _write(task, table, sorted_rows(new, tables.ORDER[table]))
    if tables.ASSIGNMENTS in task.tables:
        name = tables.current_file(tables.ASSIGNMENTS, task.where.partition)
        target.write_table(name, groups.assignments_of(state))
    save_groups(target, task.where.partition, state)
    return written
