"""The states that a landing continues equal those of the whole log, wherever the log is cut in ranges."""

from __future__ import annotations

import random
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from tests.spark.coordinator_records import GROUP, MEMBER, NOW
from tests.spark.support import collect, rows_of, write_segment
from tests.spark.test_consumer_events import assignment, member
from tests.spark.test_share_events import SHARE, share_joins, share_leaves

import headgate.spark
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.log.batch import Record, encode_batch
from headgate.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTombstone,
    ConsumerRecordType,
    GroupTombstone,
    Pause,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    encode,
)
from headgate.records import Record as LogRecord
from headgate.records.share_group_model import ShareGroupMetadata
from headgate.spark.group_transforms import assignments, rebalances
from headgate.spark.landing import current, groups
from headgate.spark.landing.current import COMMITS_SCHEMA
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import LandingRefused
from headgate.spark.landing.state import load_offsets_file, save_offsets
from headgate.spark.schemas import arrow_schema
from headgate.spark.source import GROUP_EVENTS_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
EVENTS_SCHEMA = pa.schema(
    [
        pa.field("log_offset", pa.int64()),
        pa.field("log_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("event", pa.string()),
        pa.field("producer_id", pa.int64()),
    ]
)


@dataclass(slots=True)
class Coordinator:
    """The rules of the coordinator, one record at a time."""

    current: dict[tuple[Any, ...], Row]
    pending: dict[int, list[Row]]

    def commit(self, row: Row) -> None:
        """Apply a commit or a tombstone."""
        key = row["group_id"], row["topic"], row["partition"]
        if row["is_tombstone"]:
            self.current.pop(key, None)
            for rows in self.pending.values():
                rows[:] = [
                    each for each in rows if (each["group_id"], each["topic"], each["partition"]) != key
                ]
        elif row["is_transactional"]:
            self.pending.setdefault(row["producer_id"], []).append(row)
        else:
            self.current[key] = row

    def mark(self, row: Row) -> None:
        """Apply a transaction marker."""
        for each in self.pending.pop(row["producer_id"], []):
            key = each["group_id"], each["topic"], each["partition"]
            known = self.current.get(key)
            if row["event"] == "transaction_committed" and (
                known is None or known["log_offset"] < each["log_offset"]
            ):
                self.current[key] = each


def history(chance: random.Random, length: int) -> tuple[list[Row], list[Row]]:
    """Return the commits and the markers of a log."""
    commits: list[Row] = []
    markers: list[Row] = []
    for offset in range(length):
        time = chance.randrange(1_000) * 86_400_000_000
        producer = chance.randrange(3)
        if chance.random() < 0.2:
            event = chance.choice(["transaction_committed", "transaction_aborted", "other"])
            markers.append(
                {"log_offset": offset, "log_timestamp": time, "event": event, "producer_id": producer}
            )
            continue
        is_tombstone = chance.random() < 0.2
        commits.append(
            {
                "log_offset": offset,
                "log_timestamp": time,
                "group_id": chance.choice(["g", "h"]),
                "topic": chance.choice(["t", "u", None]),
                "partition": chance.randrange(2),
                "committed_offset": None if is_tombstone else offset * 10,
                "commit_timestamp": None if is_tombstone else time - 1000,
                "is_tombstone": is_tombstone,
                "is_transactional": not is_tombstone and chance.random() < 0.4,
                "producer_id": producer,
            }
        )
    return commits, markers


@pytest.mark.parametrize("seed", range(40))
def test_offsets_are_those_of_the_coordinator_wherever_the_log_is_cut(seed: int) -> None:
    """Commits, tombstones and transactions, in ranges of any size."""
    chance = random.Random(seed)
    commits, markers = history(chance, 60)
    model = Coordinator({}, {})
    for row in sorted(commits + markers, key=lambda row: int(row["log_offset"])):
        if "event" in row:
            if row["event"] != "other":
                model.mark(row)
        else:
            model.commit(row)
    state = current.nothing_at(0)
    bounds = [0, *sorted(chance.sample(range(1, 60), 3)), 60]
    for start, end in pairwise(bounds):
        state = current.advance(
            state,
            pa.Table.from_pylist(
                [row for row in commits if start <= row["log_offset"] < end], COMMITS_SCHEMA
            ),
            pa.Table.from_pylist([row for row in markers if start <= row["log_offset"] < end], EVENTS_SCHEMA),
            end,
        )
    found = {
        (row["group_id"], row["topic"], row["partition"]): row["log_offset"] for row in state.rows.to_pylist()
    }
    assert found == {key: row["log_offset"] for key, row in model.current.items()}
    assert state.rows.num_rows == len(found)
    assert sorted(state.pending["log_offset"].to_pylist()) == sorted(
        row["log_offset"] for rows in model.pending.values() for row in rows
    )
    times = [
        row["log_timestamp"] if row.get("commit_timestamp") is None else max(row["commit_timestamp"], 0)
        for row in commits + [row for row in markers if row["event"] != "other"]
    ]
    assert state.last_time == max(times)


def with_pending(count: int, metadata: str) -> current.Offsets:
    """Return a state with pending commits, each with that metadata."""
    row = {"group_id": "g", "topic": "t", "partition": 0, "log_offset": 0, "metadata": metadata}
    row |= {"is_tombstone": False, "is_transactional": True, "producer_id": 7}
    pending = pa.Table.from_pylist([row] * count, COMMITS_SCHEMA)
    return current.Offsets(9, 5, current.CURRENT_SCHEMA.empty_table(), pending)


def test_any_number_of_pending_commits_is_read_again(tmp_path: Path) -> None:
    """A client may leave a transaction open. Arrow reads no footer with more than 100 MB of text."""
    offsets = with_pending(15, "m" * (1 << 22))
    save_offsets(Folder(str(tmp_path)), "c.parquet", offsets)
    assert load_offsets_file(Folder(str(tmp_path)), "c.parquet") == offsets


@pytest.mark.parametrize("checksum", [True, False])
def test_pending_commits_of_an_earlier_release_are_read(tmp_path: Path, checksum: bool) -> None:
    """It had them in the metadata."""
    offsets = with_pending(3, "")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, COMMITS_SCHEMA) as stream:
        stream.write_table(offsets.pending)
    pending = b64encode(sink.getvalue().to_pybytes())
    metadata = {b"headgate.end": b"9", b"headgate.last_time_us": b"5", b"headgate.pending": pending}
    if checksum:
        metadata[b"headgate.crc32c"] = b"%d" % crc32c(b"9 5 " + pending)
    folder = Folder(str(tmp_path))
    folder.write_table("c.parquet", offsets.rows.replace_schema_metadata(metadata))
    assert load_offsets_file(folder, "c.parquet") == offsets
    metadata[b"headgate.pending"] = pending[:40] + b"AAAA" + pending[44:90]
    folder.write_table("c.parquet", offsets.rows.replace_schema_metadata(metadata))
    with pytest.raises(LandingRefused, match=r"c\.parquet is damaged"):
        load_offsets_file(folder, "c.parquet")


