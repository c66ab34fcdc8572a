"""Fixtures of the Admin API's tests: a real server with a topic whose records are a second apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.consumers import reading

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.client.errors import check
from headgate.domain.ids import TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

FLIGHTS = TopicName("flights")
PARTITIONS = [TopicPartition(FLIGHTS, index) for index in range(3)]
START_MS = 1_700_000_000_000
RECORDS = 10
"""Records of each partition."""


@pytest.fixture(scope="package")
def bootstrap_servers() -> Iterator[str]:
    """Start a server with `flights`: three partitions of ten records, one each second from START_MS on."""
    with run({"offsets.topic.num.partitions": "4"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(name=FLIGHTS, num_partitions=len(PARTITIONS), replication_factor=1)
            created = admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            check("topic", created.topics[0].error_code, created.topics[0].error_message)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            for _, partition in PARTITIONS:
                producer.produce(FLIGHTS, b"flight", partition=partition, timestamp=START_MS + 1000 * number)
        assert producer.flush(20) == 0
        del producer
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    """A new `Admin`."""
    with Admin(bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def member(bootstrap_servers: str, group: str) -> Iterator[Consumer]:
    """A member of the test's group, with an assignment."""
    with reading(bootstrap_servers, group, FLIGHTS, {"client.id": "reader"}) as consumer:
        yield consumer


@pytest.fixture
def consumer_member(bootstrap_servers: str, group: str) -> Iterator[Consumer]:
    """The same in a consumer group."""
    settings = {"client.id": "reader", "group.protocol": "consumer"}
    with reading(bootstrap_servers, group, FLIGHTS, settings) as consumer:
        yield consumer


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A new group id."""
    return str(request.node.name)
