"""The coordinator's log is landed exactly once, whatever fails."""

from __future__ import annotations

import copy
import importlib
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.spark.coordinator_records import GROUP, NOW
from tests.spark.landing_kills import kill_at_each_write
from tests.spark.support import make_due, rows_of
from tests.waiting import wait_until
from typer.testing import CliRunner

from headgate.cli import app
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicName, TopicPartition
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import SyncMark, save_sync_mark
from headgate.records import GroupTombstone, OffsetCommit, encode
from headgate.records.runs import RunPlace
from headgate.spark.landing import (
    LandingFailed,
    LandingRefused,
    current,
    groups,
    job,
    land,
    merging,
    offsets_as_of,
    reading,
    run_here,
    work,
)
from headgate.spark.landing.files import Folder
from headgate.spark.landing.state import load_groups, load_offsets
from headgate.spark.schemas import arrow_schema
from headgate.spark.source import GROUP_EVENTS_VIEW, OFFSET_COMMITS_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "__consumer_offsets"
DAY_MS = 86_400_000
VIEWS = {"offset_commits": OFFSET_COMMITS_VIEW, "group_events": GROUP_EVENTS_VIEW}


class Broker:
    """A data directory that grows."""

    def __init__(self, directory: Path, cluster_id: str = "c1") -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\n")
        self.ends = {0: 0, 1: 0}
        self.topic = TOPIC

    def append(self, partition: int, records: list[Record], *, epoch: int = 0, durable: bool = True) -> None:
        """Write a batch, and mark it as durable."""
        folder = self.directory / f"{self.topic}-{partition}"
        folder.mkdir(exist_ok=True)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(encode_batch(records, base_offset=self.ends[partition], leader_epoch=epoch))
        self.ends[partition] += len(records)
        if durable:
            self.sync(partition, self.ends[partition])

    def another_log(self, topic: str) -> Broker:
        """Return the same directory, to write to another log."""
        other = copy.copy(self)
        other.topic, other.ends = topic, {0: 0, 1: 0}
        return other

    def sync(self, partition: int, end: int) -> None:
        """Write the sync mark."""
        folder = self.directory / f"{self.topic}-{partition}"
        assert save_sync_mark(OsFileSystem(), folder, SyncMark(0, 0, end))


def commit(offset: int, day: int = 0, *headers: tuple[bytes, bytes]) -> Record:
    """Return a commit of this offset."""
    what = OffsetCommit(GroupId("g"), TopicName("t"), 0, offset, 0, "", Millis(NOW))
    return Record(*encode(what), NOW + day * DAY_MS, headers)


def where(partition: int) -> TopicPartition:
    """Return a partition of the log."""
    return TopicPartition(GROUP_OFFSETS_TOPIC, partition)


def event(day: int = 0) -> Record:
    """Return a record of the group."""
    return Record(*encode(GROUP), NOW + day * DAY_MS)


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files to the page cache, and small tables to one thread."""
    pa.set_cpu_count(1)
    monkeypatch.setattr("headgate.spark.landing.files.os.fsync", lambda descriptor: None)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Return a directory of two partitions with commits of three days and a few events."""
    made = Broker(tmp_path / "data")
    made.append(0, [commit(1), event(), commit(2, 1)])
    made.append(0, [commit(3, 2), Record(*encode(GroupTombstone(GroupId("g"))), NOW)])
    made.append(1, [commit(4), commit(5, 1)])
    return made


