"""The settings of a broker, given at start: by `--set`, `--config`, or in the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.domain.setting import (
    CLEANUP_POLICY,
    COMPRESSION,
    COMPRESSIONS,
    DAY_MS,
    DIRTY_RATIO,
    DURABILITY,
    HOUR_MS,
    INT_MAX,
    LEAST_LAG,
    LONG_MAX,
    MINUTE_MS,
    MOST_LAG,
    PAGE_CACHE,
    SYNC,
    Kind,
    Setting,
    compression_levels,
    table,
)

_DYNAMIC = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.connections",
        "max.connections.per.ip",
        "message.max.bytes",
        "producer.id.expiration.ms",
    }
)
"""What may be changed while the broker runs, as in Kafka 4.3."""

_ALL = table(
    Setting("node.id", Kind.INT, 1, "This node's id in Metadata answers.", minimum=0),
    Setting("headgate.durability", Kind.STRING, SYNC, DURABILITY, choices=(SYNC, PAGE_CACHE)),
    Setting(
        "headgate.preallocate.bytes",
        Kind.INT,
        4 << 20,
        "What a log that is synced before the answer reserves of the disk ahead of its end, at most.",
        minimum=0,
    ),
    # Topics
    Setting("auto.create.topics.enable", Kind.BOOLEAN, True, "Create a topic when it is first asked for."),
    Setting("num.partitions", Kind.INT, 1, "Partitions of a topic that does not say.", minimum=1),
    Setting(
        "default.replication.factor",
        Kind.INT,
        1,
        "One: replication is left to a Kafka cluster.",
        minimum=1,
        maximum=1,
    ),
    Setting("delete.topic.enable", Kind.BOOLEAN, True, "Allow DeleteTopics."),
    Setting(
        "compression.type",
        Kind.STRING,
        "producer",
        COMPRESSION,
        choices=COMPRESSIONS,
    ),
    *compression_levels(is_of_topic=False),
    Setting(
        "message.max.bytes", Kind.INT, 1_048_588, "Largest record batch taken from a producer.", minimum=0
    ),
    Setting(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        CLEANUP_POLICY,
        choices=("delete", "compact"),
    ),
    Setting(
        "log.retention.ms",
        Kind.LONG,
        None,
        "How long records are kept; -1 for ever. Not set: log.retention.minutes, then log.retention.hours.",
        minimum=-1,
    ),
    Setting("log.retention.minutes", Kind.INT, None, "log.retention.ms in minutes.", minimum=-1),
    Setting("log.retention.hours", Kind.INT, 7 * 24, "log.retention.ms in hours.", minimum=-1),
    Setting("log.retention.bytes", Kind.LONG, -1, "How many bytes a partition keeps; -1 all.", minimum=-1),
    Setting(
        "log.retention.check.interval.ms",
        Kind.LONG,
        5 * MINUTE_MS,
        "How often retention is looked after.",
        minimum=1,
    ),
    Setting("log.segment.bytes", Kind.INT, 1_073_741_824, "When a segment file is full.", minimum=1024),
    Setting(
        "log.roll.ms",
        Kind.LONG,
        None,
        "When a segment is closed though it is not full. Not set: log.roll.hours.",
        minimum=1,
    ),
    Setting("log.roll.hours", Kind.INT, 7 * 24, "log.roll.ms in hours.", minimum=1),
    Setting(
        "log.index.interval.bytes",
        Kind.INT,
        4096,
        "Bytes between two entries of the offset index.",
        minimum=0,
    ),
    Setting(
        "log.cleaner.delete.retention.ms",
        Kind.LONG,
        DAY_MS,
        "How long tombstones outlive compaction.",
        minimum=0,
    ),
    Setting("log.cleaner.enable", Kind.BOOLEAN, True, "Compact the topics whose policy asks for it."),
    Setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        "How often it is looked for something to compact.",
        minimum=1,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        134_217_728,
        "Most memory for the keys of a compaction, 32 bytes each; more keys take several passes.",
        minimum=4096,
    ),
    Setting("log.cleaner.min.cleanable.ratio", Kind.DOUBLE, 0.5, DIRTY_RATIO, minimum=0, maximum=1),
    Setting("log.cleaner.min.compaction.lag.ms", Kind.LONG, 0, LEAST_LAG, minimum=0),
    Setting("log.cleaner.max.compaction.lag.ms", Kind.LONG, LONG_MAX, MOST_LAG, minimum=1),
    Setting(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock stamps a record.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    Setting(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How old a producer's timestamp may be.",
        minimum=0,
    ),
    Setting(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        HOUR_MS,
        "How far ahead a producer's timestamp may be.",
        minimum=0,
    ),
    Setting(
        "producer.id.expiration.ms",
        Kind.INT,
        DAY_MS,
        "When an idle producer's sequences are forgotten.",
        minimum=1,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots", Kind.INT, 1000, "Fetch sessions kept at once.", minimum=0
    ),
    Setting("fetch.max.bytes", Kind.INT, 57_671_680, "Most bytes of one fetch response.", minimum=1024),
    # Connections
    Setting("socket.request.max.bytes", Kind.INT, 104_857_600, "Largest request frame.", minimum=1),
    Setting(
        "connections.max.idle.ms",
        Kind.LONG,
        10 * MINUTE_MS,
        "When a silent connection is closed; -1 never.",
        minimum=-1,
    ),
    Setting(
        "queued.max.request.bytes",
        Kind.LONG,
        -1,
        "Memory for requests that are not complete or wait to be served, of all connections; -1: 512 MiB.",
    ),
    Setting(
        "max.connections",
        Kind.INT,
        INT_MAX,
        "Most connections at a time; who connects above it waits until another one ends.",
        minimum=0,
    ),
    Setting(
        "max.connections.per.ip",
        Kind.INT,
        INT_MAX,
        "Most connections from one address; further ones are closed at once.",
        minimum=0,
    ),
    # Offsets
    Setting(
        "offsets.topic.num.partitions",
        Kind.INT,
        1,
        "Partitions of __consumer_offsets, fixed once it exists. Each is a log to sync: one is quickest.",
        minimum=1,
        maximum=1000,
    ),
    Setting(
        "offsets.topic.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of __consumer_offsets.",
        minimum=1024,
    ),
    Setting(
        "offsets.history.retention.ms",
        Kind.LONG,
        7 * DAY_MS,
        "How long a replaced or removed offset is remembered; -1 for ever, 0 not at all.",
        minimum=-1,
    ),
    Setting(
        "offset.metadata.max.bytes",
        Kind.INT,
        4096,
        "Longest metadata of a committed offset, in UTF-16 units.",
        minimum=0,
    ),
    Setting(
        "offsets.retention.minutes",
        Kind.INT,
        7 * 24 * 60,
        "How long an empty group's offsets are kept.",
        minimum=1,
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        10 * MINUTE_MS,
        "How often expired offsets are looked for.",
        minimum=1,
    ),
    Setting(
        "headgate.checkpoint.enable",
        Kind.BOOLEAN,
        True,
        "Write checkpoints of groups and offsets, so that a start need not read all of their log.",
    ),
    Setting(
        "headgate.checkpoint.interval.records",
        Kind.LONG,
        500_000,
        "After how many records of a partition of __consumer_offsets a checkpoint is written.",
        minimum=1,
    ),
    # Classic groups
    Setting(
        "group.min.session.timeout.ms",
        Kind.INT,
        6_000,
        "Shortest session timeout a member may ask for.",
        minimum=1,
    ),
    Setting(
        "group.max.session.timeout.ms",
        Kind.INT,
        30 * MINUTE_MS,
        "Longest session timeout a member may ask for.",
        minimum=1,
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3_000,
        "How long an empty group waits for more members.",
        minimum=0,
    ),
    Setting("group.max.size", Kind.INT, INT_MAX, "Most members of a classic group.", minimum=1),
    # Consumer groups
    Setting(
        "group.consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member of a consumer group may be silent.",
        minimum=1,
    ),
    Setting(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        45_000,
        "Shortest session timeout a consumer group may be given.",
        minimum=1,
    ),
    Setting(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        MINUTE_MS,
        "Longest session timeout a consumer group may be given.",
        minimum=1,
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms",
        Kind.INT,
        5_000,
        "How often members of a consumer group are to be heard of.",
        minimum=1,
    ),
    Setting(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        5_000,
        "Shortest heartbeat interval a consumer group may be given.",
        minimum=1,
    ),
    Setting(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        15_000,
        "Longest heartbeat interval a consumer group may be given.",
        minimum=1,
    ),
    Setting(
        "group.consumer.assignment.interval.ms",
        Kind.INT,
        1_000,
        "At least so long lies between two assignments of a consumer group.",
        minimum=0,
    ),
    Setting(
        "group.consumer.min.assignment.interval.ms",
        Kind.INT,
        0,
        "Shortest assignment interval a consumer group may be given.",
        minimum=0,
    ),
    Setting(
        "group.consumer.max.assignment.interval.ms",
        Kind.INT,
        15_000,
        "Longest assignment interval a consumer group may be given.",
        minimum=0,
    ),
    Setting("group.consumer.max.size", Kind.INT, INT_MAX, "Most members of a consumer group.", minimum=1),
    Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "Assignors that consumer groups may ask for; the first is for those that ask for none.",
        choices=("uniform", "range"),
    ),
    Setting(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Which way a group may change its protocol while it has members.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
)

BROKER_SETTINGS: Mapping[str, Setting] = {
    name: replace(setting, is_dynamic=name in _DYNAMIC) for name, setting in _ALL.items()
}

IN_OTHER_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
}
"""By setting: which others stand for it as long as it is not set, the first that is, and their unit in ms."""

SAID_ELSEWHERE: Mapping[str, str] = {
    "advertised.listeners": "the option --advertise",
    "broker.id": "the setting node.id",
    "listeners": "the option --listen",
    "log.dir": "the option --data-dir",
    "log.dirs": "the option --data-dir",
}
"""Settings of Kafka that are given in another way here."""
