"""Every client library reads, transforms and writes exactly once, while its process is fenced and killed.

The loops are whole programs (support/transformer_program.py): a consumer in a group, a transactional
producer, records and offsets in one transaction, and a transaction that is aborted and done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.support.java import needs_java_member
from tests.compat.support.transformers import Transformation, transformer
from tests.waiting import wait_until

import headgate.broker as headgate
from headgate.broker import Broker

PARTITIONS = 2
EACH = 30
END_S = 30.0
CASES = [
    pytest.param("confluent-kafka", "2", id="confluent-kafka"),
    pytest.param("kafka-python", "2", id="kafka-python"),
    pytest.param("aiokafka", "2", id="aiokafka"),
    pytest.param("kafkajs", "2", id="kafkajs"),
    pytest.param("java", "0", id="java-0", marks=needs_java_member),
    pytest.param("java", "2", id="java-2", marks=needs_java_member),
]

Brokers = Callable[[str], Broker]


@pytest.fixture(scope="module")
def broker_with() -> Iterator[Brokers]:
    """Gives the broker that advertises a version of transactions; members that are killed are soon gone."""
    with ExitStack() as stack:

        @cache
        def broker(version: str) -> Broker:
            settings = {"headgate.transaction.version": version, "group.min.session.timeout.ms": "1000"}
            return stack.enter_context(headgate.run(settings))

        yield broker


def values_of(bootstrap: str, topic: str, isolation_level: str) -> list[list[str]]:
    """The values in each partition, up to the end that a reader of that isolation level sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    values: list[list[str]] = [[] for _ in range(PARTITIONS)]
    at_end = 0
    while at_end < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            at_end += 1
        else:
            values[message.partition() or 0].append((message.value() or b"").decode())
    consumer.close()
    return values


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    """The group's offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, one) for one in range(PARTITIONS)], 20)
    consumer.close()
    return [one.offset for one in found]


def fence(bootstrap: str, transactional_id: str) -> None:
    """Take the transactional id, as another instance of the program does when it starts."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)


def finish(told: Transformation, is_done: Callable[[], bool]) -> None:
    """Let a loop end the work; another one if the group removed it, as happens on a busy machine."""
    deadline = time.monotonic() + END_S
    is_refused = True
    while is_refused:
        # Offsets are stable only after the first one has aborted what the killed one left open.
        with transformer(told) as last:
            wait_until(lambda: last.said("refused") or is_done(), last.trouble, deadline - time.monotonic())
            is_refused = bool(last.said("refused"))


@pytest.mark.parametrize(("library", "version"), CASES)
def test_a_loop_is_exact_though_it_is_fenced_and_killed(
    library: str, version: str, broker_with: Brokers, name: str
) -> None:
    """Each value is written once and in order; the offsets agree; what was aborted is only in the log."""
    bootstrap = broker_with(version).bootstrap_servers
    source, target = f"{name}-in", f"{name}-out"
    topics = AdminClient({"bootstrap.servers": bootstrap})
    for created in topics.create_topics([NewTopic(one, PARTITIONS, 1) for one in (source, target)]).values():
        created.result(20)
    given = [[f"value {one}-{number}" for number in range(EACH)] for one in range(PARTITIONS)]
    plain = Producer({"bootstrap.servers": bootstrap})
    for partition, values in enumerate(given):
        for value in values:
            plain.produce(source, value.encode(), partition=partition)
    assert plain.flush(20) == 0

    def told(hold_at: int = -1) -> Transformation:
        return Transformation(
            library=library,
            bootstrap=bootstrap,
            source=source,
            target=target,
            group=name,
            transactional_id=name,
            hold_at=hold_at,
        )

    with transformer(told(hold_at=3)) as zombie:
        zombie.wait_for("holding")
        assert len(zombie.said("committed")) == 2
        fence(bootstrap, name)
        zombie.tell("go on")
        zombie.wait_for("refused")
    with transformer(told(hold_at=0)) as killed:
        killed.wait_for("holding")
    finish(told(), lambda: committed(bootstrap, name, source) == [EACH] * PARTITIONS)
    assert values_of(bootstrap, target, "read_committed") == [[v.upper() for v in some] for some in given]
    everything = values_of(bootstrap, target, "read_uncommitted")
    # One transaction each was aborted, fenced and killed.
    assert sum(map(len, everything)) >= PARTITIONS * EACH + 3
