"""Measures of share groups (KIP-932): records a second, and how soon a released record is delivered again.

All groups of a broker read the same topic from its beginning, each of them a new group. The generator is
`bench/load/queue.c`, which spends little on a record, so that it measures the broker; the tool is Java's
`ShareConsumerPerformance`, which measures mostly itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, ClassVar

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.data import PARTITIONS, produce
from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.java import kafka_tool
from bench.load import LoadFailed, Queue, QueueResult, run_queue
from bench.peers import Durability, Peer, create_topic, wait_until_at_rest

BOTH = (Durability.PAGE_CACHE, Durability.DURABLE)
READ = (Durability.PAGE_CACHE,)
STATE_TOPIC = "__share_group_state"
TOPIC = "shared"
WARM_UP_PART = 10
"""The warm-up takes one record for so many that are counted."""
EXTRA_PART = 20
"""The topic has one record more for so many that are taken, so that no fetch waits for the last ones."""
JVM_WARM_UP_ROUNDS = 3
BATCH_RECORDS = 500
"""Records of each batch of the topic, as many as a fetch asks for: both brokers have the same batches."""
HAND_OVER_RECORDS = {"headgate": 1_000, "kafka": 20}
"""Kafka does not wake a waiting fetch for a released record: it answers when the fetch has waited 500 ms.
More records than these would not all be handed over within the 30 s of their locks.
"""
_SETTING_TIMEOUT_S = 10
_REPORT_MS = 100
_REPORT = re.compile(
    r"^(\S+ \S+), (\S+ \S+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+ for share consumer (\d+)", re.M
)
_TOTAL = re.compile(r"^(\S+ \S+), (\S+ \S+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+$", re.M)
_TIME = "%Y-%m-%d %H:%M:%S:%f"
_NUMBERS = count()


@dataclass
class _Prepared:
    """What was done for the measures of one broker."""

    records: int = 0
    """Number of records of the topic."""
    warmed: set[Durability] = field(default_factory=set)


_PREPARED: dict[str, _Prepared] = {}
"""By address."""


class ShareMeasured(Measured):
    """The common part of measures of share groups."""

    __slots__ = ()

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.serves_share_groups and durability in peer.bootstraps


@dataclass(frozen=True, slots=True)
class ShareMeasure(ShareMeasured):
    """Records of 100 bytes per second that members of one share group take and accept; p99 of a fetch."""

    name: str
    title: str
    way: str
    members: int
    durabilities: tuple[Durability, ...] = BOTH
    unit: str = "records/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new group. Raises MeasureFailed."""
        bootstrap = prepared(peer, durability, effort)
        queue = Queue(
            way=self.way,
            members=self.members,
            partitions=PARTITIONS,
            records=effort.records,
            warm_up_records=effort.records // WARM_UP_PART,
        )
        before_s = peer.processor_s(durability)
        result = _taken(bootstrap, queue)
        used_s = peer.processor_s(durability) - before_s
        processor_us = used_s / (queue.records + queue.warm_up_records) * 1e6
        return Figure(result.records_per_s, processor_us, result.tally.p50_ms, result.tally.p99_ms)


@dataclass(frozen=True, slots=True)
class HandOverMeasure(ShareMeasured):
    """Latency from the release of a record to its delivery to another member that waits for it: p99."""

    name: str = "share-hand-over"
    title: str = "p99 from a release to the next delivery"
    durabilities: tuple[Durability, ...] = BOTH
    unit: str = "ms"
    is_cost: ClassVar[bool] = True
    is_taken_once: ClassVar[bool] = True

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        bootstrap = prepared(peer, durability, effort)
        records = HAND_OVER_RECORDS[peer.name]
        topic = f"{TOPIC}-hand-over-{next(_NUMBERS)}"
        create_topic(bootstrap, topic, 1)
        produce(bootstrap, topic, records, partitions=1)
        tally = _taken(
            bootstrap, Queue(way="hand-over", members=2, partitions=1, records=records), topic
        ).tally
        return Figure(tally.p99_ms, None, tally.p50_ms, tally.p99_ms)


