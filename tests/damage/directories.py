"""A data directory with something of everything, as two ends leave it; and an older copy of it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    GroupId,
    Millis,
    TopicId,
    TopicName,
)
from headgate.domain.partitioning import partition_for
from headgate.domain.settings import Settings
from headgate.history.writer import append_mark
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.records import OffsetCommit, encode
from headgate.records.share_batches import DeliveryState, StateBatch, StateBatches
from headgate.records.share_state import encode_share
from headgate.records.share_state_model import UNCHANGED, ShareKey, ShareRecord, ShareSnapshot, ShareUpdate
from headgate.records.transactions import TransactionMetadata, TransactionState, encode_transaction
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

NOW = Millis(1_750_000_000_000)
SETTINGS = Settings(
    {
        "offsets.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": "3000",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.segment.bytes": "3000",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.segment.bytes": "2000",
        "log.cleaner.enable": "false",
        "log.retention.check.interval.ms": "100000000",
    }
)
SMALL = {"segment.bytes": "3000", "index.interval.bytes": "300", "retention.ms": "-1"}
DURABLE, CACHED = "durable", "cached"
PRODUCER = 7
GROUPS = [
    next(GroupId(f"g{n}") for n in range(99) if partition_for(GroupId(f"g{n}"), 2) == i) for i in range(2)
]
TRANSACTIONAL_IDS = [
    [one for one in map(str, range(40)) if partition_for(one, 2) == i][:10] for i in range(2)
]
"""Ten for each shard."""
SHARED_TOPIC = TopicId(b"A" * 16)
"""Id of the topic `durable`: states of a topic that does not exist would be removed."""
SHARE_KEYS = [
    [
        key
        for n in range(80)
        if partition_for((key := ShareKey(GroupId(f"s{n}"), SHARED_TOPIC, 0)).name, 2) == i
    ][:10]
    for i in range(2)
]
"""Ten for each shard."""
DELETED_BEFORE = 12
BEYOND_THE_MARK = 3
"""Batches that are behind the mark in a directory of a server that was killed."""


@dataclass(frozen=True)
class Ends:
    """The same server's directory after a clean stop and after a SIGKILL, and a copy from before."""

    closed: Path
    killed: Path
    older: Path


def commit_of(index: int, number: int) -> OffsetCommit:
    """The committed offset of number `number` in one of the two shards."""
    return OffsetCommit(GROUPS[index], TopicName("flights"), number % 10, number, 3, f"at {number}", NOW)


def transaction_of(index: int, number: int) -> TransactionMetadata:
    """The state number `number` of a transactional id in one of the two shards."""
    return TransactionMetadata(
        transactional_id=TRANSACTIONAL_IDS[index][number % 10],
        producer_id=4000 + number % 10,
        producer_epoch=number,
        timeout_ms=60_000,
        state=TransactionState.COMPLETE_COMMIT,
        last_update_timestamp=NOW,
    )


def share_record_of(index: int, number: int) -> ShareRecord:
    """The change number `number` of the states in one of the two shards: ten snapshots, then updates."""
    key = SHARE_KEYS[index][number % 10]
    batch = StateBatch(2 * number, 2 * number, DeliveryState.ACKNOWLEDGED, 1)
    if number < 10:
        return ShareSnapshot(
            key=key,
            snapshot_epoch=0,
            state_epoch=1,
            leader_epoch=0,
            start_offset=0,
            created=NOW,
            written=NOW,
            batches=StateBatches.of([batch]),
        )
    return ShareUpdate(
        key=key,
        snapshot_epoch=0,
        leader_epoch=0,
        start_offset=UNCHANGED,
        batches=StateBatches.of([batch]),
    )


def _produce(partition: Partition, first: int, count: int) -> None:
    """Batches of an idempotent producer, three records each, every one synced."""
    for number in range(first, first + count):
        records = [Record(b"k", b"%s %d %s" % (str(partition).encode(), number, b"x" * 60), NOW + number)]
        batch = encode_batch(records * 3, producer_id=PRODUCER, producer_epoch=0, base_sequence=3 * number)
        assert partition.append(batch, NOW).error == ErrorCode.NONE
    _sync(partition)


