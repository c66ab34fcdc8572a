"""Measures with many members of consumer groups (KIP-848): heartbeats, time to settle, memory.

The members are real ones (`bench/load/members.c`): they acknowledge their assignments. A group is settled
when each member has its even share of the partitions and has acknowledged it, and the broker reports the
group as stable.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import ClassVar

from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.kafka.broker import KafkaUnavailable, kafka_node
from bench.load import ClassicCrowd, Crowd, LoadFailed, Visit, run_members, run_stay
from bench.peers import LOAD_TOPIC, Durability, Peer, PeerUnavailable, create_topic
from headgate import BrokerFailed, run

READ = (Durability.PAGE_CACHE,)
BOTH = (Durability.PAGE_CACHE, Durability.DURABLE)
MANY_GROUPS = Crowd(groups=100, members=10, topic=LOAD_TOPIC, partitions=100)
CROWD = replace(MANY_GROUPS, groups=2_000, window=4)
CLASSIC_CROWD = ClassicCrowd(members=20_000, window=4)
WIDE_GROUP = Crowd(groups=1, members=1_000, topic="wide", topics=100, partitions=10_000)
JCMD_TIMEOUT_S = 60.0
_HEAP_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
_PREFIXES = (f"crowd-{number:03}" for number in count())


class GroupMeasured(Measured):
    """The common part of group measures that use a running peer."""

    __slots__ = ()

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.balances_groups and durability in peer.bootstraps


@dataclass(frozen=True, slots=True)
class HeartbeatMeasure(GroupMeasured):
    """Heartbeats of settled members that a peer answers per second."""

    name: str
    title: str
    crowd: Crowd
    durabilities: tuple[Durability, ...] = (Durability.PAGE_CACHE,)
    unit: str = "requests/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, with new groups. Raises MeasureFailed if a heartbeat is refused or a group rebalances."""
        visit = Visit(
            prefix=next(_PREFIXES),
            seconds=effort.seconds,
            warm_up=effort.warm_up_seconds,
            broker=peer.process_ids[durability],
        )
        try:
            result = run_members(peer.bootstrap(durability), self.crowd, visit)
        except LoadFailed as error:
            raise MeasureFailed(str(error)) from error
        steady = result.steady
        if steady.errors:
            raise MeasureFailed(f"heartbeats were refused, by error code: {steady.errors}")
        processor_us = result.steady_processor_s / steady.requests * 1e6
        return Figure(steady.requests_per_s, processor_us, steady.p50_ms, steady.p99_ms)


@dataclass(frozen=True, slots=True)
class ClassicHeartbeatMeasure(GroupMeasured):
    """Heartbeats of members of classic groups that a peer answers per second, one group per connection."""

    name: str
    title: str
    crowd: ClassicCrowd
    durabilities: tuple[Durability, ...] = READ
    unit: str = "requests/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, with new groups. Raises MeasureFailed if a heartbeat is refused."""
        warm_up_s = effort.warm_up_seconds
        before_s, began = peer.processor_s(durability), time.monotonic()
        try:
            result = run_stay(
                peer.bootstrap(durability),
                self.crowd,
                prefix=next(_PREFIXES),
                seconds=effort.seconds,
                warm_up_seconds=warm_up_s,
            )
        except LoadFailed as error:
            raise MeasureFailed(str(error)) from error
        share = (peer.processor_s(durability) - before_s) / (time.monotonic() - began)
        steady = result.steady
        if steady.errors:
            raise MeasureFailed(f"heartbeats were refused, by error code: {steady.errors}")
        return Figure(
            steady.requests_per_s, share / steady.requests_per_s * 1e6, steady.p50_ms, steady.p99_ms
        )


@dataclass(frozen=True, slots=True)
class StormMeasure(GroupMeasured):
    """Time until all members of many groups that start at once have their assignments.

    Members of consumer groups have acknowledged theirs, too. The processor time is per member.
    """

    name: str
    title: str
    crowd: ClassicCrowd | Crowd
    durabilities: tuple[Durability, ...] = BOTH
    unit: str = "s"
    is_cost: ClassVar[bool] = True
    is_burden: ClassVar[bool] = True

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, with new groups. Raises MeasureFailed."""
        bootstrap, crowd = peer.bootstrap(durability), self.crowd
        before_s = peer.processor_s(durability)
        try:
            if isinstance(crowd, ClassicCrowd):
                prefix = next(_PREFIXES)
                classic = run_stay(bootstrap, crowd, prefix=prefix, seconds=0.01, warm_up_seconds=0)
                used_s = peer.processor_s(durability) - before_s
                return Figure(classic.join_s, used_s / crowd.members * 1e6)
            visit = Visit(prefix=next(_PREFIXES), broker=peer.process_ids[durability])
            result = run_members(bootstrap, crowd, visit)
        except LoadFailed as error:
            raise MeasureFailed(str(error)) from error
        members, settling = crowd.groups * crowd.members, result.settling
        processor_us = result.settling_processor_s / members * 1e6
        return Figure(settling.seconds, processor_us, settling.p50_ms, settling.p99_ms)


@dataclass(frozen=True, slots=True)
class SettleMeasure(GroupMeasured):
    """Time from the last join of one large group until all members have their target assignments.

    Latencies are those of the heartbeats from the first join until then; the processor time is per member.
    """

    name: str
    title: str
    crowd: Crowd
    durabilities: tuple[Durability, ...] = BOTH
    unit: str = "s"
    is_cost: ClassVar[bool] = True
    is_burden: ClassVar[bool] = True

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once. Raises MeasureFailed if the group does not settle."""
        bootstrap = peer.bootstrap(durability)
        visit = Visit(prefix=next(_PREFIXES), broker=peer.process_ids[durability])
        try:
            if (bootstrap, self.crowd.topic) not in _PREPARED:
                _prepare(bootstrap, self.crowd)
            result = run_members(bootstrap, self.crowd, visit)
        except LoadFailed as error:
            raise MeasureFailed(str(error)) from error
        processor_us = result.settling_processor_s / self.crowd.members * 1e6
        return Figure(result.settle_s, processor_us, result.settling.p50_ms, result.settling.p99_ms)