@dataclass(frozen=True, slots=True)
class JavaShareMeasure(ShareMeasured):
    """Records of 100 bytes per second that Java's share consumers take, from the first record on."""

    name: str
    title: str
    members: int
    durabilities: tuple[Durability, ...] = READ
    unit: str = "records/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new group. Raises MeasureFailed."""
        bootstrap = prepared(peer, durability, effort)
        options = {
            "--bootstrap-server": bootstrap,
            "--topic": TOPIC,
            "--group": new_group(bootstrap),
            "--num-records": str(effort.records),
            "--threads": str(self.members),
            "--reporting-interval": str(_REPORT_MS),
            "--timeout": "60000",
        }
        before_s = peer.processor_s(durability)
        said = kafka_tool("ShareConsumerPerformance", options, "--hide-header", "--show-detailed-stats")
        used_s = peer.processor_s(durability) - before_s
        return Figure(rate_in(said), used_s / effort.records * 1e6)


def rate_in(said: str) -> float:
    """Return the records per second that ShareConsumerPerformance reports, without the time to join.

    Its totals include that time. So the rate is from the first report of the member that is first, which it
    prints with its first record, to the end of all. Raises MeasureFailed.
    """
    reports = [(datetime.strptime(end, _TIME), int(member)) for _, end, _, member in _REPORT.findall(said)]
    total = _TOTAL.search(said)
    if not reports or total is None:
        raise MeasureFailed(f"ShareConsumerPerformance tells no rate: {said[-500:]}")
    seconds = (datetime.strptime(total[2], _TIME) - min(reports)[0]).total_seconds()
    if seconds <= 0:
        raise MeasureFailed("ShareConsumerPerformance ran for too short a time")
    return int(total[3]) / seconds


def new_group(bootstrap: str) -> str:
    """Return the name of a new share group that begins with the first record. Raises MeasureFailed."""
    name = f"share-{next(_NUMBERS):04}"
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=[entry])
    admin: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(timeout=_SETTING_TIMEOUT_S)
    return name


def prepared(peer: Peer, durability: Durability, effort: Effort) -> str:
    """Return the broker's address, when it has the records and has served share groups before."""
    bootstrap = peer.bootstraps[durability]
    done = _PREPARED.setdefault(bootstrap, _Prepared())
    wanted = int(effort.records * (1 + 1 / WARM_UP_PART) * (1 + 1 / EXTRA_PART))
    if done.records < wanted:
        if not done.records:
            create_topic(bootstrap, TOPIC, PARTITIONS)
        produce(bootstrap, TOPIC, wanted - done.records, batch_records=BATCH_RECORDS)
        done.records = wanted
    if durability not in done.warmed:
        _warm_up(peer, bootstrap, effort)
        done.warmed.add(durability)
    if STATE_TOPIC not in peer.state_topics:
        peer.state_topics.append(STATE_TOPIC)
        peer.flushes = None if peer.flushes is None else _other(durability)
    return peer.bootstrap(durability)


def _other(durability: Durability) -> Durability:
    """Return another durability than the one wanted, so that the new topic is switched to it too."""
    return Durability.DURABLE if durability is Durability.PAGE_CACHE else Durability.PAGE_CACHE


def _warm_up(peer: Peer, bootstrap: str, effort: Effort) -> None:
    """Take records in both ways: a JVM compiles the code that it runs often, and Kafka makes its topic."""
    for _ in range(JVM_WARM_UP_ROUNDS if peer.name == "kafka" else 1):
        for way in ("implicit", "explicit"):
            _taken(bootstrap, Queue(way=way, members=4, partitions=PARTITIONS, records=effort.records // 2))
    wait_until_at_rest([peer])


def _taken(bootstrap: str, queue: Queue, topic: str = TOPIC) -> QueueResult:
    try:
        return run_queue(bootstrap, topic, new_group(bootstrap), queue)
    except LoadFailed as error:
        raise MeasureFailed(str(error)) from error


ShareGroupMeasure = ShareMeasure | HandOverMeasure | JavaShareMeasure

SHARE_MEASURES: tuple[ShareGroupMeasure, ...] = (
    ShareMeasure("share-1", "share group, 1 member, implicit", "implicit", 1),
    ShareMeasure("share-4", "share group, 4 members, implicit", "implicit", 4),
    ShareMeasure("share-1-explicit", "share group, 1 member, explicit", "explicit", 1),
    ShareMeasure("share-4-explicit", "share group, 4 members, explicit", "explicit", 4),
    HandOverMeasure(),
    JavaShareMeasure("java-share-1", "ShareConsumerPerformance, 1 member", 1),
    JavaShareMeasure("java-share-4", "ShareConsumerPerformance, 4 members", 4),
)
