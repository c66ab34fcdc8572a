"""What the landed tables say of committed offsets is what the coordinator says, now and of the past."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.coordinator_life import Life
from tests.waiting import wait_until
from typer.testing import CliRunner

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC, GroupId, Millis
from headgate.domain.settings import Settings
from headgate.fleet import share_states_as_of
from headgate.fleet.replay import replay
from headgate.spark.landing import land, offsets_as_of, offsets_now, run_here
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import read_progress
from headgate.spark.options import parse

SETTINGS = {"offsets.topic.num.partitions": "2"}


@pytest.mark.parametrize("question", [offsets_as_of, share_states_as_of])
def test_landed_tables_take_the_times_that_an_admin_takes(
    tmp_path: Path, question: Callable[..., pa.Table]
) -> None:
    """A datetime with a time zone, or ms since the epoch; what is surely a mistake is no empty answer."""
    moment = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        land(broker.bootstrap_servers, str(tmp_path / "tables"))
    at = int(moment.timestamp()) * 1000
    assert question(str(tmp_path / "tables"), moment).equals(question(str(tmp_path / "tables"), at))
    for wrong, error, words in (
        (at // 1000, ValueError, "looks like seconds"),
        (at * 1000, ValueError, "looks like microseconds"),
        (at * 1_000_000, ValueError, "looks like nanoseconds"),
        (moment.replace(tzinfo=None), ValueError, "has no time zone"),
        ("2026-11-21T08:30:00", TypeError, "must be a datetime"),
    ):
        with pytest.raises(error, match=words):
            question(str(tmp_path / "tables"), wrong)


@pytest.mark.timeout(120)
def test_landed_offsets_are_the_coordinators(tmp_path: Path) -> None:
    """Landed after each step or once at the end, from the server or its files, with a kill between."""
    each, once = str(tmp_path / "each"), str(tmp_path / "once")
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        life = Life(broker.bootstrap_servers)
        for step, _ in enumerate(life.play()):
            land(broker.bootstrap_servers, each)
            assert life.landed_now(each) == life.moments[-1].committed
            if step == 2:
                broker.kill()
                broker.start()
        land(broker.bootstrap_servers, once)
        for moment in life.moments:
            for target in (each, once):
                assert life.landed_at(target, moment.time) == moment.committed
        with Admin(broker.bootstrap_servers) as admin:
            moments = [*(moment.time for moment in life.moments), life.moments[0].time - 10_000]
            for at in moments:
                said = {
                    (group, one.partition): one.committed
                    for group in life.groups
                    for one in admin.offsets_as_of(group, Millis(at))
                    if one.committed is not None
                }
                assert life.landed_at(each, at) == said
        broker.stop()
        files = str(tmp_path / "files")
        land(str(broker.data_dir), files)
        assert life.landed_now(files) == life.moments[-1].committed
        assert offsets_now(files).equals(offsets_now(each))
        assert land(str(broker.data_dir), each).rows["offset_commits"] == 0
        # The catalogue tells the ids, also of topics without a record.
        assert len(topics_of(files)) == 2
        assert topics_of(files) <= topics_of(each)


@pytest.mark.timeout(120)
def test_landed_offsets_of_transactions_are_the_coordinators(tmp_path: Path) -> None:
    """Pending offsets do not count, aborted ones never; an audit of the same log agrees."""
    target, files = str(tmp_path / "each"), str(tmp_path / "files")
    with run({"offsets.topic.num.partitions": "1"}, data_dir=tmp_path / "data") as broker:
        life = Life(broker.bootstrap_servers)
        next(life.play())
        land(broker.bootstrap_servers, target)
        for _ in life.play_transactions():
            land(broker.bootstrap_servers, target)
            assert life.landed_now(target) == life.moments[-1].committed
        for moment in life.moments:
            assert life.landed_at(target, moment.time) == moment.committed
        broker.stop()
        land(str(broker.data_dir), files)
        assert life.landed_now(files) == life.landed_now(target)
        options = parse({"path": str(broker.data_dir), "subscribe": GROUP_OFFSETS_TOPIC})
        shard = replay(options, 0, Settings(), Millis(life.moments[-1].time)).shard
        found = {
            (group, TopicPartition(topic, partition)): stored.offset
            for group in life.groups
            for topic, partition, stored in shard.offsets.offsets_of(GroupId(group))
        }
        assert found == {place: offset.offset for place, offset in life.landed_now(target).items()}
        assert 13 in found.values() and not {11, 12} & set(found.values())


def topics_of(target: str) -> set[tuple[str, str]]:
    """Return the topics in the samples of a target, each with its id."""
    return {(row["topic"], row["topic_id"]) for row in pq.read_table(f"{target}/end_offsets").to_pylist()}


@pytest.mark.timeout(120)
def test_a_continuous_landing_outlasts_the_absence_of_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so once, tries again, and lands on; a broker that was never there is an error."""
    target = str(tmp_path / "tables")
    command_module = importlib.import_module("headgate.cli.spark")
    monkeypatch.setattr(command_module, "session", lambda *_: None)
    monkeypatch.setattr("headgate.spark.landing.run_on_spark", lambda _: run_here)
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        life = Life(broker.bootstrap_servers)
        steps = life.play()
        looks = 0

        def between_two_looks(seconds: float) -> None:
            nonlocal looks
            if seconds != 3:
                wait(seconds)
                return
            looks += 1
            if looks == 1:
                broker.stop()
            elif looks == 3:
                broker.start()
                next(steps)
            elif looks == 4:
                raise KeyboardInterrupt

        wait = time.sleep
        next(steps)
        monkeypatch.setattr(time, "sleep", between_two_looks)
        command = ["spark", "land", broker.bootstrap_servers, target, "--continuously"]
        result = CliRunner().invoke(app, [*command, "--every", "3", "--timeout", "1s"])
        said = [line for line in result.output.splitlines() if line]
        assert [("landed" in line, "trying again every 3 s" in line) for line in said[:2]] == [
            (True, False),
            (False, True),
        ]
        assert said[2].endswith("the source is there again")
        assert life.landed_now(target) == life.moments[-1].committed
    result = CliRunner().invoke(app, [*command, "--timeout", "1s"])
    assert result.exit_code == 1
    assert "trying again" not in result.output


