"""The measures: each is a name, a unit, and one run with one peer at one durability."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import count

from bench.assigning import assign, group_of, kafka_assign, one_joins
from bench.crowds import CROWD_MEASURES, CrowdMeasure
from bench.data import PARTITIONS, run_data
from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.java import JAVA_MEASURES, JavaMeasure
from bench.kafka.broker import KafkaUnavailable
from bench.load import IN_TURN, OFFSET_COMMIT, OFFSET_FETCH, Load, LoadFailed, LoadResult, run_load
from bench.pauses import PAUSE_MEASURES, PauseMeasure
from bench.peers import LOAD_TOPIC, Durability, Peer, create_topic, wait_until_at_rest
from bench.share_groups import SHARE_MEASURES, ShareGroupMeasure
from bench.transactions import TRANSACTION_MEASURES, TransactionsMeasure

BOTH = (Durability.PAGE_CACHE, Durability.DURABLE)
READ = (Durability.PAGE_CACHE,)
LOAD_TOPIC_PARTITIONS = 100
MANY_GROUPS, ROUNDS = 20_000, 3
ASSIGNED_MEMBERS, ASSIGNED_TOPICS, ASSIGNED_PARTITIONS = 1_000, 100, 10_000


@dataclass(frozen=True, slots=True)
class OffsetMeasure(Measured):
    """Offset requests (or offsets, if a request carries many) that a peer answers per second."""

    name: str
    title: str
    load: Load
    durabilities: tuple[Durability, ...]

    @property
    def unit(self) -> str:
        """Return the unit: requests for single offsets, offsets for wide requests."""
        return "requests/s" if self.load.partitions == 1 else "offsets/s"

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return durability in peer.bootstraps and self.load.partitions <= peer.widest

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once. Raises MeasureFailed if an answer is an error or missing."""
        bootstrap = peer.bootstrap(durability)
        load = self.load
        try:
            if load.api == OFFSET_FETCH:
                load = replace(load, api_version=peer.offset_fetch_version)
                # Every group commits first, so that there are offsets to fetch.
                committed = replace(self.load, api=OFFSET_COMMIT, rounds=1)
                self._check(run_load(bootstrap, committed, seconds=0.3, warm_up_seconds=0), counts=False)
                wait_until_at_rest([peer])
            if load.rounds:
                run_load(bootstrap, load, seconds=0.1, warm_up_seconds=0)
                load = replace(load, rounds=0)
            before_s, began = peer.processor_s(durability), time.monotonic()
            result = run_load(bootstrap, load, seconds=effort.seconds, warm_up_seconds=effort.warm_up_seconds)
        except LoadFailed as error:
            raise MeasureFailed(str(error)) from error
        # The share of a processor, in warm-up and measurement together.
        share = (peer.processor_s(durability) - before_s) / (time.monotonic() - began)
        self._check(result, counts=True)
        value = result.requests_per_s if load.partitions == 1 else result.offsets_per_s
        return Figure(value, share / value * 1e6, result.p50_ms, result.p99_ms)

    def _check(self, result: LoadResult, *, counts: bool) -> None:
        if result.errors:
            raise MeasureFailed(f"partitions were refused, by error code: {result.errors}")
        if counts and result.missing:
            raise MeasureFailed(f"{result.missing} partitions had no offset")


@dataclass(frozen=True, slots=True)
class DataMeasure(Measured):
    """100-byte records per second through confluent-kafka into a fresh topic, or out of it."""

    name: str
    title: str
    what: str
    durabilities: tuple[Durability, ...]
    unit: str = "records/s"

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.serves_data and durability in peer.bootstraps

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        bootstrap = peer.bootstraps[durability]
        topic = f"bench-{self.name}-{next(_TOPICS)}"
        flushes = peer.flushes is not None and durability is Durability.DURABLE
        create_topic(bootstrap, topic, PARTITIONS, {"flush.messages": 1} if flushes else None)
        if self.what == "consume":
            run_data("produce", bootstrap, topic, effort.records)
        before_s = peer.processor_s(durability)
        records_per_s = run_data(self.what, bootstrap, topic, effort.records)
        used_s = peer.processor_s(durability) - before_s
        return Figure(records_per_s, used_s / effort.records * 1e6)


