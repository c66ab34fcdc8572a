"""Transactions of Kafka's clients: librdkafka (first protocol), Java (both), and kcat as a reader."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.compat.support.driver import Driver
from tests.compat.support.kafkas_tools import TOOLS, needs_kafkas_tools, run_java, run_tool
from tests.compat.support.kcat import Kcat

import headgate.broker as headgate

PERFORMANCE = TOOLS + "ProducerPerformance"
TRANSACTIONS = TOOLS + "TransactionsCommand"


def committed(bootstrap: str, topic: str, group: str) -> list[bytes | None]:
    """The values that a reader of committed records gets of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value())
    consumer.close()
    return values


def test_confluent_kafka_reads_processes_and_writes(bootstrap: str, admin: Driver, name: str) -> None:
    """Records and offsets count together, or neither: of the aborted round nothing is there."""
    source, target = f"{name}-in", f"{name}-out"
    for topic in (source, target):
        admin.create_topic(topic)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(4):
        plain.produce(source, b"%d" % number)
    assert plain.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([source])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for is_committed in (True, False):
        messages = consumer.consume(2, 30)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    (offset,) = consumer.committed([TopicPartition(source, 0)], 30)
    consumer.close()
    assert offset.offset == 2
    assert committed(bootstrap, target, f"{name}-reader") == [b"0", b"1"]


@needs_kafkas_tools
@pytest.mark.parametrize(("level", "epoch"), [("0", "0"), ("2", "3")])
def test_java_uses_the_protocol_that_it_is_told(level: str, epoch: str) -> None:
    """With version 2 every commit raises the epoch; kafka-transactions shows it."""
    with headgate.run({"headgate.transaction.version": level}) as broker:
        options = ("--num-records", "300", "--record-size", "10", "--throughput", "-1")
        # The time is longer than a run: each run is one transaction.
        producer = ("--transactional-id", "java", "--transaction-duration-ms", "60000")
        where = ("--bootstrap-server", broker.bootstrap_servers)
        for _ in range(1 if level == "0" else 2):
            done = run_java(PERFORMANCE, "--topic", "letters", *options, *producer, *where)
            assert "300 records sent" in done.stdout, done.stdout + done.stderr
        described = run_tool(broker.bootstrap_servers, TRANSACTIONS, "describe", "--transactional-id", "java")
        fields = described.splitlines()[1].split()
        assert (fields[1], fields[3], fields[4]) == ("java", epoch, "CompleteCommit")


def test_kcat_reads_what_is_committed(bootstrap: str, admin: Driver, name: str) -> None:
    """Up to the first open transaction, without what was aborted; read_uncommitted gets everything."""
    admin.create_topic(name)
    producers = [
        Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{name}-{n}"}) for n in (1, 2)
    ]
    for producer in producers:
        producer.init_transactions(30)
    first, second = producers
    for value, how_it_ends in (("kept", "commit"), ("dropped", "abort"), ("also kept", "commit")):
        first.begin_transaction()
        first.produce(name, value.encode(), partition=0)
        assert first.flush(20) == 0
        getattr(first, f"{how_it_ends}_transaction")(30)
    second.begin_transaction()
    second.produce(name, b"open", partition=0)
    assert second.flush(20) == 0
    first.begin_transaction()
    first.produce(name, b"behind it", partition=0)
    first.commit_transaction(30)
    everything = ["kept", "dropped", "also kept", "open", "behind it"]
    kcat = Kcat(bootstrap)
    assert kcat.values(name, "read_uncommitted") == everything
    assert kcat.values(name, "read_committed") == ["kept", "also kept"]
    second.commit_transaction(30)
    assert kcat.values(name, "read_committed") == ["kept", "also kept", "open", "behind it"]
