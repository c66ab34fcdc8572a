"""A server with `flights`: two partitions of ten records, one each second; the command in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner, Result

from headgate.broker import Broker, run
from headgate.cli import app

START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
RETENTION_MINUTES = 60

Command = Callable[..., Result]
_numbers = itertools.count()


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("data")
    settings = {"offsets.topic.num.partitions": "3", "offsets.retention.minutes": str(RETENTION_MINUTES)}
    with run(settings, data_dir=directory) as started:
        address: dict[str, Any] = {"bootstrap.servers": started.bootstrap_servers}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("flights", 2, 1)])["flights"].result(timeout=30)
        producer = Producer(address)
        for number in range(20):
            producer.produce("flights", b"x", partition=number % 2, timestamp=START_MS + number // 2 * 1000)
        assert producer.flush(20) == 0
        del admin, producer
        yield started


@pytest.fixture
def command() -> Command:
    """Run `headgate fleet` in this process."""

    def invoke(*arguments: str | Path | int) -> Result:
        return CliRunner().invoke(app, ["fleet", *map(str, arguments)])

    return invoke


@pytest.fixture
def new_group(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Make a group without members, with these offsets of `flights`."""

    def make(*offsets: int) -> str:
        name = f"{request.node.name.partition('[')[0]}-{next(_numbers):03}"
        commit(broker, name, *offsets)
        return name

    return make


def commit(broker: Broker, group: str, *offsets: int) -> None:
    """Commit offsets of the partitions of `flights`, as a consumer without a subscription."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    places = [TopicPartition("flights", partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