FLIGHTS = TopicId(bytes(range(16)))
CG = GroupId("cg")


def lives(chance: random.Random, length: int) -> list[LogRecord]:
    """Return records of a classic, a consumer and a share group, with removals, ordered as brokers do."""
    found: list[LogRecord] = []
    generation = epoch = 0
    members: list[str] = []
    sharing: set[str] = set()
    for _ in range(length):
        match chance.choice(["classic", "removed", "join", "leave", "epoch", "own", "pause", "end", "share"]):
            case "classic":
                generation += chance.randrange(2)
                now = tuple(
                    replace(MEMBER, member_id=MemberId(name)) for name in "xyz" if chance.random() < 0.5
                )
                found.append(replace(GROUP, generation=generation, members=now))
            case "removed":
                generation = 0
                found.append(GroupTombstone(GROUP.group_id))
            case "join":
                members.append(chance.choice("abc"))
                found.append(member(members[-1]))
            case "leave" if members:
                gone = MemberId(members.pop())
                found.append(ConsumerGroupTombstone(ConsumerRecordType.CURRENT_ASSIGNMENT, CG, gone))
                found.append(ConsumerGroupTombstone(ConsumerRecordType.MEMBER, CG, gone))
            case "epoch":
                epoch += chance.randrange(2)
                found.append(ConsumerGroupMetadata(group_id=CG, epoch=epoch))
            case "own" if members:
                found.append(assignment(members[-1], epoch, *range(chance.randrange(3))))
            case "pause":
                paused = {partition: Pause(NOW, "me", "why") for partition in range(chance.randrange(1, 4))}
                found.append(PausedTopicPartitions(group_id=CG, partitions={FLIGHTS: paused}))
                if chance.random() < 0.3:
                    found.append(PausedTopicPartitionsTombstone(CG))
            case "share":
                name = chance.choice("def")
                found += share_leaves(name) if name in sharing else share_joins(name, 1, len(sharing))
                sharing ^= {name}
                found.append(ShareGroupMetadata(group_id=SHARE, epoch=len(found)))
            case "end" if not members:
                found.append(ConsumerGroupTombstone(ConsumerRecordType.GROUP, CG, ""))
                epoch = 0
    return found


