"""`headgate log dump` explains the records of `__transaction_state`, those of a real server among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until
from typer.testing import CliRunner

from headgate.admin import Admin
from headgate.broker import run
from headgate.cli import app
from headgate.domain.ids import Millis, TopicName
from headgate.inspect.transaction_records import transaction_record
from headgate.records.transactions import (
    TransactionMetadata,
    TransactionState,
    TransactionTombstone,
    encode_transaction,
)


def metadata(state: TransactionState, **changed: object) -> TransactionMetadata:
    fields: dict[str, object] = {
        "transactional_id": "billing-1",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "state": state,
        "partitions": {},
        "start_timestamp": Millis(1_750_000_000_000),
        "last_update_timestamp": Millis(1_750_000_001_000),
    }
    return TransactionMetadata(**(fields | changed))  # type: ignore[arg-type]


def state_of(transactional_id: str, admin: Admin) -> str | None:
    described = admin.describe_transactions([transactional_id])[transactional_id]
    return None if described is None else described.state


def test_an_open_transaction_is_told_with_its_partitions() -> None:
    """In words, and as JSON with null for what is not there."""
    partitions = {TopicName("pays"): frozenset({1}), TopicName("orders"): frozenset({2, 0})}
    found = transaction_record(*encode_transaction(metadata(TransactionState.ONGOING, partitions=partitions)))
    assert found == {
        "kind": "transaction",
        "words": '"billing-1" has an open transaction in 3 partitions, producer 7, epoch 3, '
        "since 2025-06-15T15:06:40.000Z, timeout 60000 ms",
        "transactional_id": "billing-1",
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 3,
        "last_producer_epoch": None,
        "previous_producer_id": None,
        "next_producer_id": None,
        "timeout_ms": 60_000,
        "start_timestamp": 1_750_000_000_000,
        "last_update_timestamp": 1_750_000_001_000,
        "client_transaction_version": 0,
        "partition_count": 3,
        "partitions": ["orders-0", "orders-2", "pays-1"],
    }


@pytest.mark.parametrize("state", TransactionState)
def test_every_state_has_words(state: TransactionState) -> None:
    """The states that only Kafka writes too."""
    found = transaction_record(*encode_transaction(metadata(state)))
    assert found["state"] == state.title
    assert found["words"].startswith('"billing-1" ')
    assert found["words"].count("1970") == 0


def test_not_all_partitions_of_a_wide_transaction_are_listed() -> None:
    """The count tells how many there are."""
    wide = {TopicName("wide"): frozenset(range(5000))}
    found = transaction_record(*encode_transaction(metadata(TransactionState.ONGOING, partitions=wide)))
    assert (found["partition_count"], len(found["partitions"])) == (5000, 100)


def test_tombstones_and_damaged_records_are_told() -> None:
    """A name that is not printable is escaped; a record that is cut short is malformed wherever it is cut."""
    found = transaction_record(*encode_transaction(TransactionTombstone("a\x1b[2J")))
    assert found["words"] == r"tombstone: transactional id 'a\x1b[2J' was forgotten"
    key, value = encode_transaction(
        metadata(TransactionState.ONGOING, partitions={TopicName("t"): frozenset({0})})
    )
    assert value is not None
    assert transaction_record(None, value)["kind"] == "malformed"
    assert {transaction_record(key[:end], value)["kind"] for end in range(len(key))} == {"malformed"}
    assert {transaction_record(key, value[:end])["kind"] for end in range(len(value))} == {"malformed"}


def test_the_life_of_a_transaction_is_read_from_the_log_of_a_server(tmp_path: Path) -> None:
    """Each state in order, with the partition."""
    settings = {"transaction.state.log.num.partitions": "1"}
    with run(settings, data_dir=tmp_path / "data") as broker:
        client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "log_level": 0,
        }
        admin = AdminClient(client)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        producer = Producer({**client, "transactional.id": "billing-1"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"one", partition=0)
        assert producer.flush(20) == 0
        producer.abort_transaction(20)
        with Admin(broker.bootstrap_servers) as headgate:
            wait_until(lambda: state_of("billing-1", headgate) == "CompleteAbort", "the markers are written")
    words = ["log", "dump", str(tmp_path / "data"), "--topic", "__transaction_state", "--records"]
    dumped = CliRunner().invoke(app, [*words, "--output", "json"])
    (partition,) = json.loads(dumped.stdout)["partitions"]
    meanings = [record["meaning"] for batch in partition["batches"] for record in batch["records"]]
    assert [one["state"] for one in meanings] == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert [one["partitions"] for one in meanings[1:]] == [["orders-0"], ["orders-0"], []]
    assert '"billing-1" has aborted its transaction' in CliRunner().invoke(app, words).stdout
