"""What a server makes of a data directory: what it serves, what it refuses, and what it changed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.damage.directories import (
    CACHED,
    DURABLE,
    NOW,
    PRODUCER,
    SETTINGS,
    SHARE_KEYS,
    TRANSACTIONAL_IDS,
    commit_of,
)

from headgate.core.share.state.shard import ShareStateShard
from headgate.core.transactions.shard import TransactionShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Millis
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.filesystem import OsFileSystem
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.partition import Partition

ALL_COMMITS = 49


@dataclass
class Seen:
    """What was seen of one start."""

    refused: str | None = None
    """Why the server did not start."""
    cluster_id: str = ""
    topics: list[Any] = field(default_factory=list)
    records: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    bad_batches: dict[str, list[int]] = field(default_factory=dict)
    """Offsets that were refused because their batch is not what was written."""
    shut: dict[str, ErrorCode] = field(default_factory=dict)
    """Partitions that were refused as a whole."""
    next_sequences: dict[str, ErrorCode] = field(default_factory=dict)
    shards: dict[str, list[int] | list[set[int]]] = field(default_factory=dict)
    """By partition: the committed offsets, the epochs of transactional ids, or the offsets that share groups
    acknowledged; a shard that was refused is missing.
    """
    logged: list[str] = field(default_factory=list)


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory, but for the lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        extra = [
            str(getattr(record, name)) for name in ("log", "error", "partition") if hasattr(record, name)
        ]
        self.lines.append(" ".join([record.getMessage(), *extra]))


def observe(path: Path) -> Seen:
    """Start a node on the directory, look at everything, and stop it."""
    seen, lines = Seen(), _Lines()
    logger = logging.getLogger("headgate")
    logger.addHandler(lines)
    try:
        asyncio.run(_observe(path, seen))
    except (OSError, CatalogueCorrupt) as problem:
        seen.refused = str(problem)
    finally:
        logger.removeHandler(lines)
    seen.logged = lines.lines
    return seen


async def _observe(path: Path, seen: Seen) -> None:
    node = BrokerNode(OsFileSystem(), path, SETTINGS, Clock())
    try:
        await node.start()
        seen.cluster_id = node.cluster_id
        seen.topics = [(topic.name, topic.topic_id, topic.partition_count) for topic in node.topics.all()]
        for index, runtime in enumerate(node.coordinator.runtimes):
            if runtime.is_active:
                seen.shards[f"{GROUP_OFFSETS_TOPIC}-{index}"] = _committed(runtime.shard, index)
        for index, transactions in enumerate(node.transactions.runtimes):
            if transactions.is_active:
                seen.shards[f"{TRANSACTION_STATE_TOPIC}-{index}"] = _epochs(transactions.shard, index)
        for index, shares in enumerate(node.share_state.runtimes):
            if shares.is_active:
                seen.shards[f"{SHARE_STATE_TOPIC}-{index}"] = _acknowledged(shares.shard, index)
        for topic in node.topics.all():
            for index in topic.written_partitions():
                _look_at(topic.partition(index), seen)
    finally:
        node.close()


def _committed(shard: Any, index: int) -> list[int]:
    standing = [shard.current_record(commit_of(index, number)) for number in range(10)]
    return [one.offset if one is not None else -1 for one in standing]


def _epochs(shard: TransactionShard, index: int) -> list[int]:
    known = map(shard.by_id.get, TRANSACTIONAL_IDS[index])
    return [one.producer_epoch if one is not None else -1 for one in known]


def _acknowledged(shard: ShareStateShard, index: int) -> list[set[int]]:
    states = map(shard.states.get, SHARE_KEYS[index])
    return [
        set() if one is None else {batch.first_offset for batch in one.batches.batches()} for one in states
    ]


def _look_at(partition: Partition, seen: Seen) -> None:
    name = str(partition)
    first = partition.read(0, 1, minimum_one=True)
    if first.error == ErrorCode.KAFKA_STORAGE_ERROR:
        seen.shut[name] = first.error
        return
    seen.starts[name] = at = partition.log_start_offset
    records, bad = [], []
    while at < partition.high_watermark:
        result = partition.read(at, 1 << 20, minimum_one=True)
        if result.error == ErrorCode.CORRUPT_MESSAGE:
            bad.append(at)
            at += 1
            continue
        assert result.error == ErrorCode.NONE, (name, at, result.error)
        data, position = result.records, 0
        while position < len(data):
            header = read_header(data, position)
            found = iterate_records(data[position : position + header.size])
            records += [(offset, one.value) for offset, one in found if offset >= at]
            position += header.size
            at = header.next_offset
    seen.records[name], seen.bad_batches[name] = records, bad
    seen.epochs[name] = [partition.end_offset_of_epoch(epoch) for epoch in range(2)]
    if partition.topic.name in (DURABLE, CACHED):
        following = 3 * ALL_COMMITS
        batch = encode_batch(
            [Record(b"k", b"v", NOW)], producer_id=PRODUCER, producer_epoch=0, base_sequence=following
        )
        seen.next_sequences[name] = partition.append(batch, Millis(NOW)).error
