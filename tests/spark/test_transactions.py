"""Every record of the transaction coordinator's log is a row, and none is dropped."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.spark.coordinator_records import NOW
from tests.spark.support import rows_of, write_segment

from headgate.domain.ids import Millis, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.records.transactions import (
    TransactionMetadata,
    TransactionState,
    TransactionTombstone,
    encode_transaction,
)
from headgate.spark.source import TRANSACTIONS_VIEW

TOPIC = "__transaction_state"
ONGOING = TransactionMetadata(
    transactional_id="flights",
    producer_id=7,
    producer_epoch=3,
    last_producer_epoch=2,
    previous_producer_id=6,
    next_producer_id=8,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions={TopicName("b"): frozenset({1, 0}), TopicName("a"): frozenset({4})},
    start_timestamp=NOW,
    last_update_timestamp=Millis(NOW + 5),
    client_transaction_version=2,
)


def transactions(directory: Path, records: list[Record]) -> list[dict[str, Any]]:
    """Return the rows of a log of these records."""
    write_segment(directory, TOPIC, 3, [encode_batch(records, leader_epoch=4)])
    return rows_of(TRANSACTIONS_VIEW, directory, TOPIC)


def test_a_transition_is_columns(tmp_path: Path) -> None:
    """With its partitions, sorted; a tombstone is the removal of the id."""
    empty = TransactionMetadata(
        transactional_id="flights",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=1,
        state=TransactionState.EMPTY,
        last_update_timestamp=NOW,
    )
    written = [Record(*encode_transaction(one), NOW + 9) for one in (ONGOING, empty)]
    written.append(Record(*encode_transaction(TransactionTombstone("flights")), NOW))
    first, second, third = transactions(tmp_path, written)
    assert [first[name] for name in ("log_partition", "log_offset", "log_leader_epoch")] == [3, 0, 4]
    for name, time in (("log_timestamp", NOW + 9), ("started_at", NOW), ("updated_at", NOW + 5)):
        assert first[name].timestamp() * 1000 == time
    expected: dict[str, Any] = {
        "transactional_id": "flights",
        "event": "transition",
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 3,
        "last_producer_epoch": 2,
        "previous_producer_id": 6,
        "next_producer_id": 8,
        "timeout_ms": 60_000,
        "partitions": [
            {"topic": "a", "partition": 4},
            {"topic": "b", "partition": 0},
            {"topic": "b", "partition": 1},
        ],
        "client_transaction_version": 2,
        "is_tombstone": False,
        "key": None,
        "value": None,
    }
    assert {name: first[name] for name in expected} == expected
    assert (second["state"], second["partitions"], second["started_at"]) == ("Empty", [], None)
    assert (second["previous_producer_id"], second["last_producer_epoch"]) == (None, None)
    assert (third["transactional_id"], third["event"], third["is_tombstone"]) == ("flights", "removed", True)


def test_records_that_cannot_be_read_keep_their_bytes(tmp_path: Path) -> None:
    """With the transactional id, if the key can be read; a later version is told apart from damage."""
    key, value = encode_transaction(ONGOING)
    assert value is not None
    written: list[tuple[bytes | None, bytes | None]] = [
        (key, struct.pack(">h", 2) + value[2:]),
        (struct.pack(">h", 1) + key[2:], value),
        (key, value[:-1]),
        (key[:-1], value),
        (None, value),
    ]
    rows = transactions(tmp_path, [Record(*one, NOW) for one in written])
    assert [(row["event"], row["transactional_id"]) for row in rows] == [
        ("other", "flights"),
        ("other", None),
        ("malformed", "flights"),
        ("malformed", None),
        ("malformed", None),
    ]
    assert [(row["key"], row["value"]) for row in rows] == written


def test_any_flipped_bit_of_a_record_is_a_row(tmp_path: Path) -> None:
    """Whatever the value has become, nothing fails and nothing is dropped; the batch's CRC is valid."""
    key, value = encode_transaction(ONGOING)
    assert value is not None
    flipped = []
    for at in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[at // 8] ^= 1 << at % 8
        flipped.append(Record(key, bytes(damaged), NOW))
    rows = transactions(tmp_path, flipped)
    assert [row["log_offset"] for row in rows] == list(range(len(flipped)))
    assert {row["event"] for row in rows} == {"transition", "other", "malformed"}