def _commit(partition: Partition, first: int, count: int) -> None:
    for number in range(first, first + count):
        record = Record(*encode(commit_of(partition.index, number)), NOW)
        partition.append_internal([encode_batch([record])])
    _sync(partition)


def _transact(partition: Partition, first: int, count: int) -> None:
    for number in range(first, first + count):
        record = Record(*encode_transaction(transaction_of(partition.index, number)), NOW)
        partition.append_internal([encode_batch([record])])
    _sync(partition)


def _share(partition: Partition, first: int, count: int) -> None:
    for number in range(first, first + count):
        record = Record(*encode_share(share_record_of(partition.index, number)), NOW)
        partition.append_internal([encode_batch([record])])
    _sync(partition)


def _mark_history(partition: Partition, first: int, count: int) -> None:
    for number in range(first, first + count):
        append_mark(partition, Millis(NOW - 1000 + number), NOW)
    _sync(partition)


def _sync(partition: Partition) -> None:
    request = partition.log.begin_sync()
    request.run()
    partition.log.complete_sync(request)
    partition.advance()


def _open(path: Path) -> Topics:
    return Topics.open(OsFileSystem(), path, SETTINGS, NOW)


def _found(topics: Topics, name: str) -> Topic:
    topic = topics.by_name(name)
    assert topic is not None
    return topic


def _write(topics: Topics, first: int, count: int) -> None:
    for name in (DURABLE, CACHED):
        for index in range(2):
            _produce(_found(topics, name).partition(index), first, count)
    for index in range(2):
        _commit(_found(topics, GROUP_OFFSETS_TOPIC).partition(index), first, count)
        _mark_history(_found(topics, OFFSETS_HISTORY_TOPIC).partition(index), first, count)
        _transact(_found(topics, TRANSACTION_STATE_TOPIC).partition(index), first, count)
        _share(_found(topics, SHARE_STATE_TOPIC).partition(index), first, count)


def _mark(topics: Topics) -> None:
    for topic in topics.all():
        for partition in topic.open_partitions():
            partition.log.mark()


def _live(path: Path, *, writes_checkpoints: bool) -> None:
    """A node starts and ends."""

    async def main() -> None:
        node = BrokerNode(OsFileSystem(), path, SETTINGS, Clock())
        await node.start()
        for coordinator in (
            (node.coordinator, node.transactions, node.share_state) if writes_checkpoints else ()
        ):
            for runtime in coordinator.runtimes:
                CheckpointWriter(runtime).write_at_once()
        node.close()

    asyncio.run(main())


def build(path: Path) -> Ends:
    """Several lives, one of which ended in a crash: two leader epochs, checkpoints, deleted records."""
    ends = Ends(path / "closed", path / "killed", path / "older")
    ends.closed.mkdir(parents=True)
    _live(ends.closed, writes_checkpoints=False)
    topics = _open(ends.closed)
    for number, (name, durability) in enumerate({DURABLE: "sync", CACHED: "page-cache"}.items()):
        new = NewTopic(
            name, TopicId(bytes([65 + number]) * 16), 2, {**SMALL, "headgate.durability": durability}
        )
        assert isinstance(topics.create(new, NOW), Topic)
    for name in (GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC):
        topic = _found(topics, name)
        topics.set_overrides(topic, {**topic.overrides, "index.interval.bytes": "300"}, NOW)
    _write(topics, 0, 20)
    topics.close()
    _live(ends.closed, writes_checkpoints=True)
    shutil.copytree(ends.closed, ends.older)
    (ends.closed / "clean-shutdown").unlink()  # the life before this one ended in a crash
    topics = _open(ends.closed)
    topics.create(NewTopic("later", TopicId(b"L" * 16), 1), NOW)
    _write(topics, 20, 20)
    for name in (DURABLE, CACHED):
        assert _found(topics, name).partition(0).delete_records(DELETED_BEFORE)[0] == ErrorCode.NONE
    topics.close()
    topics = _open(ends.closed)
    _write(topics, 40, 6)
    _mark(topics)
    _write(topics, 46, BEYOND_THE_MARK)
    shutil.copytree(ends.closed, ends.killed)
    topics.close()
    return ends