@dataclass(frozen=True, slots=True)
class MemoryMeasure(Measured):
    """Memory growth of a separate broker for each member of settled groups.

    For Headgate it is the memory of the process, for Kafka the live objects in its heap.
    """

    name: str
    title: str
    crowd: Crowd
    durabilities: tuple[Durability, ...] = READ
    unit: str = "bytes/member"
    is_cost: ClassVar[bool] = True
    is_taken_once: ClassVar[bool] = True

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.name in _FRESH

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once. Raises MeasureFailed."""
        try:
            with _FRESH[peer.name]() as (bootstrap, used_bytes):
                _prepare(bootstrap, self.crowd)
                before = used_bytes()
                run_members(bootstrap, self.crowd, Visit(prefix="crowd", stay=1))
                grown = used_bytes() - before
        except (LoadFailed, KafkaUnavailable, BrokerFailed, PeerUnavailable) as error:
            raise MeasureFailed(str(error)) from error
        return Figure(grown / (self.crowd.groups * self.crowd.members))


CrowdMeasure = HeartbeatMeasure | ClassicHeartbeatMeasure | SettleMeasure | StormMeasure | MemoryMeasure

_PREPARED: set[tuple[str, str]] = set()
"""Brokers whose topics exist."""


def _prepare(bootstrap: str, crowd: Crowd) -> None:
    """Create the topics and wait until groups are assigned all of their partitions.

    Kafka needs half a minute to create the directories of 10,000 partitions before its coordinator knows
    them.
    """
    single = crowd.topics == 1
    names = [crowd.topic] if single else [f"{crowd.topic}-{number:03}" for number in range(crowd.topics)]
    for name in names:
        create_topic(bootstrap, name, crowd.partitions // crowd.topics)
    few = Crowd(groups=1, members=16, topic=crowd.topic, topics=crowd.topics, partitions=crowd.partitions)
    run_members(bootstrap, few, Visit(prefix=next(_PREFIXES)))
    _PREPARED.add((bootstrap, crowd.topic))


def warm_up(bootstrap: str, seconds: float) -> None:
    """Send heartbeats that are not counted. Raises LoadFailed."""
    run_members(bootstrap, MANY_GROUPS, Visit(prefix=next(_PREFIXES), seconds=seconds))
    run_stay(bootstrap, ClassicCrowd(), prefix=next(_PREFIXES), seconds=seconds, warm_up_seconds=0)


UsedBytes = Callable[[], int]


@contextmanager
def _fresh_headgate() -> Iterator[tuple[str, UsedBytes]]:
    with run({"headgate.durability": "page-cache"}, log_level="warning") as broker:
        status = Path(f"/proc/{broker.pid}/status")

        def used_bytes() -> int:
            line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS:"))
            return int(line.split()[1]) * 1024

        yield broker.bootstrap_servers, used_bytes


@contextmanager
def _fresh_kafka() -> Iterator[tuple[str, UsedBytes]]:
    with kafka_node() as node:
        command = ["jcmd", str(node.process_id), "GC.class_histogram"]

        def used_bytes() -> int:
            # The command runs a garbage collection first.
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=JCMD_TIMEOUT_S, check=False
            )
            total = _HEAP_TOTAL.search(done.stdout)
            if total is None:
                raise MeasureFailed(f"jcmd tells no total: {(done.stdout + done.stderr)[-500:]}")
            return int(total[1])

        yield node.bootstrap, used_bytes


_FRESH = {"headgate": _fresh_headgate, "kafka": _fresh_kafka}

CROWD_MEASURES: tuple[CrowdMeasure, ...] = (
    HeartbeatMeasure("heartbeat", "heartbeats of 1,000 members, 16 connections, window 1", MANY_GROUPS),
    HeartbeatMeasure(
        "heartbeat-pipelined",
        "heartbeats of 1,000 members, 16 connections, window 16",
        replace(MANY_GROUPS, window=16),
    ),
    ClassicHeartbeatMeasure(
        "classic-heartbeat",
        "classic heartbeats, 16 connections, window 1",
        ClassicCrowd(),
    ),
    HeartbeatMeasure("heartbeat-many", "heartbeats of 20,000 members of 2,000 groups", CROWD),
    ClassicHeartbeatMeasure(
        "classic-heartbeat-many", "heartbeats of 20,000 members of classic groups", CLASSIC_CROWD
    ),
    StormMeasure("start-many", "20,000 members of 2,000 groups start at once", CROWD),
    StormMeasure("classic-start-many", "20,000 members of classic groups start at once", CLASSIC_CROWD),
    SettleMeasure("settle", "1,000 members, 10,000 partitions: last join to settled", WIDE_GROUP),
    MemoryMeasure(
        "memory-groups",
        "memory: 10,000 members in groups of 10",
        replace(MANY_GROUPS, groups=1_000),
    ),
    MemoryMeasure("memory-wide", "memory: 1,000 members, 10,000 partitions", WIDE_GROUP),
)
