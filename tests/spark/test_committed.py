"""A read of committed records has what a consumer with `read_committed` gets, from a running broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.topics.disk import NOW
from tests.topics.transactions import transactional

import headgate
from headgate.client.cluster import Cluster
from headgate.client.transactions import fence_producer
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch
from headgate.spark import broker as broker_source
from headgate.spark.options import parse
from headgate.spark.plan import MissingData
from headgate.spark.source import RECORDS_VIEW, ViewReader
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "payments"
ROUNDS = (True, False, False, True, False, True)


@pytest.fixture(scope="module")
def running() -> Iterator[headgate.Broker]:
    """A topic of two partitions with transactions of two producers, interleaved, and with other records.

    Transactions are committed and aborted. The last one of partition 1 is open; a record is behind it.
    """
    settings = {"transaction.state.log.num.partitions": "2", "headgate.durability": "page-cache"}
    with headgate.run(settings) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            topics = [CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]
            cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            one, other, plain = (Writer(cluster, name) for name in ("one", "other", None))
            for number, is_committed in enumerate(ROUNDS):
                for part in range(3):
                    for writer in (one, plain, other):
                        writer.write(number % 2, f"{writer.name} {number} {part}")
                one.end(is_committed)
                other.end(number % 3 == 0)
            one.write(1, "open")
            plain.write(1, "late")
        yield broker


class Writer:
    """Writes records, each in a batch of its own: in transactions of version 2, or without a name in none."""

    def __init__(self, cluster: Cluster, name: str | None) -> None:
        self.node = cluster.any_node()
        self.name = name
        self.sequences: Counter[int] = Counter()
        if name is not None:
            (self.producer_id, self.epoch) = fence_producer(cluster, name)

    def write(self, partition: int, value: str) -> None:
        """Append a record."""
        if self.name is None:
            records = bytes(encode_batch([Record(b"key", value.encode(), NOW)]))
        else:
            at = self.sequences[partition]
            records = transactional(self.producer_id, value.encode(), epoch=self.epoch, sequence=at)
            self.sequences[partition] += 1
        data = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            transactional_id=self.name,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        (answer,) = self.node.request(request, 12).responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE

    def end(self, is_committed: bool) -> None:
        """End the transaction."""
        request = EndTxnRequest(
            transactional_id=str(self.name),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_committed,
        )
        answer = self.node.request(request, 5)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()


def read(broker: headgate.Broker, **options: str) -> list[tuple[int, int, bytes]]:
    """Return partition, offset and value of the rows, in order."""
    given = {"bootstrap.servers": broker.bootstrap_servers, "topic": TOPIC, **options}
    reader = ViewReader(RECORDS_VIEW, parse(given))
    rows: list[dict[str, Any]] = [
        row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()
    ]
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def consumed(broker: headgate.Broker) -> list[tuple[int, int, bytes]]:
    """Return the same of librdkafka's consumer with `read_committed`."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
    found: list[tuple[int, int, bytes]] = []
    ends = 0
    while ends < 2:
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            ends += 1
        else:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None and offset is not None and value is not None
            found.append((partition, offset, value))
    consumer.close()
    return sorted(found)


def test_a_read_has_what_a_consumer_gets(running: headgate.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any number of ranges, which can begin within a transaction, and batch by batch."""
    expected = consumed(running)
    assert {value for *_, value in expected} == {
        b"%s %d %d" % (name, number, part)
        for number, is_committed in enumerate(ROUNDS)
        for part in range(3)
        for name, is_there in ((b"one", is_committed), (b"None", True), (b"other", number % 3 == 0))
        if is_there
    }
    for count in ("1", "7"):
        assert read(running, isolationLevel="read_committed", minPartitions=count) == expected
    monkeypatch.setattr(broker_source, "FETCH_BYTES", 1)
    assert read(running, isolationLevel="read_committed", minPartitions="3") == expected
    everything = read(running)
    assert set(expected) < set(everything)
    assert len(everything) == 2 + 9 * len(ROUNDS)


def test_offsets_behind_an_open_transaction_are_not_there(running: headgate.Broker) -> None:
    """An error that tells how far the committed ones go; or what there is."""
    _, offset, value = read(running)[-1]
    assert value == b"late"
    options = {"isolationLevel": "read_committed", "endingOffsets": f'{{"{TOPIC}": {{"1": {offset + 1}}}}}'}
    with pytest.raises(MissingData, match=f"holds committed offsets 0 to {offset - 1}, asked for were 0"):
        read(running, **options)
    assert read(running, **options, failOnDataLoss="false") == consumed(running)
