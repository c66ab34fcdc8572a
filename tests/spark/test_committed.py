"""A read of committed records has what a consumer with `read_committed` gets, from a running broker."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.spark.support import rows_of, write_segment
from tests.topics.disk import NOW
from tests.topics.transactions import transactional

import headgate
from headgate.client.cluster import Cluster
from headgate.client.transactions import fence_producer
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.log.batch_scan import CorruptLog
from headgate.log.header import read_header
from headgate.log.markers import EndMarker, encode_marker
from headgate.records import OffsetCommit, encode
from headgate.spark import broker as broker_source
from headgate.spark import segments
from headgate.spark.file_transactions import transactions_in
from headgate.spark.options import OptionError, parse
from headgate.spark.plan import MissingData
from headgate.spark.source import (
    OFFSET_COMMITS_VIEW,
    RECORDS_VIEW,
    CorruptionsReader,
    HistoryReader,
    ViewReader,
)
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

    def __init__(self, cluster: Cluster, name: str | None, topic: str = TOPIC) -> None:
        self.node = cluster.any_node()
        self.name = name
        self.topic = topic
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
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
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
    given = {"topic": TOPIC, **options}
    if "path" not in options:
        given["bootstrap.servers"] = broker.bootstrap_servers
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
    for size in ("1", "256m"):
        files = read(
            running, path=str(running.data_dir), isolationLevel="read_committed", maxBytesPerTask=size
        )
        assert files == expected
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
    files = options | {"path": str(running.data_dir)}
    with pytest.raises(MissingData, match=f"holds committed offsets to {offset - 1}, asked for were"):
        read(running, **files)
    assert read(running, **files, failOnDataLoss="false") == consumed(running)


@pytest.mark.parametrize("seed", range(12))
def test_files_have_what_the_markers_say(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random transactions, in segments and parts of any size, from any offset to any other."""
    chance = random.Random(seed)
    batches, expected = history(chance)
    cuts = sorted(chance.sample(range(1, len(batches)), 3))
    for begin, end in pairwise([0, *cuts, len(batches)]):
        base = read_header(batches[begin]).base_offset
        write_segment(tmp_path, TOPIC, 0, batches[begin:end], base)
    monkeypatch.setattr(segments, "LEAST_PART_BYTES", 100)
    options = {"isolationLevel": "read_committed"}
    for tasks in ("1", "5"):
        found = rows_of(RECORDS_VIEW, tmp_path, TOPIC, minPartitions=tasks, **options)
        assert [row["offset"] for row in found] == expected
    for first, last in pairwise(sorted(chance.sample(range(len(expected)), min(4, len(expected))))):
        bounds = {
            "startingOffsets": json.dumps({TOPIC: {"0": expected[first]}}),
            "endingOffsets": json.dumps({TOPIC: {"0": expected[last]}}),
        }
        found = rows_of(RECORDS_VIEW, tmp_path, TOPIC, **options, **bounds)
        assert [row["offset"] for row in found] == expected[first:last]


def history(chance: random.Random) -> tuple[list[bytes], list[int]]:
    """Return the batches of a log, and the offsets of its records that are committed and stable."""
    batches: list[bytes] = []
    pending: dict[int, list[int]] = {}
    committed: list[int] = []
    offset = 0
    for _ in range(60):
        producer = chance.randrange(4)
        if producer in pending and chance.random() < 0.4:
            is_committed = chance.random() < 0.5
            marker = encode_marker(EndMarker(is_committed, 0), producer, 0, NOW)
            batches.append(at_offset(marker, offset))
            committed += pending.pop(producer) if is_committed else []
            pending.pop(producer, None)
            offset += 1
            continue
        count = chance.randrange(1, 4)
        values = [b"v" * chance.randrange(30)] * count
        if chance.random() < 0.7:
            batch = bytearray(transactional(producer, *values))
            pending.setdefault(producer, []).extend(range(offset, offset + count))
        else:
            batch = encode_batch([Record(b"k", value, NOW) for value in values])
            committed += range(offset, offset + count)
        batches.append(at_offset(batch, offset))
        offset += count
    stable = min((offsets[0] for offsets in pending.values()), default=offset)
    return batches, sorted(one for one in committed if one < stable)


def at_offset(batch: bytearray, offset: int) -> bytes:
    """Return a batch at an offset of the log."""
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def test_a_damaged_marker_stops_a_read_of_committed_records(tmp_path: Path) -> None:
    """Also behind the end of the read: nothing is known of the transaction."""
    batches = [at_offset(bytearray(transactional(1, b"v")), 0), at_offset(marker(1), 1)]
    batches.append(at_offset(encode_batch([Record(b"k", b"v", NOW)]), 2))
    damaged = bytearray(batches[1])
    damaged[-1] ^= 1
    options = {"isolationLevel": "read_committed", "endingOffsets": json.dumps({TOPIC: {"0": 1}})}
    write_segment(tmp_path, TOPIC, 0, batches)
    assert rows_of(RECORDS_VIEW, tmp_path, TOPIC, **options) == []
    write_segment(tmp_path, TOPIC, 0, [batches[0], damaged, batches[2]])
    with pytest.raises(CorruptLog, match="a marker may be there"):
        rows_of(RECORDS_VIEW, tmp_path, TOPIC, **options)


def test_what_is_written_into_reserved_space_meanwhile_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that begins after the log was searched for transactions is not in the plan."""
    file = write_segment(tmp_path, TOPIC, 0, [encode_batch([Record(b"k", b"v", NOW)]), bytes(4096)])
    written, search = file.stat().st_size - 4096, transactions_in

    def then_write(*arguments: Any, **options: Any) -> Any:
        found = search(*arguments, **options)
        with file.open("r+b") as log:
            log.seek(written)
            log.write(at_offset(bytearray(transactional(1, b"open")), 1))
        return found

    monkeypatch.setattr(segments, "transactions_in", then_write)
    rows = rows_of(RECORDS_VIEW, tmp_path, TOPIC, isolationLevel="read_committed")
    assert [row["offset"] for row in rows] == [0]


def marker(producer_id: int) -> bytearray:
    """Return the marker of an aborted transaction."""
    return encode_marker(EndMarker(False, 0), producer_id, 0, NOW)


def test_aborted_commits_of_offsets_are_never_counted(tmp_path: Path) -> None:
    """The typed readers leave them out; a history and a list of corruptions refuse to."""
    value = encode(OffsetCommit(GroupId("g"), TopicName("t"), 0, 5, -1, "", Millis(NOW)))
    commits = []
    for producer in (1, 2, 3):
        batch = encode_batch(
            [Record(*value, NOW)], producer_id=producer, producer_epoch=0, is_transactional=True
        )
        commits.append(at_offset(batch, producer - 1))
    ends = [at_offset(encode_marker(EndMarker(one == 1, 0), one, 0, NOW), one + 2) for one in (1, 2)]
    topic = "__consumer_offsets"
    write_segment(tmp_path, topic, 0, [*commits, *ends])
    options = {"isolationLevel": "read_committed"}
    assert [row["log_offset"] for row in rows_of(OFFSET_COMMITS_VIEW, tmp_path, topic)] == [0, 1, 2]
    assert [row["log_offset"] for row in rows_of(OFFSET_COMMITS_VIEW, tmp_path, topic, **options)] == [0]
    checked = parse({"path": str(tmp_path), "topic": topic, **options})
    with pytest.raises(OptionError, match="corruptions"):
        CorruptionsReader(checked)
    with pytest.raises(OptionError, match="history"):
        HistoryReader(OFFSET_COMMITS_VIEW, checked)
