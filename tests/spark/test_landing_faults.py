"""Landings that meet another run, a damaged target or a damaged log: refused, not repeated or in silence."""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.coordinator_records import NOW
from tests.spark.support import make_due, rows_of
from tests.spark.test_landing import (
    DAY_MS,
    TOPIC,
    VIEWS,
    Broker,
    broker,
    check,
    check_states,
    commit,
    event,
    rows,
    where,
)
from typer.testing import CliRunner

import headgate
from headgate.admin import Admin, TopicPartition
from headgate.admin.errors import moment
from headgate.cli import app
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.times import millis
from headgate.log.batch import Record
from headgate.log.batch_scan import Chunk, Scan, scan_chunk
from headgate.records import OffsetCommit, encode
from headgate.spark.landing import (
    LandingFailed,
    LandingRefused,
    files,
    gaps_at,
    land,
    landed_until,
    offsets_as_of,
    offsets_now,
    run_here,
)
from headgate.spark.landing.files import Folder, UnreadableFile
from headgate.spark.landing.job import SourceAway
from headgate.spark.landing.merging import MergeTask
from headgate.spark.landing.progress import NAME, read_progress, save_progress
from headgate.spark.landing.state import groups_file, load_groups, load_offsets
from headgate.spark.landing.tables import current_file, whole_files
from headgate.spark.landing.work import (
    RUN_ID_FILE,
    Failed,
    Failure,
    LandingTask,
    Result,
    Task,
)
from headgate.spark.options import OptionError
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop

__all__ = ["broker"]


def visible(target: Path) -> list[str]:
    """The files that Spark and Arrow read as parts of tables: names with a dot or underscore are skipped."""
    return [
        file.name
        for file in target.rglob("*")
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(target).parts)
    ]


def test_a_second_run_at_the_same_time_is_refused(broker: Broker, tmp_path: Path) -> None:
    """Otherwise both plan ranges of the same records, and one forgets what the other landed."""
    target = tmp_path / "tables"

    def run(tasks: Sequence[Any]) -> list[Any]:
        broker.append(0, [commit(50)])
        with pytest.raises(LandingRefused, match="another run lands into"):
            land(str(broker.directory), str(target))
        return run_here(tasks)

    land(str(broker.directory), str(target), run)
    broker.append(0, [commit(51)])
    land(str(broker.directory), f"file://{target}")
    check(broker, target)


def test_workers_that_do_not_see_the_target_land_nothing(broker: Broker, tmp_path: Path) -> None:
    """A path of the driver's machine, on a cluster. The next run, with a shared folder, misses no row."""
    target, elsewhere = tmp_path / "tables", tmp_path / "elsewhere"

    def on_another_machine(tasks: Sequence[Any]) -> list[Any]:
        return run_here([replace(task, target=str(elsewhere)) for task in tasks])

    for _ in range(2):
        with pytest.raises(LandingRefused, match="is not the same folder on all machines"):
            land(str(broker.directory), str(target), on_another_machine)
        assert visible(elsewhere) == []
    land(str(broker.directory), str(target))
    check(broker, target)


