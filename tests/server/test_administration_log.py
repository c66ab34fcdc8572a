"""What administrators change, and what the server deletes by itself, is in the log of a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.consumers import reading
from tests.waiting import wait_until

from headgate.admin import Admin, PartlyRefused, TopicPartition
from headgate.broker import Broker, run

pytestmark = pytest.mark.timeout(120)

SETTINGS = {"log.retention.check.interval.ms": "1000"}


def told(broker: Broker, event: str) -> list[dict[str, Any]]:
    """The fields of each line of this event."""
    lines = [line.split(f" {event} ", 1) for line in broker.log_path.read_text().splitlines()]
    return [_fields(parts[1]) for parts in lines if len(parts) == 2]


def _fields(text: str) -> dict[str, Any]:
    found = {}
    while text:
        name, _, text = text.partition("=")
        if text.startswith('"'):
            value, end = json.JSONDecoder().raw_decode(text)
            text = text[end:].lstrip()
        else:
            value, _, text = text.partition(" ")
        found[name] = value
    return found


def test_a_change_of_settings_is_told_with_values_and_client(tmp_path: Path) -> None:
    """A value of the default has no number; a change to the same value is none."""
    with run(data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", configs={"cleanup.policy": "compact"})
        for value in ("1000", "1000", None):
            admin.set_topic_config("orders", {"retention.ms": value})
        admin.set_offsets_retention("billing", 5000)
        lines = told(broker, "settings changed")
    client = {"client": lines[0].pop("client"), "host": lines[0].pop("host")}
    assert client["host"] == "/127.0.0.1"
    assert lines == [
        {"resource": "topic:orders", "changes": "retention.ms: default -> 1000"},
        {"resource": "topic:orders", "changes": "retention.ms: 1000 -> default", **client},
        {"resource": "group:billing", "changes": "offsets.retention.ms: default -> 5000", **client},
    ]


def test_deleted_records_are_told_with_the_reason(tmp_path: Path) -> None:
    """A request with its client, and retention with its limits: nobody has to guess where records went."""
    with run(SETTINGS, data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(10):
            producer.produce("orders", b"x", timestamp=1_000_000)
        assert producer.flush(20) == 0
        admin.delete_records({TopicPartition("orders", 0): 4})
        by_request, *more = told(broker, "records deleted")
        assert {**by_request, "client": ""} == {
            "partition": "orders-0",
            "reason": "request",
            "from_offset": "0",
            "up_to_offset": "4",
            "client": "",
            "host": "/127.0.0.1",
        }
        admin.set_topic_config("orders", {"retention.ms": "60000"})
        found = more or wait_until(lambda: told(broker, "records deleted")[1:], "retention deletes", 30)
    assert found[0] == {
        "partition": "orders-0",
        "reason": "retention",
        "from_offset": "4",
        "up_to_offset": "10",
        "segments": "1",
        "retention_ms": "60000",
        "retention_bytes": "-1",
    }


def test_deletions_are_told_with_the_client(tmp_path: Path) -> None:
    """Of topics and groups; the removal itself has a line without it. What was not deleted has none."""
    with run(data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        admin.alter_offsets("billing", {TopicPartition("orders", 0): 0})
        admin.delete_groups(["billing"])
        admin.delete_topics(["orders"])
        with pytest.raises(PartlyRefused):
            admin.delete_groups(["billing"])
        found = told(broker, "deletion requested")
    assert [{**line, "client": ""} for line in found] == [
        {"group": "billing", "client": "", "host": "/127.0.0.1"},
        {"topic": "orders", "client": "", "host": "/127.0.0.1"},
    ]


def test_pauses_are_told_with_who_and_why(tmp_path: Path) -> None:
    """Also after the resume, which removes them from the list of paused partitions."""
    with run(data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 3)
        first, second = TopicPartition("orders", 0), TopicPartition("orders", 2)
        with reading(broker.bootstrap_servers, "billing", "orders", {"group.protocol": "consumer"}):
            pass
        admin.pause_partitions("billing", [first, second], reason="no paper")
        admin.resume_partitions("billing", [second])
        (paused,), (resumed,) = told(broker, "partitions paused"), told(broker, "partitions resumed")
    assert (paused["group"], paused["partitions"], paused["reason"]) == ("billing", "orders:0,2", "no paper")
    assert paused["by"]
    assert (resumed["group"], resumed["partitions"], resumed["host"]) == ("billing", "orders:2", "/127.0.0.1")


def test_a_transaction_that_times_out_is_told(tmp_path: Path) -> None:
    """With its id, its limit and all its partitions: committed readers had to wait for it."""
    with run(data_dir=tmp_path / "data") as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 2)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": "slow",
                "transaction.timeout.ms": 1000,
            }
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0)
        producer.produce("orders", b"x", partition=1)
        producer.produce("payments", b"x")
        producer.flush(20)
        (line,) = wait_until(
            lambda: told(broker, "transaction timed out and is aborted"), "the timeout is told", 30
        )
    assert {**line, "producer_id": ""} == {
        "transactional_id": "slow",
        "producer_id": "",
        "timeout_ms": "1000",
        "partitions": "3",
    }


def test_who_moves_a_share_group_or_ends_a_transaction_is_told(tmp_path: Path) -> None:
    """Neither has a history."""
    with run(data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 20)
        where = [TopicPartition("orders", index) for index in range(12)]
        admin.alter_share_offsets("work", dict.fromkeys(where, 0))
        admin.delete_share_offsets("work", ["orders"])
        admin.abort_transaction(where[3], producer_id=7, producer_epoch=2, coordinator_epoch=1)
        lines = [
            told(broker, event)[0]
            for event in ("start offsets set", "start offsets deleted", "transaction markers requested")
        ]
    assert all(line.pop("client") and line.pop("host") == "/127.0.0.1" for line in lines)
    first = ", ".join(f"orders-{index}=0" for index in range(10))
    assert lines[:2] == [
        {"group": "work", "offsets": f"{first} and 2 more"},
        {"group": "work", "topics": "orders"},
    ]
    assert lines[2] == {
        "producer_id": "7",
        "producer_epoch": "2",
        "coordinator_epoch": "1",
        "result": "abort",
        "partitions": "orders-3",
    }
