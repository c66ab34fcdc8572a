"""Every setting there is: Kafka's names and defaults where Kafka has it, `headgate.` names where not.

Two tables. `BROKER_SETTINGS` are given at start (`--set`, `--config`); `TOPIC_SETTINGS` belong to a topic and
fall back to a broker setting, then to their default. What is not in a table is refused by name, with the
nearest name that exists; what is in a table and means nothing on a single node says so in its text.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SYNC = "sync"
PAGE_CACHE = "page-cache"


class Kind(Enum):
    """The type of a setting's value; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidSetting(ValueError):
    """A setting that does not exist, or a value it cannot take; the message says which and what would do."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, what it may hold, and what it means."""

    name: str
    kind: Kind
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    broker_name: str | None = None
    """For a topic's setting: the broker setting that holds its default."""

    def parse(self, text: str) -> Any:
        """The value that `text` spells; raises InvalidSetting."""
        value = self._read(text.strip())
        self._check_range(value, text)
        self._check_choices(value, text)
        return value

    def format(self, value: Any) -> str:
        """The text that `parse` reads back as `value`."""
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value)

    def _read(self, text: str) -> Any:
        try:
            match self.kind:
                case Kind.BOOLEAN:
                    return {"true": True, "false": False}[text.lower()]
                case Kind.INT | Kind.LONG:
                    return int(text)
                case Kind.DOUBLE:
                    return float(text)
                case Kind.LIST:
                    return tuple(part.strip() for part in text.split(",") if part.strip())
                case Kind.STRING:
                    return text
        except (ValueError, KeyError):
            wanted = {Kind.BOOLEAN: "true or false", Kind.DOUBLE: "a number"}.get(self.kind, "a whole number")
            raise InvalidSetting(f"{self.name}={text}: {wanted} is expected") from None

    def _check_range(self, value: Any, text: str) -> None:
        if self.kind in (Kind.INT, Kind.LONG, Kind.DOUBLE):
            low = self.minimum if self.minimum is not None else -LONG_MAX - 1
            widest = INT_MAX if self.kind is Kind.INT else LONG_MAX
            high = self.maximum if self.maximum is not None else widest
            if not low <= value <= high:
                raise InvalidSetting(f"{self.name}={text}: a value from {low} to {high} is expected")

    def _check_choices(self, value: Any, text: str) -> None:
        given = value if self.kind is Kind.LIST else (value,)
        if self.choices and not (given and all(one in self.choices for one in given)):
            raise InvalidSetting(f"{self.name}={text}: one of {', '.join(self.choices)} is expected")


def _table(*settings: Setting) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


_DURABILITY = (
    "When a write with acks=all, or to an internal topic, is answered: 'sync' after the disk has it, "
    "'page-cache' when the operating system has it, as Kafka does."
)

_CLEANUP_POLICY = (
    "What becomes of old records: 'delete' removes them by age or size; 'compact' wants a key in every "
    "record and keeps the last one of each."
)
_DIRTY_RATIO = "How much of a log's closed segments must be new for it to be compacted."
_LEAST_LAG = "How long a record is safe from compaction."
_MOST_LAG = "When a log is compacted, and its segment closed, though little of it is new."

BROKER_SETTINGS: Mapping[str, Setting] = _table(
    Setting("node.id", Kind.INT, 1, "This node's id in Metadata answers.", minimum=0),
    Setting("headgate.durability", Kind.STRING, SYNC, _DURABILITY, choices=(SYNC, PAGE_CACHE)),
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
        "Batches are kept as producers sent them.",
        choices=("producer",),
    ),
    Setting(
        "message.max.bytes", Kind.INT, 1_048_588, "Largest record batch taken from a producer.", minimum=0
    ),
    Setting(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        _CLEANUP_POLICY,
        choices=("delete", "compact"),
    ),
    Setting("log.retention.ms", Kind.LONG, 7 * DAY_MS, "How long records are kept; -1 for ever.", minimum=-1),
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
        "log.roll.ms", Kind.LONG, 7 * DAY_MS, "When a segment is closed though it is not full.", minimum=1
    ),
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
    Setting("log.cleaner.min.cleanable.ratio", Kind.DOUBLE, 0.5, _DIRTY_RATIO, minimum=0, maximum=1),
    Setting("log.cleaner.min.compaction.lag.ms", Kind.LONG, 0, _LEAST_LAG, minimum=0),
    Setting("log.cleaner.max.compaction.lag.ms", Kind.LONG, LONG_MAX, _MOST_LAG, minimum=1),
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

TOPIC_SETTINGS: Mapping[str, Setting] = _table(
    Setting(
        "headgate.durability",
        Kind.STRING,
        SYNC,
        _DURABILITY,
        choices=(SYNC, PAGE_CACHE),
        broker_name="headgate.durability",
    ),
    Setting(
        "cleanup.policy",
        Kind.LIST,
        ("delete",),
        _CLEANUP_POLICY,
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
        _MOST_LAG,
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
        _DIRTY_RATIO,
        minimum=0,
        maximum=1,
        broker_name="log.cleaner.min.cleanable.ratio",
    ),
    Setting(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        _LEAST_LAG,
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


GROUP_SETTINGS: Mapping[str, Setting] = _table(
    Setting(
        "consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member may be silent.",
        minimum=1,
        broker_name="group.consumer.session.timeout.ms",
    ),
    Setting(
        "consumer.heartbeat.interval.ms",
        Kind.INT,
        5_000,
        "How often members are to be heard of.",
        minimum=1,
        broker_name="group.consumer.heartbeat.interval.ms",
    ),
    Setting(
        "consumer.assignment.interval.ms",
        Kind.INT,
        1_000,
        "At least so long lies between two assignments.",
        minimum=0,
        broker_name="group.consumer.assignment.interval.ms",
    ),
)
"""Settings of one consumer group. Classic groups have none."""


def find(table: Mapping[str, Setting], name: str) -> Setting:
    """The setting called `name`; raises InvalidSetting with the nearest name there is."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidSetting(f"there is no setting called {name}{hint}")


class Settings(Mapping[str, Any]):
    """The broker's settings in force: what was given at start over the defaults."""

    __slots__ = ("_given", "_values")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """`given` maps names to texts; raises InvalidSetting for the first that is unknown or unfit."""
        self._given = {name: find(BROKER_SETTINGS, name).parse(text) for name, text in (given or {}).items()}
        self._values = {name: setting.default for name, setting in BROKER_SETTINGS.items()} | self._given

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_given(self, name: str) -> bool:
        """Whether the value was set at start, not defaulted."""
        return name in self._given

    def of_topic(self, overrides: Mapping[str, str], name: str) -> Any:
        """The value of a topic's setting: its own, else the broker's, else the default."""
        setting = TOPIC_SETTINGS[name]
        if name in overrides:
            return setting.parse(overrides[name])
        return self._values[setting.broker_name] if setting.broker_name else setting.default