@dataclass(frozen=True, slots=True)
class AssignMeasure(Measured):
    """Assignments of a large group per second, in one thread and without a broker."""

    name: str
    title: str
    assignor: str
    joins: bool
    """True: one member joins an assigned group. False: the group has no assignment yet."""
    durabilities: tuple[Durability, ...] = READ
    unit: str = "assignments/s"

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.name in ("headgate", "kafka")

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, half of the time as warm-up. Raises MeasureFailed."""
        spec = group_of(ASSIGNED_MEMBERS, ASSIGNED_TOPICS, ASSIGNED_PARTITIONS)
        if self.joins:
            spec = one_joins(spec, self.assignor)
        try:
            if peer.name == "kafka":
                # A JVM needs seconds to compile all of the code.
                (decision,) = kafka_assign([spec], self.assignor, 2 * effort.seconds)
            else:
                decision = assign(spec, self.assignor, effort.seconds)
        except KafkaUnavailable as error:
            raise MeasureFailed(str(error)) from error
        return Figure(1 / decision.seconds, decision.seconds * 1e6)


_TOPICS = count()


def _commit(name: str, title: str, **load: int) -> OffsetMeasure:
    return OffsetMeasure(name, title, Load(api=OFFSET_COMMIT, topic=LOAD_TOPIC, **load), BOTH)


def _fetch(name: str, title: str, **load: int) -> OffsetMeasure:
    return OffsetMeasure(name, title, Load(api=OFFSET_FETCH, topic=LOAD_TOPIC, **load), READ)


def _of_many_groups() -> tuple[OffsetMeasure, ...]:
    """Return measures with 20,000 groups in turn: the load of a coordinator with many consumers."""
    commits = Load(api=OFFSET_COMMIT, topic=LOAD_TOPIC, groups=MANY_GROUPS, rounds=ROUNDS)
    fetches, turns = replace(commits, api=OFFSET_FETCH), replace(commits, api=IN_TURN)
    return (
        OffsetMeasure("commit-many", "commits of 20,000 groups, window 1", commits, BOTH),
        OffsetMeasure(
            "commit-many-pipelined", "commits of 20,000 groups, window 16", replace(commits, window=16), BOTH
        ),
        OffsetMeasure("fetch-many", "offset fetches of 20,000 groups, window 1", fetches, READ),
        OffsetMeasure(
            "fetch-many-pipelined",
            "offset fetches of 20,000 groups, window 16",
            replace(fetches, window=16),
            READ,
        ),
        OffsetMeasure("in-turn-many", "commits and fetches of 20,000 groups by turns", turns, BOTH),
    )


Measure = (
    OffsetMeasure
    | DataMeasure
    | JavaMeasure
    | TransactionsMeasure
    | ShareGroupMeasure
    | AssignMeasure
    | CrowdMeasure
    | PauseMeasure
)

MEASURES: tuple[Measure, ...] = (
    _commit("commit", "commits, 16 connections, window 1"),
    _commit("commit-pipelined", "commits, 16 connections, window 16", window=16),
    _commit("commit-64", "commits, 64 connections, window 4", connections=64, window=4),
    _commit("commit-wide", "commits of 100 partitions, 16 connections", partitions=LOAD_TOPIC_PARTITIONS),
    _fetch("fetch", "offset fetches, 16 connections, window 1"),
    _fetch("fetch-pipelined", "offset fetches, 16 connections, window 16", window=16),
    _fetch("fetch-wide", "fetches of 100 partitions, 16 connections", partitions=LOAD_TOPIC_PARTITIONS),
    OffsetMeasure(
        "in-turn-wide",
        "commits and fetches of 100 partitions by turns, 16 connections",
        Load(api=IN_TURN, topic=LOAD_TOPIC, partitions=LOAD_TOPIC_PARTITIONS),
        READ,
    ),
    *_of_many_groups(),
    DataMeasure("produce", "produce 100-byte records, acks=all", "produce", BOTH),
    DataMeasure("consume", "consume 100-byte records", "consume", READ),
    *JAVA_MEASURES,
    *TRANSACTION_MEASURES,
    *SHARE_MEASURES,
    AssignMeasure("assign-uniform", "uniform: 1,000 new members, 10,000 partitions", "uniform", joins=False),
    AssignMeasure("assign-uniform-join", "uniform: one member more among 1,000", "uniform", joins=True),
    AssignMeasure("assign-range", "range: 1,000 new members, 10,000 partitions", "range", joins=False),
    *CROWD_MEASURES,
    *PAUSE_MEASURES,
)