@pytest.mark.timeout(120)
def test_what_compaction_removed_is_reported_and_never_guessed(tmp_path: Path) -> None:
    """Tables that began after a compaction are right since then; of before, offsets are known or unknown."""
    settings = SETTINGS | {
        "headgate.durability": "page-cache",
        "log.cleaner.backoff.ms": "10",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "3000",
    }
    early, late = str(tmp_path / "early"), str(tmp_path / "late")
    history = TopicPartition(OFFSETS_HISTORY_TOPIC, 0)
    with run(settings, data_dir=tmp_path / "data") as broker:
        life = Life(broker.bootstrap_servers)
        for step, _ in enumerate(life.play()):
            if step == 1:
                land(broker.bootstrap_servers, early)
        with Admin(broker.bootstrap_servers) as admin:
            where = TopicPartition(life.hotels, 0)
            for offset in range(100):
                admin.alter_offsets("filler", {where: offset})
            wait_until(lambda: admin.log_end_offsets([history])[history] > 60, "most commits are history")
            life.note(admin)
        for target in (early, late):
            landed = land(broker.bootstrap_servers, target)
            assert landed.incomplete.keys() == {TopicPartition(GROUP_OFFSETS_TOPIC, 0)}
            assert life.landed_now(target) == life.moments[-1].committed
            for moment in life.moments:
                for row in offsets_as_of(target, moment.time).to_pylist():
                    if row["is_known"] and row["group_id"] in life.groups:
                        key = row["group_id"], TopicPartition(row["topic"], row["partition"])
                        assert row["committed_offset"] == moment.committed[key].offset
        assert life.landed_at(early, life.moments[0].time) == life.moments[0].committed
        progress = json.loads((tmp_path / "early" / "_headgate" / "progress.json").read_text())
        assert progress["partitions"]["0"]["gaps"][0]["start"] > 0
        printed = CliRunner().invoke(
            app, ["spark", "offsets", late, "--as-of", "2020-01-01T00:00:00", "--output", "json"]
        )
        rows = json.loads(printed.stdout)["offsets"]
        assert printed.exit_code == 1
        assert "removed records of that time before they were landed (log_partition 0)" in printed.stderr
        assert {row["committed_offset"] for row in rows} == {"unknown"}
        printed = CliRunner().invoke(app, ["spark", "offsets", late, "--group", "nobody"])
        assert printed.exit_code == 0
        assert printed.stderr == "headgate: the landed tables have no committed offsets of group nobody\n"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("most_gaps", "is_torn"), [(100, False), (1, False), (100, True)])
