"""Every record of the share coordinator's log is a row, and none is dropped."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.spark.coordinator_records import NOW
from tests.spark.support import rows_of, write_segment

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.log.batch import Record, encode_batch
from headgate.records.share_batches import StateBatch, StateBatches
from headgate.records.share_state import encode_share
from headgate.records.share_state_model import (
    UNCHANGED,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
)
from headgate.spark.source import SHARE_DELIVERIES_VIEW

TOPIC = "__share_group_state"
FLIGHTS_TEXT = "AAECAwQFBgcICQoLDA0ODw"
KEY = ShareKey(GroupId("sg"), TopicId(bytes(range(16))), 5)


def snapshot(epoch: int, start: int, *batches: StateBatch, key: ShareKey = KEY) -> ShareSnapshot:
    """Return a snapshot of a share-partition."""
    return ShareSnapshot(
        key=key,
        snapshot_epoch=epoch,
        state_epoch=2,
        leader_epoch=3,
        start_offset=start,
        delivery_complete_count=1,
        created=NOW,
        written=Millis(NOW + 7),
        batches=StateBatches.of(batches),
    )


def update(epoch: int, start: int, *batches: StateBatch, key: ShareKey = KEY) -> ShareUpdate:
    """Return an update of a share-partition."""
    return ShareUpdate(
        key=key,
        snapshot_epoch=epoch,
        leader_epoch=UNCHANGED,
        start_offset=start,
        batches=StateBatches.of(batches),
    )


def deliveries(directory: Path, records: list[Record]) -> list[dict[str, Any]]:
    """Return the rows of a log of these records."""
    write_segment(directory, TOPIC, 1, [encode_batch(records, leader_epoch=4)])
    return rows_of(SHARE_DELIVERIES_VIEW, directory, TOPIC)


def record(what: ShareRecord) -> Record:
    """Return a record as the share coordinator writes it."""
    return Record(*encode_share(what), NOW + 9)


def test_snapshots_and_updates_are_columns(tmp_path: Path) -> None:
    """What an update does not change is null; each record has its own batches."""
    archived, available = StateBatch(3, 4, 4, 5), StateBatch(9, 9, 0, 1)
    written: list[ShareRecord] = [
        snapshot(6, 3, archived, available),
        update(6, UNCHANGED),
        update(6, 4, available),
        ShareTombstone(KEY),
    ]
    whole, nothing, later, gone = deliveries(tmp_path, [record(one) for one in written])
    named = [
        {"first_offset": 3, "last_offset": 4, "delivery_state": "ARCHIVED", "delivery_count": 5},
        {"first_offset": 9, "last_offset": 9, "delivery_state": "AVAILABLE", "delivery_count": 1},
    ]
    expected: dict[str, Any] = {
        "log_partition": 1,
        "log_offset": 0,
        "log_leader_epoch": 4,
        "group_id": "sg",
        "topic_id": FLIGHTS_TEXT,
        "partition": 5,
        "event": "snapshot",
        "snapshot_epoch": 6,
        "state_epoch": 2,
        "leader_epoch": 3,
        "start_offset": 3,
        "delivery_complete_count": 1,
        "batches": named,
        "is_tombstone": False,
        "key": None,
        "value": None,
    }
    assert {name: whole[name] for name in expected} == expected
    for name, time in (("log_timestamp", NOW + 9), ("created_at", NOW), ("written_at", NOW + 7)):
        assert whole[name].timestamp() * 1000 == time
    assert (nothing["event"], nothing["batches"], nothing["snapshot_epoch"]) == ("update", [], 6)
    unchanged = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "created_at")
    assert {nothing[name] for name in unchanged} == {None}
    assert (later["start_offset"], later["batches"]) == (4, named[1:])
    assert (gone["event"], gone["batches"], gone["is_tombstone"]) == ("removed", None, True)
    assert (gone["group_id"], gone["partition"]) == ("sg", 5)


def test_records_that_cannot_be_read_keep_their_bytes(tmp_path: Path) -> None:
    """With the share-partition, if the key can be read; a later version is told apart from damage."""
    key, value = encode_share(snapshot(1, 0))
    assert value is not None
    backwards = encode_share(update(1, 0, StateBatch(4, 3, 0, 1)))
    written: list[tuple[bytes | None, bytes | None]] = [
        (key, struct.pack(">h", 1) + value[2:]),
        (struct.pack(">h", 9) + key[2:], value),
        (key, value[:-1]),
        (key, b"\x00"),
        backwards,
        (key[:-1], value),
        (None, None),
    ]
    rows = deliveries(tmp_path, [Record(*one, NOW) for one in written])
    assert [(row["event"], row["group_id"]) for row in rows] == [
        ("other", "sg"),
        ("other", None),
        ("malformed", "sg"),
        ("malformed", "sg"),
        ("malformed", "sg"),
        ("malformed", None),
        ("malformed", None),
    ]
    assert [(row["key"], row["value"]) for row in rows] == written
    assert {str(row["batches"]) for row in rows} == {"None"}


def test_any_flipped_bit_of_a_record_is_a_row(tmp_path: Path) -> None:
    """Whatever the value has become, nothing fails and nothing is dropped; the batch's CRC is valid."""
    key, value = encode_share(snapshot(6, 3, StateBatch(3, 4, 4, 5), StateBatch(9, 9, 0, 1)))
    assert value is not None
    flipped = []
    for at in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[at // 8] ^= 1 << at % 8
        flipped.append(Record(key, bytes(damaged), NOW))
    rows = deliveries(tmp_path, flipped)
    assert [row["log_offset"] for row in rows] == list(range(len(flipped)))
    assert {row["event"] for row in rows} == {"snapshot", "other", "malformed"}
