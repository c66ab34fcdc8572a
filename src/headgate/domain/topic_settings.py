"""The settings of a topic, by Kafka's names; most fall back to a broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.domain.setting import (
    CLEANUP_POLICY,
    DAY_MS,
    DIRTY_RATIO,
    DURABILITY,
    HOUR_MS,
    LEAST_LAG,
    LONG_MAX,
    MINUTE_MS,
    MOST_LAG,
    PAGE_CACHE,
    SYNC,
    Kind,
    Setting,
    table,
)

_KAFKA_ONLY: tuple[tuple[str, Kind, Any], ...] = (
    ("file.delete.delay.ms", Kind.LONG, MINUTE_MS),
    ("flush.messages", Kind.LONG, LONG_MAX),
    ("flush.ms", Kind.LONG, LONG_MAX),
    ("follower.replication.throttled.replicas", Kind.LIST, ()),
    ("leader.replication.throttled.replicas", Kind.LIST, ()),
    ("preallocate", Kind.BOOLEAN, False),
    ("segment.index.bytes", Kind.INT, 10 * 1024 * 1024),
    ("segment.jitter.ms", Kind.LONG, 0),
    ("unclean.leader.election.enable", Kind.BOOLEAN, False),
)

TOPIC_SETTINGS: Mapping[str, Setting] = table(
    Setting(
        "headgate.durability",
        Kind.STRING,
        SYNC,
        DURABILITY,
        choices=(SYNC, PAGE_CACHE),
        broker_name="headgate.durability",
    ),
    Setting(
        "cleanup.policy",
        Kind.LIST,
        ("delete",),
        CLEANUP_POLICY,
        choices=("delete", "compact"),
        broker_name="log.cleanup.policy",
    ),
    Setting(
        "compression.type",
        Kind.STRING,
        "producer",
        "Batches are kept as producers sent them.",
        choices=("producer",),
        broker_name="compression.type",
    ),
    Setting(
        "delete.retention.ms",
        Kind.LONG,
        DAY_MS,
        "How long tombstones outlive compaction.",
        minimum=0,
        broker_name="log.cleaner.delete.retention.ms",
    ),
    Setting(
        "index.interval.bytes",
        Kind.INT,
        4096,
        "Bytes between two entries of the offset index.",
        minimum=0,
        broker_name="log.index.interval.bytes",
    ),
    Setting(
        "max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        MOST_LAG,
        minimum=1,
        broker_name="log.cleaner.max.compaction.lag.ms",
    ),
    Setting(
        "max.message.bytes",
        Kind.INT,
        1_048_588,
        "Largest record batch taken from a producer.",
        minimum=0,
        broker_name="message.max.bytes",
    ),
    Setting(
        "message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock stamps a record.",
        choices=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    ),
    Setting(
        "message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How old a producer's timestamp may be.",
        minimum=0,
        broker_name="log.message.timestamp.before.max.ms",
    ),
    Setting(
        "message.timestamp.after.max.ms",
        Kind.LONG,
        HOUR_MS,
        "How far ahead a producer's timestamp may be.",
        minimum=0,
        broker_name="log.message.timestamp.after.max.ms",
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        Kind.DOUBLE,
        0.5,
        DIRTY_RATIO,
        minimum=0,
        maximum=1,
        broker_name="log.cleaner.min.cleanable.ratio",
    ),
    Setting(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        LEAST_LAG,
        minimum=0,
        broker_name="log.cleaner.min.compaction.lag.ms",
    ),
    Setting("min.insync.replicas", Kind.INT, 1, "One: there is one replica.", minimum=1, maximum=1),
    Setting(
        "retention.bytes",
        Kind.LONG,
        -1,
        "How many bytes a partition keeps; -1 all.",
        minimum=-1,
        broker_name="log.retention.bytes",
    ),
    Setting(
        "retention.ms",
        Kind.LONG,
        7 * DAY_MS,
        "How long records are kept; -1 for ever.",
        minimum=-1,
        broker_name="log.retention.ms",
    ),
    Setting(
        "segment.bytes",
        Kind.INT,
        1_073_741_824,
        "When a segment file is full.",
        minimum=1024,
        broker_name="log.segment.bytes",
    ),
    Setting(
        "segment.ms",
        Kind.LONG,
        7 * DAY_MS,
        "When a segment is closed though it is not full.",
        minimum=1,
        broker_name="log.roll.ms",
    ),
    *(
        Setting(name, kind, default, "Taken because Kafka's tools send it; it changes nothing here.")
        for name, kind, default in _KAFKA_ONLY
    ),
)
