"""Replay a partition of the coordinator's log into the coordinator's state machine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headgate.core.commands import SystemTimeMoved
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis
from headgate.domain.settings import Settings
from headgate.fleet.facts import Backwards
from headgate.log.batch_records import Records
from headgate.log.batch_scan import Bits, only
from headgate.records import MalformedRecord, OffsetCommit, decode
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.options import Options
from headgate.spark.source import complete_records, plan

ATTEMPTS = 5
"""Maximum number of reads of a partition that compaction rewrites during the read."""
_ONE_TASK_BYTES = 1 << 62


@dataclass(slots=True)
class Replayed:
    """A shard as the coordinator has it after loading this log."""

    shard: GroupShard
    backwards: dict[GroupId, Backwards] = field(default_factory=dict)
    unreadable: int = 0
    """Records that cannot be decoded; they changed nothing."""


def replay(options: Options, partition: int, settings: Settings, now: Millis) -> Replayed:
    """Read the log of a partition and return its state at system time `now`.

    Raises CompactedWhileRead, CorruptLog, MissingData, ClientError, OSError.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _replay(options, partition, settings, now)
        except CompactedWhileRead:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError


def _replay(options: Options, partition: int, settings: Settings, now: Millis) -> Replayed:
    replayed = Replayed(GroupShard(settings))
    topics = replace(options.topics, names=(), partitions={GROUP_OFFSETS_TOPIC: (partition,)})
    whole = replace(options, topics=topics, min_partitions=1, max_bytes_per_task=_ONE_TASK_BYTES)
    for task in plan(whole):
        for records in complete_records(task):
            _apply(replayed, only(records, ~(records.is_control | _transactional(records))))
    shard = replayed.shard
    shard.handle(SystemTimeMoved(0), now)
    shard.loaded(now)
    return replayed


def _transactional(records: Records) -> Bits:
    """Return which records count only when their transaction is committed: nothing reads markers yet."""
    return records.batches.is_transactional[records.batch]


def _apply(replayed: Replayed, records: Records) -> None:
    payload = records.payload
    for offset, time, key_at, key_size, value_at, value_size in zip(
        records.offset.tolist(),
        records.timestamp_ms.tolist(),
        records.key_at.tolist(),
        records.key_size.tolist(),
        records.value_at.tolist(),
        records.value_size.tolist(),
        strict=True,
    ):
        key = None if key_size < 0 else bytes(payload[key_at : key_at + key_size])
        value = None if value_size < 0 else bytes(payload[value_at : value_at + value_size])
        try:
            record = decode(key, value, Millis(time))
        except MalformedRecord:
            replayed.unreadable += 1
            continue
        if isinstance(record, OffsetCommit):
            _look_back(replayed, record)
        replayed.shard.apply(record, offset)


def _look_back(replayed: Replayed, commit: OffsetCommit) -> None:
    """Count a commit with a lower offset than the one before."""
    before = replayed.shard.offsets.get(commit.group_id, commit.topic, commit.partition)
    if before is not None and commit.offset < before.offset:
        known = replayed.backwards.get(commit.group_id, Backwards())
        replayed.backwards[commit.group_id] = Backwards(
            count=known.count + 1, last_at=commit.commit_timestamp
        )
