"""The worker's part: land one range of one partition of the coordinator's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from headgate.log.batch_scan import CorruptLog
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import LandingRefused
from headgate.spark.options import Options
from headgate.spark.plan import MissingData
from headgate.spark.source import GROUP_EVENTS_VIEW, OFFSET_COMMITS_VIEW, ViewReader, plan

TABLES = {"offset_commits": OFFSET_COMMITS_VIEW, "group_events": GROUP_EVENTS_VIEW}
"""The landed tables by name, each with the columns of the reader of that name."""

ATTEMPTS = 5
"""Maximum number of reads of a range that compaction rewrites during the read."""

_ORDER = {
    "offset_commits": ("group_id", "topic", "partition", "log_offset"),
    "group_events": ("group_id", "log_offset"),
}
_NO_DATE = "unknown"


@dataclass(frozen=True)
class LandingTask:
    """A range of one partition; `epoch` is that of the last batch landed before `start`, -1 without one."""

    options: Options
    target: str
    tables: tuple[str, ...]
    partition: int
    start: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a task: its partition, the epoch of the last batch, and rows by table."""

    partition: int
    epoch: int
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a worker could not land its range; a value, because Spark would wrap an exception."""

    message: str
    is_refusal: bool


def try_range(task: LandingTask) -> Done | Failed:
    """Write the files of a range; return a failure as a value."""
    try:
        return land_range(task)
    except (LandingRefused, MissingData, CorruptLog, OSError) as problem:
        return Failed(str(problem), isinstance(problem, LandingRefused))


def land_range(task: LandingTask) -> Done:
    """Write the files of a range. Raises LandingRefused, MissingData, CorruptLog, OSError."""
    epoch = _check_epochs(task)
    return Done(task.partition, epoch, {table: _land_table(task, table) for table in task.tables})


def options_of(options: Options, partition: int, start: int, end: int) -> Options:
    """Return the options that read a range of one partition of the log."""
    where = TopicPartition(GROUP_OFFSETS_TOPIC, partition)
    return replace(
        options,
        topics=replace(options.topics, names=(), partitions={GROUP_OFFSETS_TOPIC: (partition,)}),
        starting_offsets={where: start},
        ending_offsets={where: end},
        min_partitions=1,
    )


def _check_epochs(task: LandingTask) -> int:
    """Check the epochs and return that of the last batch. The epochs of a log never decrease."""
    epoch = task.epoch
    first = task.start - 1 if task.epoch >= 0 else task.start
    for planned in plan(options_of(task.options, task.partition, first, task.end)):
        for where, scan in planned.scans():
            if scan.corruptions and task.options.fail_on_corrupt:
                raise CorruptLog(str(scan.corruptions[0]))
            for base_offset, last_offset, found in zip(
                scan.batches.base_offset.tolist(),
                scan.batches.last_offset.tolist(),
                scan.batches.leader_epoch.tolist(),
                strict=True,
            ):
                is_landed = base_offset < task.start
                if found < epoch or (is_landed and 0 <= task.epoch < found):
                    raise LandingRefused(
                        f"{where}, offsets {base_offset} to {last_offset}: leader epoch {found}, but what "
                        f"was landed before has {epoch}: the log was cut off and written anew since; land "
                        "it elsewhere"
                    )
                epoch = max(epoch, found)
    return epoch


def _land_table(task: LandingTask, name: str) -> int:
    for attempt in range(ATTEMPTS):
        try:
            table = _read(task, name)
            break
        except CompactedWhileRead:
            if attempt + 1 == ATTEMPTS:
                raise
    order = [(column, "ascending") for column in _ORDER[name]]
    for date, rows in _by_date(table):
        file = f"{task.start:020d}-{task.end:020d}.parquet"
        folder = f"{name}/log_partition={task.partition}/date={date}"
        Folder(task.target).write_table(f"{folder}/{file}", rows.sort_by(order))
    return int(table.num_rows)


def _read(task: LandingTask, name: str) -> pa.Table:
    reader = ViewReader(TABLES[name], options_of(task.options, task.partition, task.start, task.end))
    batches = [batch for planned in reader.partitions() for batch in reader.read(planned)]
    # The partition is in the path of the file.
    return pa.Table.from_batches(batches, reader.arrow_schema).drop_columns(["log_partition"])


def _by_date(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each UTC date of their log timestamps."""
    dates = pc.fill_null(pc.strftime(table["log_timestamp"], "%Y-%m-%d"), _NO_DATE)
    found: Iterable[str] = pc.unique(dates).to_pylist()
    for date in sorted(found):
        yield date, table.filter(pc.equal(dates, date))
