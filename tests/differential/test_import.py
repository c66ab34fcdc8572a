"""`headgate import` of a real broker's directory: what Kafka's own tools printed before, they print again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.kafka.broker import BRIEF_JVM, kafka_missing, kafka_node, with_class_archive
from confluent_kafka import Producer
from tests.compat.support.kafkas_tools import TOOLS, run_tool
from tests.takeover.kafka_life import (
    FLIGHTS,
    KAFKA_SETTINGS,
    PAYMENTS,
    SHARE_GROUPS,
    Printed,
    print_all,
    records_of,
    stopped_life,
)
from typer.testing import CliRunner

import headgate
from headgate.cli import app

pytestmark = [
    pytest.mark.skipif(kafka_missing() is not None, reason=kafka_missing() or ""),
    pytest.mark.timeout(400),
]
SETTINGS = {"node.id": "1", "offsets.topic.num.partitions": "50"}


@dataclass(frozen=True)
class Life:
    """The directory of a broker that lived and was stopped, and what was printed of it."""

    data: Path
    printed: Printed


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    home = tmp_path_factory.mktemp("kafka")
    with stopped_life(home) as printed:
        yield Life(home / "data", printed)


def imported(life: Life, target: Path, *more: str) -> str:
    given = ["import", "--from-kafka-log", str(life.data), "--data-dir", str(target), *more]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    return result.output


def test_groups_are_as_kafkas_tools_printed_them(life: Life, tmp_path: Path) -> None:
    """Groups of every kind, their offsets and lag, topics with their ids, transactions and settings."""
    imported(life, tmp_path / "data")
    with headgate.run(SETTINGS, data_dir=tmp_path / "data") as broker:
        printed = print_all(broker.bootstrap_servers)
    assert printed.keys() == life.printed.keys()
    for what, lines in life.printed.items():
        assert printed[what] == lines, what


def test_records_are_taken_over_and_go_on(life: Life, tmp_path: Path) -> None:
    """Readers of committed records see the same as at Kafka; the next record gets the next offset."""
    imported(life, tmp_path / "data", "--topics", f"{FLIGHTS},{PAYMENTS}")
    copy = tmp_path / "kafka"
    shutil.copytree(life.data.parent, copy)
    with kafka_node(home=copy, settings=KAFKA_SETTINGS, jvm=with_class_archive(BRIEF_JVM)) as kafka:
        expected = records_of(kafka.bootstrap)
    with headgate.run(SETTINGS, data_dir=tmp_path / "data") as broker:
        assert records_of(broker.bootstrap_servers) == expected
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        offsets: list[int | None] = []
        producer.produce(
            FLIGHTS, b"next", partition=1, on_delivery=lambda error, one: offsets.append(one.offset())
        )
        assert producer.flush(20) == 0
        log = broker.log_path.read_text()
    assert offsets == [expected[f"{FLIGHTS}-1"][-1][0] + 1]
    assert "ERROR" not in log and "WARNING" not in log, log


def test_a_share_group_begins_where_it_was_set_to_before_its_first_member(tmp_path: Path) -> None:
    """Kafka writes only its share-partitions. The tool prints the same; the first consumer gets all."""
    home, target = tmp_path / "home", tmp_path / "data"
    home.mkdir()
    with kafka_node(home=home, settings=KAFKA_SETTINGS, jvm=with_class_archive(BRIEF_JVM)) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(20):
            producer.produce("orders", str(number))
        assert producer.flush(20) == 0
        where = ("--group", "prepared", "--topic", "orders", "--to-earliest")
        run_tool(kafka.bootstrap, SHARE_GROUPS, "--reset-offsets", *where, "--execute")
        before = described(kafka.bootstrap)
    imported(Life(home / "data", {}), target, "--all-topics")
    with headgate.run(SETTINGS, data_dir=target) as broker:
        servers = broker.bootstrap_servers
        assert described(servers) == before
        given = ("--topic", "orders", "--group", "prepared", "--max-messages", "20", "--timeout-ms", "40000")
        consumed = run_tool(servers, TOOLS + "consumer.ConsoleShareConsumer", *given)
        assert sorted(map(int, consumed.split())) == list(range(20))


def described(bootstrap: str) -> list[str]:
    """What Kafka's tool prints of all share groups."""
    every = ("--describe", "--all-groups", "--verbose")
    printed = run_tool(bootstrap, SHARE_GROUPS, *every, "--state") + run_tool(bootstrap, SHARE_GROUPS, *every)
    return printed.replace(bootstrap, "ADDRESS").split()
