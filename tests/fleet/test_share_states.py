"""The states of share-partitions from landed deliveries are those of the share coordinator, at any time."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.spark.coordinator_records import NOW
from tests.spark.test_landing import Broker
from tests.spark.test_landing_logs import write_later
from tests.spark.test_share_deliveries import FLIGHTS_TEXT, KEY, snapshot, update
from typer.testing import CliRunner

from headgate.cli import app
from headgate.core.share.state.shard import ShareStateShard
from headgate.domain.ids import SHARE_STATE_TOPIC, GroupId
from headgate.domain.settings import Settings
from headgate.fleet import share_states_as_of, share_states_now
from headgate.log.batch import Record
from headgate.records.share_batches import DeliveryState, StateBatch
from headgate.records.share_state import encode_share
from headgate.records.share_state_model import UNCHANGED, ShareKey, ShareRecord, ShareTombstone
from headgate.spark.landing import LandingRefused, land, work

TABLES = ["share_deliveries"]
KEYS = [ShareKey(GroupId(group), KEY.topic_id, partition) for group in ("a", "b") for partition in (0, 1)]
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files to the page cache."""
    monkeypatch.setattr("headgate.spark.landing.files.os.fsync", lambda descriptor: None)


def life(chance: random.Random, length: int) -> list[ShareRecord]:
    """Return records as the share coordinator writes them: each state begins with a snapshot."""
    found: list[ShareRecord] = []
    epochs: dict[ShareKey, int] = {}
    for _ in range(length):
        key = chance.choice(KEYS)
        batches = [
            StateBatch(first, first + chance.randrange(5), chance.choice([0, 2, 4]), chance.randrange(4))
            for first in chance.sample(range(30), chance.randrange(4))
        ]
        match chance.choice(["snapshot", "update", "update", "update", "removed"]):
            case "removed" if key in epochs:
                del epochs[key]
                found.append(ShareTombstone(key))
            case "update" if key in epochs:
                start = chance.choice([UNCHANGED, chance.randrange(20)])
                found.append(update(epochs[key], start, *batches, key=key))
            case _:
                epochs[key] = epochs.get(key, -1) + 1
                found.append(snapshot(epochs[key], chance.randrange(10), *sorted(batches), key=key))
    return found


def expected(records: list[ShareRecord]) -> dict[tuple[str, int], Row]:
    """Return the states that the share coordinator has after these records."""
    shard = ShareStateShard(Settings())
    for at, record in enumerate(records):
        shard.apply(record, at)
    return {
        (key.group_id, key.partition): {
            "snapshot_epoch": state.snapshot_epoch,
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
            "log_offset": state.position,
            "batches": [
                {**batch._asdict(), "delivery_state": DeliveryState(batch.delivery_state).name}
                for batch in state.batches.batches()
            ],
        }
        for key, state in shard.states.items()
    }


def found(rows: list[Row]) -> dict[tuple[str, int], Row]:
    """Return known states by group and partition."""
    assert all(row["is_known"] and row["topic_id"] == FLIGHTS_TEXT for row in rows)
    names = next(iter(expected([snapshot(0, 0, key=KEYS[0])]).values()))
    return {(row["group_id"], row["partition"]): {name: row[name] for name in names} for row in rows}