def test_workers_with_another_working_directory_land_into_the_same_target(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each executor of a Spark cluster has one of its own."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "worker").mkdir()

    def in_a_worker(tasks: Sequence[Any]) -> list[Any]:
        monkeypatch.chdir(tmp_path / "worker")
        try:
            return run_here(tasks)
        finally:
            monkeypatch.chdir(tmp_path / "driver")

    monkeypatch.chdir(tmp_path / "driver")
    land(str(broker.directory), "./tables", in_a_worker)
    check(broker, tmp_path / "driver/tables")
    assert not any((tmp_path / "worker").iterdir())


def test_readers_do_not_see_a_file_that_is_not_complete(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed while it writes leaves a file that Spark skips."""
    target, replace = tmp_path / "tables", Path.replace

    def killed(path: Path, other: Path) -> Path:
        if other.name.endswith(".parquet"):
            raise OSError("killed")
        return replace(path, other)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(LandingFailed):
            land(str(broker.directory), str(target))
    assert visible(target) == []
    land(str(broker.directory), str(target))
    check(broker, target)


def test_what_a_killed_run_left_unfinished_is_removed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed cannot remove its temporary files: the next run does."""
    target, replace = tmp_path / "tables", Path.replace

    def killed(path: Path, other: Path) -> Path:
        if other.name.endswith(".parquet"):
            raise OSError("killed")
        return replace(path, other)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(LandingFailed):
            land(str(broker.directory), str(target))
    assert len(list(target.rglob(".*.tmp"))) == 2
    (target / "_headgate" / ".progress.json.0.tmp").write_bytes(b"{")
    mine = target / "offset_commits" / "mine.tmp"
    mine.write_bytes(b"somebody else's")
    land(str(broker.directory), str(target))
    assert list(target.rglob("*.tmp")) == [mine]
    mine.unlink()
    check(broker, target)


def test_a_range_is_read_once(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its checks and all its tables; before, only the end of the log, which may be within a run."""
    scanned: Counter[str] = Counter()

    def counting(chunk: Chunk) -> Scan:
        scanned[chunk.place] += 1
        return scan_chunk(chunk)

    monkeypatch.setattr("headgate.spark.segments.scan_chunk", counting)
    land(str(broker.directory), str(tmp_path / "tables"))
    assert len(scanned) == 2
    assert set(scanned.values()) == {2}


@pytest.mark.parametrize("has_delta", [False, True])
def test_a_disk_that_is_full_loses_nothing(broker: Broker, tmp_path: Path, has_delta: bool) -> None:
    """Whichever files fit, the run fails and names one, and the next run lands the rest once."""
    if has_delta:
        pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'headgate[delta]'")
    target = tmp_path / "tables"
    message = "File too large" if has_delta else f"File too large: '{target}/"
    for largest in (0, 400, 900, 1500, 4000, 6000):
        broker.append(0, [commit(50), event(), *(commit(number, number) for number in range(20))])
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
        try:
            with pytest.raises((LandingFailed, OSError), match=message):
                land(str(broker.directory), str(target), delta=has_delta)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not list(target.rglob("*.tmp"))
        land(str(broker.directory), str(target), delta=has_delta)
        check(broker, target)
        check_states(target)


def test_the_rows_of_an_interrupted_landing_are_counted_by_the_next_one(
    broker: Broker, tmp_path: Path
) -> None:
    """Those of the tables that are made from the state of groups, too, which was there already."""

    def interrupted(tasks: Sequence[Task]) -> list[Result]:
        run_here(tasks)
        raise KeyboardInterrupt

    source, target = str(broker.directory), str(tmp_path / "tables")
    with pytest.raises(KeyboardInterrupt):
        land(source, target, interrupted)
    landed = land(source, target)
    assert landed.rows == land(source, str(tmp_path / "others")).rows
    assert landed.rows["rebalances"] == len(rows(Path(target), "rebalances")) > 0


def test_a_gap_begins_where_it_did_for_an_attempt_that_was_interrupted(tmp_path: Path) -> None:
    """A time in the gap is one at which offsets are unknown, not one at which there were none."""

    def committed_at(day: int) -> Record:
        what = OffsetCommit(GroupId("g"), TopicName("t"), 0, day, 0, "", Millis(NOW + day * DAY_MS))
        return Record(*encode(what), NOW + day * DAY_MS)

    def interrupted(tasks: Sequence[Task]) -> list[Result]:
        run_here(tasks)
        raise KeyboardInterrupt

    broker, target = Broker(tmp_path / "data"), tmp_path / "tables"
    source = str(broker.directory)
    for day in (1, 5):
        broker.ends[0] += 3  # compaction removed what was there
        broker.append(0, [committed_at(day)])
        with pytest.raises(KeyboardInterrupt):
            land(source, str(target), interrupted, is_sampling=False)
        land(source, str(target), is_sampling=False)
    progress = read_progress(Folder(str(target)))
    assert progress is not None
    assert [gap.since for gap in progress.of_log()[0].gaps] == [-1, (NOW + DAY_MS) * 1000]
    (row,) = offsets_as_of(str(target), NOW + 3 * DAY_MS).to_pylist()
    assert not row["is_known"]


def test_rows_that_only_an_interrupted_attempt_has_seen_may_have_been_replaced(tmp_path: Path) -> None:
    """Compaction removed a record while the first attempt read, and one more before the second attempt."""

    def committed_at(minute: int) -> Record:
        at = Millis(NOW + minute * 60_000)
        return Record(*encode(OffsetCommit(GroupId("g"), TopicName("t"), 0, minute, 0, "", at)), at)

    def interrupted(tasks: Sequence[Task]) -> list[Result]:
        run_here(tasks)
        raise KeyboardInterrupt

    broker, target = Broker(tmp_path / "data"), tmp_path / "tables"
    log = broker.directory / f"{TOPIC}-0" / f"{0:020}.log"
    for minute in (0, 2):  # without the record of minute 1
        broker.ends[0] = minute
        broker.append(0, [committed_at(minute)])
    with pytest.raises(KeyboardInterrupt):
        land(str(broker.directory), str(target), interrupted, is_sampling=False)
    log.unlink()
    broker.ends[0] = 2
    broker.append(0, [committed_at(2)])
    land(str(broker.directory), str(target), is_sampling=False)
    (row,) = offsets_as_of(str(target), NOW + 90_000).to_pylist()
    assert not row["is_known"]
    (row,) = offsets_now(str(target)).to_pylist()
    assert (row["is_known"], row["committed_offset"]) == (True, 2)


def test_an_offset_of_which_no_record_is_left_is_not_told_as_none(tmp_path: Path) -> None:
    """Compaction removed its commit and its tombstone, so a time in the gap has exit code 1."""
    broker, target = Broker(tmp_path / "data"), str(tmp_path / "tables")
    broker.append(0, [commit(1)])
    land(str(broker.directory), target, is_sampling=False)
    when, words = "2023-11-15T22:14:00", ["spark", "offsets", target, "--as-of"]
    printed = CliRunner().invoke(app, [*words, when])
    assert (printed.exit_code, gaps_at(target, datetime.fromisoformat(f"{when}Z"))) == (0, [])
    broker.ends[0] = 4  # compaction removed the records of group h
    broker.append(0, [later_commit(2, 3)])
    land(str(broker.directory), target, is_sampling=False)
    assert gaps_at(target, datetime.fromisoformat(f"{when}Z")) == [0]
    for group in (["--group", "h"], []):
        printed = CliRunner().invoke(app, [*words, when, *group])
        assert printed.exit_code == 1
        assert "before they were landed (log_partition 0)" in printed.stderr
    printed = CliRunner().invoke(app, [*words, "2023-11-14T22:13:00"])
    assert (printed.exit_code, "were landed" in printed.stderr) == (0, False), "before the gap"


def test_a_gap_does_not_end_before_its_last_commit(tmp_path: Path) -> None:
    """The clock of the machine that lands is behind that of the broker."""
    broker, target = Broker(tmp_path / "data"), tmp_path / "tables"
    ahead = Millis(int(time.time() * 1000) + DAY_MS)
    broker.ends[0] = 3  # compaction removed what was there
    what = OffsetCommit(GroupId("g"), TopicName("t"), 0, 5, 0, "", ahead)
    broker.append(0, [Record(*encode(what), ahead)])
    land(str(broker.directory), str(target), is_sampling=False)
    (row,) = offsets_as_of(str(target), ahead - 1).to_pylist()
    assert not row["is_known"]
    (row,) = offsets_as_of(str(target), ahead).to_pylist()
    assert (row["is_known"], row["committed_offset"]) == (True, 5)


def test_two_attempts_at_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may repeat a task whose first attempt still runs."""
    folder, sync, is_first = Folder(str(tmp_path)), os.fsync, [True]

    def sync_after_the_other(file: int) -> None:
        if is_first:
            is_first.clear()
            folder.write("t/p/d/f.parquet", b"content")
        sync(file)

    monkeypatch.setattr(os, "fsync", sync_after_the_other)
    folder.write("t/p/d/f.parquet", b"content")
    assert folder.read("t/p/d/f.parquet") == b"content"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_damaged_progress_is_refused(broker: Broker, tmp_path: Path, content: bytes) -> None:
    """Without it nobody knows what was landed."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    (target / NAME).write_bytes(content)
    with pytest.raises(LandingRefused, match=r"progress\.json is damaged"):
        land(str(broker.directory), str(target))


@pytest.mark.parametrize("name", [NAME, groups_file(0)])
def test_a_flipped_bit_in_what_a_landing_continues_from_is_refused(
    broker: Broker, tmp_path: Path, name: str
) -> None:
    """In each byte: a landed end that is too high would lose rows without an error."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    file = target / name
    whole = file.read_bytes()
    taken = []
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            read_progress(Folder(str(target)))
            load_groups(Folder(str(target)), 0)
            taken.append(at)
        except LandingRefused:
            pass
    content = whole.rindex(b",", 0, whole.rindex(b'"crc32c"'))
    assert [at for at in taken if at < content] == []


@pytest.mark.parametrize("by_hand", [b"\n", b" \n\n", b',"note":1}', None])
def test_a_progress_that_an_editor_saved_is_refused_if_it_was_changed(
    broker: Broker, tmp_path: Path, by_hand: bytes | None
) -> None:
    """Editors add a line end, and programs write members in their own order."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    file = target / NAME
    changed = re.sub(rb'"end": (\d+)', rb'"end": 1\1', file.read_bytes(), count=1)
    if by_hand is None:
        changed = json.dumps(dict(sorted(json.loads(changed).items()))).encode()
    else:
        changed = changed.removesuffix(b"}" if b"note" in by_hand else b"") + by_hand
    file.write_bytes(changed)
    with pytest.raises(LandingRefused, match=r"progress\.json is damaged .*checksum"):
        land(str(broker.directory), str(target))


def test_a_line_end_behind_the_progress_is_no_damage(broker: Broker, tmp_path: Path) -> None:
    """An editor that saved it unchanged added it."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    landed = offsets_now(str(target))
    with (target / NAME).open("ab") as file:
        file.write(b"\n")
    land(str(broker.directory), str(target))
    assert landed.num_rows and offsets_now(str(target)).equals(landed)


def test_a_flipped_bit_in_committed_offsets_is_never_passed_on(broker: Broker, tmp_path: Path) -> None:
    """Neither in a row nor in the end offset and the pending commits, which are behind the rows."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    folder = Folder(str(target))
    expected = load_offsets(folder, 0)
    file = target / current_file("offsets_current", 0)
    whole = file.read_bytes()
    found = 0
    for at in range(4, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            assert load_offsets(folder, 0) == expected, at
        except (LandingRefused, UnreadableFile):
            found += 1
    assert found > len(whole) // 28


def test_a_damaged_row_of_a_table_that_grows_is_told(broker: Broker, tmp_path: Path) -> None:
    """By the question that reads it, with the name of the file."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    file = next(target.glob("offset_commits/log_partition=0/date=2023-11-14/*"))
    whole = bytearray(file.read_bytes())
    about = pq.read_metadata(file).row_group(0).column(0)
    first = about.dictionary_page_offset or about.data_page_offset
    whole[first + about.total_compressed_size - 1] ^= 1
    file.write_bytes(whole)
    with pytest.raises(UnreadableFile, match=f"{file} cannot be read"):
        Folder(str(target)).read_table(str(file.relative_to(target)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"0\n1\n__consumer_offsets 0 x\n",
        b"0\n1\n__consumer_offsets\n",
        b"\xff",
        b"0\n2\na 0 1\n",
    ],
)
def test_a_damaged_checkpoint_of_high_watermarks_is_named(
    broker: Broker, tmp_path: Path, content: bytes
) -> None:
    """In a directory of Kafka: without it nobody knows what is durable."""
    file = broker.directory / "replication-offset-checkpoint"
    file.write_bytes(content)
    printed = CliRunner().invoke(app, ["spark", "land", str(broker.directory), str(tmp_path / "tables")])
    assert (printed.exit_code, f"{file} is damaged" in printed.stderr) == (1, True)


def test_a_broker_that_is_away_is_told_before_the_wait_for_it(tmp_path: Path) -> None:
    """The wait is a minute long by default, and the address may be wrong."""
    command = ["spark", "land", "127.0.0.1:1", str(tmp_path / "tables"), "--timeout", "1s"]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 1
    first, last = printed.stderr.splitlines()
    assert (
        first
        == "headgate spark land: no connection to 127.0.0.1:1: Connection refused; waiting for it, up to 1s"
    )
    assert last == "headgate spark land: no connection to 127.0.0.1:1: Connection refused"


def test_a_missing_sync_mark_is_no_loss_of_records(broker: Broker, tmp_path: Path) -> None:
    """A broker that recovers its log removes it for a moment: the run says so, and a later one goes on."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    mark = broker.directory / f"{TOPIC}-0" / "headgate.synced"
    whole = mark.read_bytes()
    for change in (mark.unlink, lambda: mark.write_bytes(whole[:-9])):
        change()
        with pytest.raises(SourceAway, match=r"has no valid headgate\.synced"):
            land(str(broker.directory), str(target))
    mark.write_bytes(whole)
    broker.append(0, [commit(9)])
    assert land(str(broker.directory), str(target)).rows["offset_commits"] == 1


def test_a_young_broker_has_nothing_to_land_from_its_directory(tmp_path: Path) -> None:
    """No mark says what is durable: 0 rows would look like an answer."""
    young = Broker(tmp_path / "young")
    young.append(0, [commit(1)], durable=False)
    with pytest.raises(SourceAway, match="Land from the broker's port"):
        land(str(young.directory), str(tmp_path / "tables"))


def test_a_young_log_does_not_keep_the_others_from_being_landed(broker: Broker, tmp_path: Path) -> None:
    """A partition that got its first record has no mark yet: its broker writes it later."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    broker.append(0, [commit(9)])
    broker.ends[7] = 0
    broker.append(7, [commit(1)])
    mark = broker.directory / f"{TOPIC}-7" / "headgate.synced"
    whole = mark.read_bytes()
    mark.unlink()
    landed = land(str(broker.directory), str(target))
    assert (landed.rows["offset_commits"], landed.unmarked) == (1, (where(7),))
    printed = CliRunner().invoke(app, ["spark", "land", str(broker.directory), str(target)])
    assert f"; nothing yet from {TOPIC}-7: their broker has not marked" in printed.stdout
    mark.write_bytes(whole)
    landed = land(str(broker.directory), str(target))
    assert (landed.rows["offset_commits"], landed.unmarked) == (1, ())


def test_an_empty_partition_of_kafka_is_not_unmarked(tmp_path: Path) -> None:
    """It has no sync mark by nature, and no records of which a broker should mark some."""
    kafka = Broker(tmp_path / "kafka")
    kafka.append(0, [commit(1)], durable=False)
    for partition in (1, 2):
        folder = kafka.directory / f"{TOPIC}-{partition}"
        folder.mkdir()
        (folder / f"{0:020}.log").touch()
    checkpoint = kafka.directory / "replication-offset-checkpoint"
    checkpoint.write_text(f"0\n2\n{TOPIC} 0 1\n{TOPIC} 1 0\n")
    landed = land(str(kafka.directory), str(tmp_path / "tables"))
    assert (landed.rows["offset_commits"], landed.unmarked) == (1, ())


def test_a_directory_of_kafka_without_committed_offsets_has_no_rows(tmp_path: Path) -> None:
    """A group that only looked for its coordinator made the log: there is nothing to wait for."""
    kafka = Broker(tmp_path / "kafka")
    folder = kafka.directory / f"{TOPIC}-0"
    folder.mkdir()
    (folder / f"{0:020}.log").touch()
    (kafka.directory / "replication-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 0\n")
    landed = land(str(kafka.directory), str(tmp_path / "tables"))
    assert (landed.rows["offset_commits"], landed.unmarked) == (0, ())


def test_records_of_kafka_without_a_high_watermark_are_unmarked(tmp_path: Path) -> None:
    """A partition that was made within the last seconds is not in the checkpoint yet."""
    kafka = Broker(tmp_path / "kafka")
    kafka.append(0, [commit(1)], durable=False)
    (kafka.directory / "replication-offset-checkpoint").write_text("0\n0\n")
    with pytest.raises(SourceAway, match=r"not in replication-offset-checkpoint, .* every few seconds"):
        land(str(kafka.directory), str(tmp_path / "tables"))


def test_records_that_were_landed_from_the_port_are_not_lost_in_the_directory(
    broker: Broker, tmp_path: Path
) -> None:
    """A running broker marks less as durable than its port gives; a later run goes on."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    broker.sync(0, 3)
    printed = CliRunner().invoke(app, ["spark", "land", str(broker.directory), str(target)])
    assert printed.exit_code == 1 and "lost" not in printed.stderr, printed.stderr
    assert "was landed up to offset 5" in printed.stderr and "land from the port again" in printed.stderr
    assert "only those before 3 are marked as durable yet (headgate.synced)" in printed.stderr
    with pytest.raises(SourceAway):
        land(str(broker.directory), str(target))
    broker.append(0, [commit(9)])
    assert land(str(broker.directory), str(target)).rows["offset_commits"] == 1


def test_tables_without_a_progress_are_not_landed_again(broker: Broker, tmp_path: Path) -> None:
    """Their rows would be there twice."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    (target / NAME).unlink()
    broker.append(0, [commit(50)])
    with pytest.raises(LandingRefused, match=r"offset_commits.*but no _headgate/progress\.json"):
        land(str(broker.directory), str(target))


@pytest.mark.parametrize("tables", [["offset_commits"], ["group_events"], ["offsets_current"], None])
def test_a_progress_that_is_older_than_the_tables_is_refused(
    broker: Broker, tmp_path: Path, tables: list[str] | None
) -> None:
    """One from a backup would land rows again; with the newest one the landing goes on."""
    target = tmp_path / "tables"
    progress = target / NAME
    land(str(broker.directory), str(target), tables=tables)
    older = progress.read_bytes()
    broker.append(0, [commit(50), event()])
    land(str(broker.directory), str(target))
    newest = progress.read_bytes()
    files = contents(target)
    broker.append(0, [commit(51), event()])
    progress.write_bytes(older)
    with pytest.raises(LandingRefused, match="restore"):
        land(str(broker.directory), str(target))
    assert contents(target) == files
    progress.write_bytes(newest)
    land(str(broker.directory), str(target))
    for table in ("offset_commits", "group_events"):
        if tables is None or table in tables:
            assert rows(target, table) == rows_of(VIEWS[table], broker.directory, TOPIC)


def contents(target: Path) -> dict[Path, bytes]:
    """Return all files of the tables and of their states."""
    return {
        file: file.read_bytes()
        for file in target.rglob("*")
        if file.is_file() and str(file.relative_to(target)) not in (NAME, RUN_ID_FILE)
    }


def test_a_sample_is_not_replaced(broker: Broker, tmp_path: Path) -> None:
    """By a run with an older progress, whose number was used already."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), tables=["end_offsets"])
    older = (target / NAME).read_bytes()
    land(str(broker.directory), str(target))
    files = contents(target)
    (target / NAME).write_bytes(older)
    with pytest.raises(LandingRefused, match=r"has end_offsets/.*restore the newest one"):
        land(str(broker.directory), str(target))
    assert contents(target) == files


@pytest.mark.parametrize("pattern", ["offsets_current/*0/current.parquet", "_headgate/groups/*0.json"])
@pytest.mark.parametrize("damage", [None, b"", b"PAR1 is no table PAR1", b'{"end": 5}'])
def test_a_state_that_is_gone_or_damaged_is_refused(
    broker: Broker, tmp_path: Path, pattern: str, damage: bytes | None
) -> None:
    """It would begin anew without the offsets and members of before."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    (state,) = target.glob(pattern)
    whole = state.read_bytes()
    state.unlink()
    if damage is not None:
        state.write_bytes(damage)
    files = contents(target)
    broker.append(0, [commit(50), event()])
    with pytest.raises(
        (LandingRefused, LandingFailed), match=r"(is gone|is damaged|cannot be read).*restore"
    ):
        land(str(broker.directory), str(target))
    assert contents(target) == files
    if "current" in pattern:
        printed = CliRunner().invoke(app, ["spark", "offsets", str(target)])
        assert (printed.exit_code, "restore it" in printed.stderr) == (1, True)
    state.write_bytes(whole)
    land(str(broker.directory), str(target))
    check(broker, target)
    check_states(target)


@pytest.mark.parametrize("content", [b"", b"PAR1"])
def test_a_damaged_file_of_a_table_is_named(broker: Broker, tmp_path: Path, content: bytes) -> None:
    """By a merge and by a question to the tables; with the file restored both go on."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    broker.append(0, [commit(50), event()])
    land(str(broker.directory), str(target))
    file = next(target.glob("offset_commits/log_partition=0/date=2023-11-14/*"))
    whole = file.read_bytes()
    file.write_bytes(content)
    make_due(target)
    with pytest.raises(LandingFailed, match=f"{file} cannot be read"):
        land(str(broker.directory), str(target))
    printed = CliRunner().invoke(app, ["spark", "offsets", str(target), "--as-of", "2023-11-14T22:13:19"])
    assert (printed.exit_code, f"{file} cannot be read" in printed.stderr) == (1, True)
    file.write_bytes(whole)
    land(str(broker.directory), str(target))
    check(broker, target)


def test_a_file_of_another_program_is_no_snapshot(broker: Broker, tmp_path: Path) -> None:
    """A program that rewrites a table by its Delta log leaves files with names of its own."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    broker.append(0, [later_commit(9, 2)])
    land(str(broker.directory), str(target))
    broker.append(0, [later_commit(10, 3)])
    land(str(broker.directory), str(target))
    at = NOW + 2 * DAY_MS
    before = offsets_as_of(str(target), at)
    (daily, *_) = (target / "offsets_daily" / "log_partition=0").glob("*/last.parquet")
    Folder(str(daily.parent)).write_table(
        "part-00000.parquet", pq.read_table(daily).replace_schema_metadata()
    )
    assert offsets_as_of(str(target), at).equals(before)


def test_rows_of_deleted_dates_are_not_taken_for_no_commits(tmp_path: Path) -> None:
    """Offsets of their time are not known; those of later times are, by a later snapshot."""
    log, target = Broker(tmp_path / "data"), tmp_path / "tables"
    for day in range(4):
        log.append(0, [later_commit(day, day)])
        land(str(log.directory), str(target), is_sampling=False)
    before = [offsets_as_of(str(target), NOW + day * DAY_MS) for day in range(4)]
    assert [found["committed_offset"].to_pylist() for found in before] == [[0], [1], [2], [3]]
    shutil.rmtree(target / "offset_commits" / "log_partition=0" / "date=2023-11-15")
    shutil.rmtree(target / "offsets_daily" / "log_partition=0" / "date=2023-11-15")
    printed = CliRunner().invoke(app, ["spark", "offsets", str(target), "--as-of", "2023-11-15T22:14:00"])
    assert (printed.exit_code, "no rows of log_partition=0 from offset 1 on" in printed.stderr) == (1, True)
    for day in (2, 3):
        assert offsets_as_of(str(target), NOW + day * DAY_MS).equals(before[day])


@pytest.mark.parametrize(
    ("question", "function"),
    [
        ("offsets", "headgate.spark.landing.offsets_as_of"),
        ("share-states", "headgate.fleet.share_states_as_of"),
    ],
)
def test_a_time_after_the_last_landing_is_told_from_one_before(
    tmp_path: Path, question: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the time between is in the tables. A target of an earlier version does not know its time."""
    log, target = Broker(tmp_path / "data"), tmp_path / "tables"
    log.append(0, [later_commit(1, 5)])
    land(str(log.directory), str(target), is_sampling=False)
    assert landed_until(str(target)) is None, "a server that runs has not marked all that it wrote"
    stop = datetime.now(UTC) - timedelta(hours=1)
    marker = CleanStop((), 0, {}, millis(stop))
    (log.directory / CLEAN_SHUTDOWN_FILE).write_bytes(marker.encode())
    land(str(log.directory), str(target), is_sampling=False)
    until = landed_until(str(target))
    assert until is not None and abs(until - stop) <= timedelta(milliseconds=1), (
        "nothing is there since the stop, also in a copy, whose files have other times"
    )

    def told(at: datetime) -> str:
        printed = CliRunner().invoke(app, ["spark", question, str(target), "--as-of", at.isoformat()])
        assert printed.exit_code == 0, printed.stderr
        return printed.stderr

    message = f"landed until {moment(millis(until))}: later changes are not in them"
    assert message in told(until) and message in told(until + timedelta(days=400))
    assert "landed until" not in told(until - timedelta(milliseconds=1))
    progress = read_progress(Folder(str(target)))
    assert progress is not None and progress.landed_until is not None
    later = replace(progress, landed_until=progress.landed_until + 1_000_000)
    folder, _, name = function.rpartition(".")
    answer = getattr(importlib.import_module(folder), name)

    def answer_and_land(*arguments: Any) -> pa.Table:
        found = answer(*arguments)
        save_progress(Folder(str(target)), later)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(function, answer_and_land)
        assert message in told(until), "a landing that ended after the answer is not in it"
    save_progress(Folder(str(target)), replace(progress, landed_until=None))
    assert landed_until(str(target)) is None and "landed until" not in told(until)
    assert "until when the tables are complete is not known" in told(until)


@pytest.mark.parametrize("name", [CLEAN_SHUTDOWN_FILE, ".kafka_cleanshutdown"])
def test_a_marker_without_a_time_tells_no_more_than_the_latest_commit(tmp_path: Path, name: str) -> None:
    """The time of the file is that of the copy, if the directory was copied."""
    log, target = Broker(tmp_path / "data"), tmp_path / "tables"
    log.append(0, [later_commit(1, 5)])
    log.append(1, [later_commit(2, 3)])
    (log.directory / name).write_bytes(CleanStop((), 0, {}).encode())
    land(str(log.directory), str(target), is_sampling=False)
    assert landed_until(str(target)) == datetime.fromtimestamp((NOW + 5 * DAY_MS) / 1000, UTC)
    earlier = NOW / 1000 + 60
    os.utime(log.directory / name, (earlier, earlier))
    land(str(log.directory), str(tmp_path / "other"), is_sampling=False)
    assert landed_until(str(tmp_path / "other")) == datetime.fromtimestamp(earlier, UTC), "a clock was wrong"
    land(str(log.directory), str(tmp_path / "few"), tables=["offset_commits"])
    assert landed_until(str(tmp_path / "few")) is None
    land(str(log.directory), str(target), is_sampling=False)
    assert landed_until(str(target)) == datetime.fromtimestamp((NOW + 5 * DAY_MS) / 1000, UTC), "it was known"


def test_the_tables_of_a_copy_of_a_stopped_server_know_its_stop(tmp_path: Path) -> None:
    """The original goes on, and the files of the copy are younger than what was committed there."""
    where = TopicPartition(TopicName("t"), 0)
    with headgate.run(data_dir=tmp_path / "data") as server:
        with Admin(server.bootstrap_servers) as admin:
            admin.create_topic("t")
            admin.alter_offsets("g", {where: 1})
        before = datetime.now(UTC)
        server.stop()
        after = datetime.now(UTC)
    copied = tmp_path / "copy"
    shutil.copytree(tmp_path / "data", copied)
    copied_at = (after + timedelta(hours=1)).timestamp()
    os.utime(copied / CLEAN_SHUTDOWN_FILE, (copied_at, copied_at))
    land(str(copied), str(tmp_path / "tables"))
    until = landed_until(str(tmp_path / "tables"))
    assert until is not None and before - timedelta(milliseconds=1) <= until <= after


def test_files_of_later_days_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question as of a time long ago needs one snapshot and the rows of a day."""
    log, target = Broker(tmp_path / "data"), tmp_path / "tables"
    for day in range(5):
        log.append(0, [later_commit(day, day), event(day), later_commit(10 + day, day + 0.05)])
        land(str(log.directory), str(target), is_sampling=False)
    read, rows_read = files._rows, 0

    def counting(*arguments: Any) -> pa.Table:
        nonlocal rows_read
        found = read(*arguments)
        rows_read += found.num_rows
        return found

    monkeypatch.setattr(files, "_rows", counting)
    assert offsets_as_of(str(target), NOW + DAY_MS)["committed_offset"].to_pylist() == [1]
    assert rows_read == 2  # the snapshot of the first day, and a commit of the second


def later_commit(offset: int, day: float) -> Record:
    """Return a commit whose own time is that of a later day."""
    at = Millis(int(NOW + day * DAY_MS))
    return Record(*encode(OffsetCommit(GroupId("g"), TopicName("t"), 0, offset, 0, "", at)), at)


def test_a_run_between_two_looks_at_a_snapshot_changes_no_answer(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets as of a time are asked for while a landing replaces them."""
    target = tmp_path / "tables"
    broker.append(0, [later_commit(60, 3)])
    land(str(broker.directory), str(target))
    at = NOW + 4 * DAY_MS
    before = offsets_as_of(str(target), at)
    assert before["committed_offset"].to_pylist()[0] == 60
    broker.append(0, [later_commit(70, 5)])
    look = Folder.footer

    def then_land(self: Folder, name: str) -> pq.FileMetaData:
        found = look(self, name)
        land(str(broker.directory), str(target))
        return found

    monkeypatch.setattr(Folder, "footer", then_land)
    assert offsets_as_of(str(target), at).equals(before)


def of_another_type(file: Path) -> None:
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.set_column(0, "log_offset", pa.array(["a"] * len(rows))), file)


@pytest.mark.parametrize(
    "replace",
    [
        lambda file: file.write_bytes(b""),
        lambda file: shutil.copy(next(file.parents[3].glob("group_events/*/*/*")), file),
        lambda file: shutil.copy(max(file.parent.iterdir()), file),
        of_another_type,
    ],
    ids=["empty", "another table", "other offsets", "another type"],
)
def test_a_file_of_other_rows_is_not_merged_and_keeps_no_new_records_waiting(
    broker: Broker, tmp_path: Path, replace: Callable[[Path], Any]
) -> None:
    """A merge would mix rows and delete the files. The log is compacted, so what is new must be landed."""
    target = tmp_path / "tables"
    for number in range(2):
        broker.append(0, [commit(number), event()])
        land(str(broker.directory), str(target))
    file = min((target / "offset_commits" / "log_partition=0" / "date=2023-11-14").iterdir())
    whole = file.read_bytes()
    replace(file)
    make_due(target)
    for number in range(2):
        broker.append(0, [commit(7 + number)])
        with pytest.raises(LandingFailed, match=rf"the tables are landed, but .*{file.name}.*restore it"):
            land(str(broker.directory), str(target), is_sampling=False)
        progress = read_progress(Folder(str(target)))
        assert progress is not None and progress.of_log()[0].end == broker.ends[0]
    file.write_bytes(whole)
    land(str(broker.directory), str(target), is_sampling=False)
    check(broker, target)


def test_a_range_is_finished_before_its_files_are_merged(broker: Broker, tmp_path: Path) -> None:
    """A merge that failed, then a run that was killed in its range: its rows are there once."""
    source, target = str(broker.directory), str(tmp_path / "tables")

    def no_merge(tasks: Sequence[Task]) -> list[Result]:
        is_merge = isinstance(tasks[0], MergeTask)
        return [Failed("no space", Failure.OTHER) for _ in tasks] if is_merge else run_here(tasks)

    def killed(tasks: Sequence[Task]) -> list[Result]:
        if isinstance(tasks[0], LandingTask):
            run_here(tasks)
            raise KeyboardInterrupt
        return no_merge(tasks)

    land(source, target, no_merge, is_sampling=False)
    make_due(Path(target))
    broker.append(0, [commit(50)])
    with pytest.raises(LandingFailed, match="files of past days are not merged: no space"):
        land(source, target, no_merge, is_sampling=False)
    broker.append(0, [commit(51)])
    with pytest.raises(KeyboardInterrupt):
        land(source, target, killed, is_sampling=False)
    land(source, target, is_sampling=False)
    check(broker, Path(target))
    check_states(Path(target))


def test_a_damaged_partition_does_not_keep_the_others_from_being_landed(
    broker: Broker, tmp_path: Path
) -> None:
    """Each run lands what is new in them, and fails; when the damage is mended, nothing is there twice."""
    source, target = str(broker.directory), tmp_path / "tables"
    land(source, str(target))
    log = broker.directory / f"{TOPIC}-0" / f"{0:020}.log"
    size = log.stat().st_size
    broker.append(0, [commit(20)])
    broker.append(0, [commit(21), commit(22)])
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[size + 70] ^= 1
    log.write_bytes(damaged)
    for number in range(3):
        broker.append(1, [commit(30 + number), event()])
        with pytest.raises(LandingFailed, match=f"{TOPIC}-0"):
            land(source, str(target))
        progress = read_progress(Folder(str(target)))
        assert progress is not None
        assert [one.end for one in progress.of_log().values()] == [5, broker.ends[1]]
        assert progress.planned == ((where(0), 5, 8),)
    log.write_bytes(whole)
    make_due(target)
    land(source, str(target))
    check(broker, target)


def test_a_partition_that_is_gone_is_refused(broker: Broker, tmp_path: Path) -> None:
    """Its records were lost, or this is another log."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    shutil.rmtree(broker.directory / f"{TOPIC}-1")
    with pytest.raises(LandingRefused, match=f"{TOPIC}-1 is gone, but was landed up to 2"):
        land(str(broker.directory), str(target))


def test_a_merge_that_was_killed_hides_no_row_from_readers() -> None:
    """The hidden file has all rows of the files that it replaces, some of which are deleted."""
    folder = "offset_commits/log_partition=0/date=2026-11-22"
    names = [f"{folder}/{name}.parquet" for name in ("03-05", "_00-05", "05-09", "part-1")]
    names += [f"{folder.replace('22', '23')}/03-05.parquet"]
    assert whole_files(names) == [names[1], names[2], names[4]]


def test_a_source_that_is_not_there_is_said_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session takes seconds; it is not needed to read an option."""

    def session(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(importlib.import_module("headgate.cli.spark"), "session", session)
    command = ["spark", "land", str(tmp_path / "nothing"), str(tmp_path / "tables")]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, "there is no data directory" in result.output) == (1, True)
    with pytest.raises(OptionError, match=r"as a list: \['lag'\]"):
        land("127.0.0.1:1", "tables", tables="lag")
    result = CliRunner().invoke(app, [*command, "--tables", "x"])
    assert (result.exit_code, "there is no table 'x'" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["land", "127.0.0.1:1", "s4://x/y"], "s4://x/y: Unrecognized filesystem type in URI"),
        (
            ["land", "127.0.0.1:1", "file://tables"],
            "a folder or a URI is expected, as /data/tables, file:///",
        ),
        (["offsets", "s4://x/y"], "s4://x/y: Unrecognized filesystem type in URI"),
        (["share-states", "s4://x/y"], "s4://x/y: Unrecognized filesystem type in URI"),
        (["offsets", "tables", "--as-of", "yesterday"], "a date and time is expected"),
        (["offsets", "tables", "--output", "xml"], "table, json or csv is expected"),
    ],
)
def test_a_wrong_command_line_has_exit_code_2(words: list[str], message: str) -> None:
    """Exit code 1 is for what the cluster refuses, and for offsets that are unknown."""
    result = CliRunner().invoke(app, ["spark", *words])
    assert (result.exit_code, message in result.output) == (2, True), result.output
