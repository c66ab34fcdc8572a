"""`headgate transactions` prints of Apache Kafka what it prints of Headgate."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.differential.conftest import Run
from typer.testing import CliRunner

from headgate.admin import Admin
from headgate.cli import app

VOLATILE = {"producer_id", "last_timestamp", "current_transaction_start_time_ms", "transaction_duration_ms"}


def ask(servers: str, *words: str) -> tuple[int, str, Any]:
    """Run the command: its exit code, its messages, and its rows without what differs from run to run."""
    given = ["transactions", "--bootstrap-server", servers, "--output", "json", *words]
    result = CliRunner().invoke(app, given)
    (rows,) = json.loads(result.stdout).values() if result.stdout else ([],)
    steady = [
        {name: value for name, value in row.items() if name not in VOLATILE}
        for row in (rows if isinstance(rows, list) else [rows])
    ]
    return result.exit_code, result.stderr.replace(servers, "SERVER"), steady


def story(servers: str, name: str) -> list[Any]:
    """What is told of an open transaction, of one that is terminated, and of what is not there."""
    admin_client = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    admin_client.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"one", partition=1)
    assert producer.flush(20) == 0
    listing = ("list", "--transactional-id-pattern", f"{name}.*")
    partition = ("describe-producers", "--topic", name, "--partition")
    seen: list[Any] = [
        ask(servers, *listing, "--state", "Ongoing"),
        ask(servers, *listing, "--duration-filter", "3600000"),
        ask(servers, "describe", "--transactional-id", name),
        ask(servers, *partition, "1"),
        ask(servers, *partition, "0"),
        ask(servers, "find-hanging", "--topic", name, "--max-transaction-timeout", "0"),
        ask(servers, "abort", "--topic", name, "--partition", "1", "--start-offset", "7"),
        ask(servers, "abort", "--topic", name, "--partition", "1", "--start-offset", "0"),
        ask(servers, "forceTerminateTransaction", "--transactional-id", name),
        ask(servers, *listing),
        ask(servers, *partition, "1"),
        ask(servers, *partition, "2"),
        ask(servers, *partition, "0", "--broker-id", "7"),
        ask(servers, "list", "--transactional-id-pattern", "("),
    ]
    with Admin(servers) as admin:
        assert admin.describe_transactions([f"no-{name}"]) == {f"no-{name}": None}
        seen.append(admin.fence_producers([f"{name}-new"])[f"{name}-new"].producer_epoch)
    return seen


def test_the_command_tells_the_same_of_both(run: Run) -> None:
    """States, epochs, partitions, offsets, exit codes and messages."""
    name = f"transactions-command{run.tag}"
    kafka, headgate = (story(f"{side.host}:{side.port}", name) for side in (run.kafka, run.headgate))
    assert kafka == headgate
    ongoing, _, described, producers = headgate[:4]
    assert [row["transaction_state"] for row in ongoing[2]] == ["Ongoing"]
    assert described[2][0]["topic_partitions"] == [f"{name}-1"]
    assert producers[2][0]["current_transaction_start_offset"] == 0
