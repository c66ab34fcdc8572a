"""The audit: what every group of a cluster does, and what is remarkable about it.

Each partition of the coordinator's log is read on its own, here or by a Spark task. Nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from headgate.client.cluster import Cluster
from headgate.client.configs import broker_setting, own_settings_of_groups
from headgate.client.ends import known_ends
from headgate.client.errors import ClientError
from headgate.core.commands import RetentionConfigured
from headgate.core.retentions import OWN_RETENTION
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis
from headgate.domain.settings import Settings
from headgate.fleet.facts import Ends, GroupFacts, facts_of
from headgate.fleet.replay import replay
from headgate.fleet.rules import Finding, Rules, findings
from headgate.log.batch_scan import CorruptLog
from headgate.spark.directory import CompactedWhileRead, topics_in
from headgate.spark.landing.workers import context_of
from headgate.spark.options import Options, parse, source_option
from headgate.spark.plan import MissingData
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.catalogue_copy import read_catalogue
from headgate.topics.catalogue_opening import CATALOGUE_DIRECTORY
from headgate.wire.extensions.describe_offset_expiry import DescribeOffsetExpiryRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
RETENTION = "offsets.retention.minutes"
TIMEOUT = "10s"
"""Timeout of each call to a broker, with its retries: somebody waits for an audit."""


class AuditFailed(RuntimeError):
    """A partition of the log could not be read."""


@dataclass(frozen=True, slots=True)
class AuditTask:
    """One partition of the coordinator's log, and what is needed to judge its groups."""

    options: Options
    partition: int
    retention_minutes: int
    own_retentions_ms: Mapping[GroupId, int]
    """The retentions of groups that have one of their own."""
    ends: Ends | None
    now: Millis
    is_kafka: bool

    def result(self) -> PartitionFacts:
        """Look at the partition; a failure is a value."""
        return look(self)


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The groups of one partition of the log; `failure` says why it could not be read."""

    partition: int
    groups: tuple[GroupFacts, ...] = ()
    unreadable: int = 0
    """Records that could not be decoded."""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """One group and what the rules find about it."""

    facts: GroupFacts
    findings: tuple[Finding, ...]


Run = Callable[[Sequence[AuditTask]], Iterable[PartitionFacts]]
"""Runs tasks and yields the result of each, in any order."""


def run_here(tasks: Sequence[AuditTask]) -> Iterator[PartitionFacts]:
    """Run the tasks in this process, one after another."""
    return map(look, tasks)


def run_on_spark(spark: SparkSession) -> Run:
    """Run the tasks in the workers of a session, one Spark task each.

    Raises OptionError for a session of Spark Connect.
    """
    context = context_of(spark)
    return lambda tasks: context.parallelize(list(tasks), len(tasks)).map(look).toLocalIterator()


def look(task: AuditTask) -> PartitionFacts:
    """Return the facts of one partition's groups; a failure as a value, because Spark would wrap it."""
    settings = Settings({RETENTION: str(task.retention_minutes)})
    try:
        replayed = replay(task.options, task.partition, settings, task.now)
    except (CompactedWhileRead, CorruptLog, MissingData, ClientError, OSError) as problem:
        return PartitionFacts(task.partition, failure=str(problem))
    for group_id, retention_ms in task.own_retentions_ms.items():
        replayed.shard.handle(RetentionConfigured(group_id, retention_ms), task.now)
    groups = tuple(facts_of(replayed.shard, task.ends, replayed.backwards, is_kafka=task.is_kafka))
    return PartitionFacts(task.partition, groups, replayed.unreadable)


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster or a data directory, as far as it is known before the log is read."""

    options: Options
    partitions: tuple[int, ...]
    """Partitions of the coordinator's log."""
    ends: Ends | None
    """None for a data directory: lags are unknown."""
    retention_minutes: int
    """The cluster's setting; its default for a data directory."""
    own_retentions_ms: Mapping[GroupId, int]
    """The retentions of groups that have one of their own."""
    is_kafka: bool
    """Whether it is one of Apache Kafka, whose coordinator removes offsets by other rules."""


def look_at(source: str, further: Mapping[str, str] = NO_OPTIONS) -> Source:
    """Return what an audit needs to know first. `further` options of the source are for TLS and SASL.

    Raises ClientError, MissingData, OptionError.
    """
    name, value = source_option(source)
    options = parse({**further, name: value, "subscribe": GROUP_OFFSETS_TOPIC, "timeout": TIMEOUT})
    if options.path is not None:
        partitions = topics_in(options.path).get(GROUP_OFFSETS_TOPIC, {})
        if not partitions:
            raise MissingData(f"nothing of {GROUP_OFFSETS_TOPIC} in {options.path}")
        own_retentions = _retentions_in(options.path)
        is_kafka = not (options.path / CATALOGUE_DIRECTORY).is_dir()
        return Source(options, tuple(partitions), None, Settings()[RETENTION], own_retentions, is_kafka)
    assert options.bootstrap_servers is not None
    with Cluster(options.bootstrap_servers, options.timeout_s, security=options.security) as cluster:
        response = cluster.metadata()
        ends = known_ends(cluster, response)
        own = tuple(sorted(where.partition for where in ends if where.topic == GROUP_OFFSETS_TOPIC))
        if not own:
            raise MissingData(
                f"{source} tells of no {GROUP_OFFSETS_TOPIC}: no group ever committed there, or this user "
                "may not describe the topic"
            )
        retention = broker_setting(cluster, RETENTION)
        retentions = own_settings_of_groups(cluster, OWN_RETENTION)
        is_kafka = DescribeOffsetExpiryRequest.API_KEY not in cluster.any_node().versions
    minutes = Settings()[RETENTION] if retention is None else int(retention)
    own_retentions = {group: int(value) for group, value in retentions.items()}
    return Source(options, own, ends, minutes, own_retentions, is_kafka)


def _retentions_in(directory: Path) -> dict[GroupId, int]:
    """Return what groups have set in a directory of Headgate; nothing if its catalogue cannot be read."""
    try:
        overrides = read_catalogue(directory).group_overrides
    except (OSError, CatalogueCorrupt):
        return {}
    return {
        GroupId(group): int(values[OWN_RETENTION])
        for group, values in overrides.items()
        if OWN_RETENTION in values
    }


def audit(
    source: str | Source,
    rules: Rules | None = None,
    *,
    retention_minutes: int | None = None,
    run: Run = run_here,
    on_progress: Callable[[PartitionFacts], None] = lambda facts: None,
) -> list[Audited]:
    """Return all groups of a cluster (HOST:PORT[,...]) or data directory, sorted by id, with the findings.

    `retention_minutes` replaces the cluster's setting. Raises AuditFailed, and what `look_at` raises.
    """
    known = source if isinstance(source, Source) else look_at(source)
    now = Millis(time.time_ns() // 1_000_000)
    minutes = known.retention_minutes if retention_minutes is None else retention_minutes
    own = known.own_retentions_ms
    tasks = [
        AuditTask(known.options, each, minutes, own, known.ends, now, known.is_kafka)
        for each in known.partitions
    ]
    groups: list[GroupFacts] = []
    for facts in run(tasks):
        if facts.failure is not None:
            raise AuditFailed(f"{GROUP_OFFSETS_TOPIC}-{facts.partition}: {facts.failure}")
        on_progress(facts)
        groups += facts.groups
    limits = Rules() if rules is None else rules
    groups.sort(key=lambda each: each.group_id)
    return [Audited(facts, findings(facts, limits, now)) for facts in groups]