def test_what_compaction_removed_between_landings_is_never_guessed(
    tmp_path: Path, most_gaps: int, is_torn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps that touch, kept or joined, and a compaction at each read: what is known at any time is what the
    coordinator's history says.
    """
    monkeypatch.setattr("headgate.spark.landing.progress.MOST_GAPS", most_gaps)
    if is_torn:
        monkeypatch.setattr("headgate.spark.landing.reading._what_is_there", lambda tasks: -1)
    settings = SETTINGS | {
        "headgate.durability": "page-cache",
        "log.cleaner.backoff.ms": "10",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "3000",
    }
    target = str(tmp_path / "tables")
    history = TopicPartition(OFFSETS_HISTORY_TOPIC, 0)
    times = []
    with run(settings, data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        where = TopicPartition("t", 0)
        kept = -40
        for landing in range(3):
            for group in ("early", "late", "filler"):
                for offset in range(40):
                    admin.alter_offsets(group, {where: 100 * landing + offset})
                    times.append(int(time.time() * 1000))
            kept += 100
            wait_until(lambda: admin.log_end_offsets([history])[history] > kept, "commits are history")  # noqa: B023
            land(broker.bootstrap_servers, target)
        progress = read_progress(Folder(target))
        assert progress is not None
        gaps = progress.of_log()[0].gaps
        assert len(gaps) == (3 if most_gaps > 3 else 1)
        assert all(one.known_from == one.end for one in gaps) == is_torn
        known = 0
        for moment in times[::3]:
            for row in offsets_as_of(target, moment).to_pylist():
                if row["is_known"] and row["group_id"] != "filler":
                    known += 1
                    (told,) = admin.offsets_as_of(row["group_id"], moment)
                    assert told.committed is not None
                    assert row["committed_offset"] == told.committed.offset
        assert known or is_torn


@pytest.mark.timeout(60)
def test_lag_and_end_offsets_are_sampled(tmp_path: Path) -> None:
    """One sample for each run, with topic ids; the lag is that of the coordinator's tools."""
    target = tmp_path / "tables"
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        life = Life(broker.bootstrap_servers)
        for step, _ in enumerate(life.play()):
            if step < 2:
                land(broker.bootstrap_servers, str(target))
            if step == 1:
                with Admin(broker.bootstrap_servers) as admin:
                    positions = admin.positions("landed-b")
                break
        land(broker.bootstrap_servers, str(target), is_sampling=False)
    lag = pq.read_table(target / "lag").to_pylist()
    times = sorted({row["at"] for row in lag})
    assert len(times) == 2
    assert len(pq.read_table(target / "end_offsets").to_pylist()) == 8
    found = {
        (row["topic"], row["partition"]): row["lag"]
        for row in lag
        if row["group_id"] == "landed-b" and row["at"] == times[1]
    }
    assert found == {tuple(one.partition): one.lag for one in positions}
    assert {len(row["topic_id"]) for row in lag} == {22}
    assert GROUP_OFFSETS_TOPIC not in {
        row["topic"] for row in pq.read_table(target / "end_offsets").to_pylist()
    }