@pytest.mark.parametrize("seed", range(5))
def test_states_are_those_of_the_coordinator(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and as of every record's time, over many ranges and several days; of all groups and of one."""
    monkeypatch.setattr(work, "MOST_OF_OTHERS", 7)
    chance = random.Random(seed)
    records = life(chance, 40)
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    step_ms = 9_000_000
    for at, record in enumerate(records):
        shares.append(0, [Record(*encode_share(record), NOW + at * step_ms)])
    target = str(tmp_path / "tables")
    land(str(source.directory), target, tables=TABLES)
    assert found(share_states_now(target).to_pylist()) == expected(records)
    for at in range(-1, len(records), 3):
        states = expected(records[: at + 1])
        assert found(share_states_as_of(target, NOW + at * step_ms).to_pylist()) == states
        of_group = {place: state for place, state in states.items() if place[0] == "b"}
        assert found(share_states_as_of(target, NOW + at * step_ms, "b").to_pylist()) == of_group


def test_what_was_removed_before_it_was_landed_is_unknown(tmp_path: Path) -> None:
    """An update without its snapshot; a state from before a gap; both until the next snapshot."""
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    first, second = KEYS[:2]
    records: list[ShareRecord] = [update(3, 4, key=first), snapshot(0, 1, key=second)]
    shares.append(0, [Record(*encode_share(record), NOW) for record in records])
    target = str(tmp_path / "tables")
    land(str(source.directory), target, tables=TABLES)

    def known() -> dict[tuple[str, int], tuple[bool, int | None]]:
        rows = share_states_now(target).to_pylist()
        return {(row["group_id"], row["partition"]): (row["is_known"], row["start_offset"]) for row in rows}

    assert known() == {("a", 0): (False, None), ("a", 1): (True, 1)}
    shares.append(0, [Record(*encode_share(snapshot(4, 7, key=first)), NOW + 10)])
    land(str(source.directory), target, tables=TABLES)
    assert known() == {("a", 0): (True, 7), ("a", 1): (True, 1)}
    write_later(source.directory, 9)  # snapshots of `KEY`
    land(str(source.directory), target, tables=TABLES)
    assert known() == {("a", 0): (False, None), ("a", 1): (False, None), ("sg", 5): (True, 0)}
    assert {row["is_known"] for row in share_states_as_of(target, NOW).to_pylist()} == {True, False}


def test_a_state_without_the_records_of_a_deleted_date_is_unknown(tmp_path: Path) -> None:
    """Until its next snapshot."""
    source, target = Broker(tmp_path / "data"), tmp_path / "tables"
    shares = source.another_log(SHARE_STATE_TOPIC)
    of_days: list[ShareRecord] = [
        snapshot(0, 5),
        update(0, 50),
        update(0, UNCHANGED),
        snapshot(1, 60),
        update(1, 70),
    ]
    for day, record in enumerate(of_days):
        shares.append(0, [Record(*encode_share(record), NOW + day * 86_400_000)])
        land(str(source.directory), str(target), tables=TABLES)

    def known() -> list[tuple[bool, int | None]]:
        found = [share_states_as_of(str(target), NOW + day * 86_400_000).to_pylist() for day in range(5)]
        return [(row["is_known"], row["start_offset"]) for (row,) in found]

    every = [(True, 5), (True, 50), (True, 50), (True, 60), (True, 70)]
    assert known() == every
    shutil.rmtree(target / "share_deliveries" / "log_partition=0" / "date=2023-11-15")
    assert known() == [(False, None)] * 3 + every[3:], "the second record may be of any of these days"


def test_after_a_record_that_cannot_be_read_the_state_is_unknown(tmp_path: Path) -> None:
    """Nothing is guessed: a value of a later version may have changed anything."""
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    key, value = encode_share(update(0, 4))
    assert value is not None
    states = []
    for record in (
        Record(*encode_share(snapshot(0, 1)), NOW),
        Record(key, b"\0\1" + value[2:], NOW),
        Record(key, value, NOW),
        Record(*encode_share(snapshot(1, 9)), NOW),
    ):
        shares.append(0, [record])
        target = str(tmp_path / "tables")
        land(str(source.directory), target, tables=TABLES)
        (row,) = share_states_now(target).to_pylist()
        states.append((row["is_known"], row["start_offset"]))
    assert states == [(True, 1), (False, None), (False, None), (True, 9)]


def test_the_command_prints_states(tmp_path: Path) -> None:
    """As a table, as JSON, of a time; the exit code is 1 for an unknown state, 2 for a wrong format."""
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    batches = (StateBatch(3, 4, 4, 5), StateBatch(9, 9, 0, 1))
    shares.append(0, [Record(*encode_share(snapshot(6, 3, *batches)), NOW)])
    shares.append(0, [Record(*encode_share(update(1, 4, key=KEYS[0])), NOW + 5000)])
    target = str(tmp_path / "tables")
    land(str(source.directory), target, tables=TABLES)
    command = ["spark", "share-states", target]
    printed = CliRunner().invoke(app, [*command, "--group", "sg"])
    assert printed.exit_code == 0
    assert printed.output.splitlines()[1].split()[:4] == ["sg", FLIGHTS_TEXT, "5", "3"]
    assert "3-4:ARCHIVED:5 9:AVAILABLE:1" in printed.output
    printed = CliRunner().invoke(app, [*command, "--output", "json"])
    assert printed.exit_code == 1
    unknown, known = json.loads(printed.output)["share_states"]
    assert (unknown["group_id"], unknown["start_offset"], unknown["batches"]) == ("a", "unknown", None)
    assert [batch["delivery_count"] for batch in known["batches"]] == [5, 1]
    printed = CliRunner().invoke(app, [*command, "--as-of", "2023-11-14T22:13:21+00:00"])
    assert printed.exit_code == 0
    assert "unknown" not in printed.output
    nothing = CliRunner().invoke(app, [*command, "--group", "nobody"])
    assert nothing.exit_code == 0, nothing.output
    assert (
        nothing.stderr == "headgate: the landed tables have no states of share-partitions of group nobody\n"
    )
    for wrong in ([*command, "--output", "xml"], ["spark", "offsets", target, "--output", "xml"]):
        refused = CliRunner().invoke(app, wrong)
        assert refused.exit_code == 2
        assert "--output xml: table, json or csv is expected" in refused.output


def test_a_target_without_the_table_is_refused(tmp_path: Path) -> None:
    """With the name of the table."""
    source = Broker(tmp_path / "data")
    source.another_log(SHARE_STATE_TOPIC).append(0, [Record(*encode_share(snapshot(0, 1)), NOW)])
    with pytest.raises(LandingRefused, match="no landed tables"):
        share_states_now(str(tmp_path / "nothing"))
    target = str(tmp_path / "tables")
    land(str(source.directory), target, tables=["transactions"])
    with pytest.raises(LandingRefused, match="no table share_deliveries"):
        share_states_now(target)