def rows(target: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a landed table, in the order of the log."""
    folder = target / table
    if not folder.exists():
        return []
    found = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    rows = found.drop_columns(["date"]).to_pylist()
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def check_states(target: Path) -> None:
    """Check that the tables that are continued equal those made from all landed rows in one step."""
    commits, events = (
        pa.Table.from_pylist(rows(target, table), arrow_schema(view.schema)) for table, view in VIEWS.items()
    )
    expected = current.advance(current.nothing_at(0), commits, events, 1 << 40)
    found = load_offsets(Folder(str(target)), 0)
    assert found is not None
    assert found.rows.to_pylist() == expected.rows.to_pylist()
    assert found.last_time == expected.last_time
    state = groups.Groups()
    changes = groups.advance(state, events, found.end)
    assert load_groups(Folder(str(target)), 0) == state
    landed = [{**row, "log_partition": 0} for row in changes.rebalances.to_pylist()]
    assert rows(target, "rebalances") == landed


def check(broker: Broker, target: Path) -> None:
    """Check that the landed tables equal the readers' rows of all durable records."""
    for table, view in VIEWS.items():
        assert rows(target, table) == rows_of(view, broker.directory, TOPIC)


def test_what_is_durable_is_landed_once(broker: Broker, tmp_path: Path) -> None:
    """In one file for each range and day; the next run begins at the end of this one."""
    target = tmp_path / "tables"
    landed = land(str(broker.directory), str(target), tables=list(VIEWS))
    assert landed.rows == {"offset_commits": 5, "group_events": 2}
    assert landed.ends == {where(0): 5, where(1): 2}
    check(broker, target)
    days = sorted(file.parent.name for file in target.glob("offset_commits/log_partition=0/*/*.parquet"))
    assert days == ["date=2023-11-14", "date=2023-11-15", "date=2023-11-16"]
    assert land(str(broker.directory), str(target)).rows == {"offset_commits": 0, "group_events": 0}
    broker.append(1, [commit(6), event(3)])
    broker.append(1, [commit(7)], durable=False)
    assert land(str(broker.directory), f"file://{target}").rows == {"offset_commits": 1, "group_events": 1}
    broker.sync(1, broker.ends[1])
    land(str(broker.directory), str(target))
    check(broker, target)


def test_a_run_killed_at_any_write_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is lost or duplicated, also with new records between the two runs."""
    broker = Broker(tmp_path / "one")
    broker.append(0, [commit(1), event(), commit(2, 1)])

    def check_all(target: Path) -> None:
        check(broker, target)
        check_states(target)

    writes = kill_at_each_write(
        tmp_path,
        monkeypatch,
        lambda target: land(str(broker.directory), str(target)),
        lambda step: broker.append(0, [commit(100 + step), event()]),
        check_all,
    )
    # The run id, two files of commits, one each of events and rebalances, three of states, the progress four
    # times, and two samples, one each of four tables without rows, and the progress after the check of past
    # days and at the end.
    assert writes == 20


def test_large_logs_are_landed_range_by_range(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's memory is limited."""
    monkeypatch.setattr(work, "MOST_OFFSETS", 2)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    check(broker, target)
    assert len({file.name for file in target.glob("*/log_partition=0/*/*-*.parquet")}) == 3


def test_a_range_with_large_rows_is_landed_in_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of metadata; also if it is killed. A commit over several batches is not divided."""
    broker = Broker(tmp_path / "data")
    broker.append(0, [commit(1)])
    land(str(broker.directory), str(tmp_path / "tables"))
    for number in range(4):
        first = broker.ends[0]
        for at in range(2):
            broker.append(0, [commit(number * 10 + at, 0, RunPlace(first, at, 2).header())])
        broker.append(0, [event()])
    one = tmp_path / "one"
    land(str(broker.directory), str(one))
    monkeypatch.setattr(job, "merge_tasks", lambda *_: [])
    monkeypatch.setattr(reading, "MOST_BYTES", 900)
    monkeypatch.setattr("headgate.spark.segments.CHUNK_BYTES", 300)
    killed = kill_at_each_write(
        tmp_path,
        monkeypatch,
        lambda target: land(str(broker.directory), str(target), is_sampling=False),
        lambda step: None,
        lambda target: check(broker, target),
    )
    for name, count in (("tables", 3), (f"tables{killed}", 2)):
        target = tmp_path / name
        land(str(broker.directory), str(target))
        check(broker, target)
        check_states(target)
        ranges = {file.name for file in target.glob("*/log_partition=0/*/*.parquet") if "-" in file.name}
        assert len(ranges) >= count
        assert rows(target, "rebalances") == rows(one, "rebalances")


def test_a_run_that_is_not_complete_yet_is_not_landed(broker: Broker, tmp_path: Path) -> None:
    """An incomplete run waits for its end, and is never landed if it was cut."""
    target = tmp_path / "tables"
    for at in range(0, 6, 2):
        places = [RunPlace(2, at, 6), RunPlace(2, at + 1, 6)]
        broker.append(1, [commit(10 + at, 0, place.header()) for place in places])
        expected = 2 if at < 4 else 8
        assert land(str(broker.directory), str(target)).ends[where(1)] == expected
    check(broker, target)
    broker.append(1, [commit(20, 0, RunPlace(8, 0, 5).header())])
    assert land(str(broker.directory), str(target)).ends[where(1)] == 8
    broker.append(1, [commit(30)])
    assert land(str(broker.directory), str(target)).ends[where(1)] == 10
    check(broker, target)


def test_another_log_is_refused(broker: Broker, tmp_path: Path) -> None:
    """By its cluster, by an end before the landed end, and by the leader epochs of its batches."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    other = Broker(tmp_path / "other", "c2")
    other.append(0, [commit(1)])
    with pytest.raises(LandingRefused, match="cluster c1, not of c2"):
        land(str(other.directory), str(target))
    with pytest.raises(LandingRefused, match="has the tables"):
        land(str(broker.directory), str(target), tables=["offset_commits"])
    file = broker.directory / f"{TOPIC}-0" / f"{0:020}.log"
    file.unlink()
    broker.ends[0] = 0
    broker.append(0, [commit(1), event(), commit(2)])
    with pytest.raises(LandingRefused, match="ends at offset 3, but was landed up to 5"):
        land(str(broker.directory), str(target))
    file.unlink()
    broker.ends[0] = 0
    broker.append(0, [commit(1), event(), commit(2), commit(8), commit(9), commit(10)], epoch=3)
    with pytest.raises(LandingRefused, match="leader epoch 3, but what was landed before has 0"):
        land(str(broker.directory), str(target))


def test_past_days_become_one_file_wherever_the_merge_is_killed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are the same after it, and the offsets of the past too."""
    left = 1 << 30

    def counted(name: str) -> None:
        step = getattr(Folder, name)

        def dying(self: Folder, *arguments: Any) -> Any:
            nonlocal left
            if not left:
                raise OSError("killed")
            left -= 1
            return step(self, *arguments)

        monkeypatch.setattr(Folder, name, dying)

    for name in ("write", "rename", "delete"):
        counted(name)
    log, unmerged = Broker(tmp_path / "grown"), tmp_path / "unmerged"
    for number in range(3):
        log.append(0, [commit(number, 1), event(1)])
        with monkeypatch.context() as patch:
            patch.setattr(job, "merge_tasks", lambda *_: [])
            land(str(log.directory), str(unmerged), is_sampling=False)
    make_due(unmerged)
    before = offsets_as_of(str(unmerged), NOW + DAY_MS)
    survived = False
    for step in range(40):
        target = tmp_path / f"tables{step}"
        shutil.copytree(unmerged, target)
        left = step
        try:
            land(str(log.directory), str(target), is_sampling=False)
            survived = True
        except (OSError, LandingFailed):
            left = 1 << 30
            land(str(log.directory), str(target), is_sampling=False)
        check(log, target)
        assert offsets_as_of(str(target), NOW + DAY_MS).equals(before)
        for table in VIEWS:
            (file,) = (target / table).rglob("*.parquet")
            assert file.name == f"{0:020}-{6:020}.parquet"
        if survived:
            break
    assert survived
    # Of two tables one write, one rename and three deletions each; the progress thrice, the run id once.
    assert step == 14


def test_merged_files_are_limited_by_the_size_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in memory are larger than in files, and a worker sorts those of a merged file."""
    log, target = Broker(tmp_path / "data"), tmp_path / "tables"
    for number in range(6):
        log.append(0, [commit(number), commit(number)])
        with monkeypatch.context() as patch:
            patch.setattr(job, "merge_tasks", lambda *_: [])
            land(str(log.directory), str(target), is_sampling=False)
    (first, *_) = Folder(str(target)).names("offset_commits")
    size = int(Folder(str(target)).footer(first).metadata[b"headgate.bytes"])
    monkeypatch.setattr(merging, "MOST_BYTES", 2 * size + 10)
    make_due(target)
    land(str(log.directory), str(target), is_sampling=False)
    assert len(Folder(str(target)).names("offset_commits")) == 3
    check(log, target)


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL in the middle of a run; the next one finishes it."""
    made = Broker(tmp_path / "data")
    for number in range(20):
        made.append(0, [commit(number, number % 4), event(number % 4)])
    target = tmp_path / "tables"
    program = (
        "import sys; from headgate.spark.landing import land, work\n"
        "work.MOST_OFFSETS = 2\nland(*sys.argv[1:3])"
    )
    command = [sys.executable, "-c", program, str(made.directory), str(target)]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: len(list(target.glob("offset_commits/*/*/*.parquet"))) > 2, "some files", 60)
    finally:
        process.kill()
        process.wait()
    assert len(rows(target, "offset_commits")) < 20
    land(str(made.directory), str(target))
    check(made, target)
    check_states(target)


def test_the_command_lands_continuously(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again until it is interrupted, and says what it landed; an idle look says nothing.

    Other runs are refused between two looks, too: the next look would be refused during theirs, and end it.
    """
    target, looks, wait = tmp_path / "tables", 0, time.sleep

    def later(seconds: float) -> None:
        nonlocal looks
        if threading.current_thread() is not threading.main_thread():
            wait(seconds)  # a thread of Spark's
            return
        looks += 1
        assert seconds == 3
        with pytest.raises(LandingRefused, match="another run lands into"):
            land(str(broker.directory), str(target))
        if looks == 2:
            broker.append(0, [commit(50), commit(51)])
        if looks == 4:
            raise KeyboardInterrupt

    command_module = importlib.import_module("headgate.cli.spark")
    monkeypatch.setattr(command_module, "session", lambda *_: None)
    monkeypatch.setattr("headgate.spark.landing.run_on_spark", lambda _: run_here)
    monkeypatch.setattr(time, "sleep", later)
    command = ["spark", "land", str(broker.directory), str(target), "--continuously", "--every", "3"]
    result = CliRunner().invoke(app, [*command, "--tables", "offset_commits,offsets_current"])
    assert result.exit_code == 130
    said = [line for line in result.output.splitlines() if line.startswith("landed")]
    assert ["landed 5 rows of offset_commits" in said[0], "landed 2 rows" in said[1]] == [True, True]
    assert len(said) == 2
    assert len(rows(target, "offset_commits")) == 7


@pytest.mark.timeout(120)
def test_the_command_lands_with_spark(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Spark's workers do the work; a refusal is one line."""
    target = tmp_path / "tables"
    result = CliRunner().invoke(app, ["spark", "land", str(broker.directory), str(target)])
    assert result.exit_code == 0, result.output
    assert "landed 5 rows of offset_commits, 2 rows of group_events" in result.output
    check(broker, target)
    (broker.directory / "meta.properties").write_text("cluster.id=c9\n")
    result = CliRunner().invoke(app, ["spark", "land", str(broker.directory), str(target)])
    assert result.exit_code == 1
    assert "cluster c1, not of c9" in result.output
