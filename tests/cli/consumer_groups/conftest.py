"""The command in this process, with a server whose records are a second apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cli.support import START_MS, Command
from tests.consumers import reading
from typer.testing import CliRunner, Result

from headgate.broker import run
from headgate.cli import app

_numbers = itertools.count()


@pytest.fixture(scope="package")
def bootstrap_servers() -> Iterator[str]:
    """Start a server with `flights`: three partitions of ten records, one each second from START_MS on."""
    with run({"offsets.topic.num.partitions": "2"}) as broker:
        address: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("flights", 3, 1)])["flights"].result(timeout=30)
        producer = Producer(address)
        for number in range(30):
            producer.produce("flights", b"x", partition=number % 3, timestamp=START_MS + number // 3 * 1000)
        assert producer.flush(20) == 0
        del admin, producer
        yield broker.bootstrap_servers


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """Run the command in this process with that server, unless the arguments name another one."""

    def invoke(*arguments: str | Path) -> Result:
        words = ["consumer-groups", *map(str, arguments)]
        if "--bootstrap-server" not in words:
            words += ["--bootstrap-server", bootstrap_servers]
        return CliRunner().invoke(app, words)

    return invoke


@pytest.fixture
def group(bootstrap_servers: str, request: pytest.FixtureRequest) -> str:
    """Create a group with the offsets 4 and 9 in two of three partitions."""
    name = f"{request.node.name.partition('[')[0]}-{next(_numbers)}"
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": name})
    offsets = [TopicPartition("flights", 0, 4), TopicPartition("flights", 1, 9, metadata="by hand")]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return name


@pytest.fixture
def member(bootstrap_servers: str, group: str) -> Iterator[Consumer]:
    """Start a member to which all partitions are assigned."""
    with reading(bootstrap_servers, group, "flights", {"client.id": "reader"}) as consumer:
        yield consumer