def events_of(tmp_path: Path, chance: random.Random) -> pa.Table:
    """Write a log of such lives; return its events."""
    records = [*lives(chance, 60), replace(GROUP, generation=9), member("a"), assignment("a", 9, 1, 2)]
    written = [Record(*encode(record), NOW + 1000 * at) for at, record in enumerate(records)]
    write_segment(tmp_path, "__consumer_offsets", 0, [encode_batch(written)])
    rows = rows_of(GROUP_EVENTS_VIEW, tmp_path, "__consumer_offsets")
    return pa.Table.from_pylist(rows, arrow_schema(GROUP_EVENTS_VIEW.schema))


@pytest.mark.parametrize("seed", range(10))
def test_tables_of_groups_are_the_same_wherever_the_log_is_cut(seed: int, tmp_path: Path) -> None:
    """A landing continues from the file of its state."""
    chance = random.Random(seed)
    events = events_of(tmp_path, chance)
    length = events.num_rows
    whole = groups.Groups()
    expected = groups.advance(whole, events, length)
    state = groups.Groups()
    parts = []
    for start, end in pairwise([0, *sorted(chance.sample(range(1, length), 5)), length]):
        parts.append(groups.advance(state, events.slice(start, end - start), end))
        state = groups.Groups.from_bytes(state.to_bytes())
    assert state == whole
    assert pa.concat_tables([part.rebalances for part in parts]).equals(expected.rebalances)
    assert pa.concat_tables([part.pauses for part in parts]).equals(expected.pauses)
    paused = expected.pauses.to_pylist()
    balance = Counter((row["partition"], row["change"]) for row in paused)
    last = [row for row in events.to_pylist() if row["event"] == "paused_partitions"][-1]["paused"] or []
    for partition in range(3):
        is_paused = partition in {one["partition"] for one in last}
        assert balance[partition, "paused"] - balance[partition, "resumed"] == is_paused


@pytest.mark.timeout(120)
def test_tables_of_groups_are_those_of_the_transforms(spark: SparkSession, tmp_path: Path) -> None:
    """What a landing continues is what the transforms compute from the whole log."""
    state = groups.Groups()
    events = events_of(tmp_path, random.Random(7))
    ours = groups.advance(state, events, events.num_rows).rebalances.to_pylist()
    read = headgate.spark.group_events(spark, tmp_path)
    assert len(ours) > 10
    assert _comparable(ours) == _comparable(collect(read.transform(rebalances()).drop("log_partition")))
    assigned = groups.assignments_of(state).to_pylist()
    assert {row["member_id"] for row in assigned} >= {"a", "m-1"}
    assert _comparable(assigned) == _comparable(collect(read.transform(assignments()).drop("log_partition")))


def _comparable(rows: list[Row]) -> list[str]:
    """Return rows as texts, sorted; times without their zone."""
    return sorted(
        str(
            [
                (name, cell.timestamp() if isinstance(cell, datetime) else cell)
                for name, cell in sorted(row.items())
            ]
        )
        for row in rows
    )


def test_the_state_of_groups_survives_its_file() -> None:
    """As JSON, without loss."""
    state = groups.Groups(
        7,
        {"g": {"generation": 1, "at": 5, "members": {"m": [{"topic": "t", "partition": 0}]}}},
        {"c": {"members": ["m"], "before": [], "at": None, "assigned": {}}},
        {"c": [{"topic_id": "x", "partition": 1, "paused_at": 9, "caller": "", "reason": "r"}]},
    )
    assert groups.Groups.from_bytes(state.to_bytes()) == state
