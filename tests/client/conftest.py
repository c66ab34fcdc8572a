"""Fixtures of the client's tests: scripted nodes and real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from tests.client.scripted import Script, ScriptedNode

from headgate.broker import run
from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC = "orders"
PARTITIONS = 4
RECORDS = 100

StartNode = Callable[[Script], ScriptedNode]


@pytest.fixture
def start_node() -> Iterator[StartNode]:
    """Start scripted nodes, which are closed after the test."""
    nodes: list[ScriptedNode] = []

    def start(script: Script) -> ScriptedNode:
        nodes.append(ScriptedNode(script))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()


@pytest.fixture(scope="module", params=["headgate", "three mock brokers"])
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Start a cluster with a topic of four partitions and a hundred records, once for each module."""
    if request.param == "headgate":
        with run() as broker:
            with Cluster(broker.bootstrap_servers) as cluster:
                topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
                created = cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
                check(f"topic {TOPIC}", created.topics[0].error_code, created.topics[0].error_message)
            _produce(Producer({"bootstrap.servers": broker.bootstrap_servers}))
            yield broker.bootstrap_servers
    else:
        # librdkafka's mock cluster in this process: three brokers that lead partitions and coordinate groups.
        producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
        _produce(producer)
        yield ",".join(
            f"{each.host}:{each.port}" for each in producer.list_topics(timeout=10).brokers.values()
        )


def _produce(producer: Producer) -> None:
    for number in range(RECORDS):
        producer.produce(TOPIC, f"value-{number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(20) == 0
