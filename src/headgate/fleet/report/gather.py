"""Collect what the report shows, by Spark: the driver gets some numbers for each interval and group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, Millis
from headgate.fleet.audit import NO_OPTIONS, Audited, Source, audit, look_at, run_on_spark
from headgate.fleet.report.series import (
    NOTHING,
    OTHERS,
    SECOND_MS,
    Series,
    counted,
    filled,
    interval_for,
    series_of,
)
from headgate.fleet.rules import Rules
from headgate.spark.directory import topics_in
from headgate.spark.group_transforms import rebalances
from headgate.spark.landing.workers import context_of
from headgate.spark.readers import group_events, offset_commits, records
from headgate.spark.transforms import commits_per_interval, end_offsets_over_time, lag_over_time

SHOWN = 7
"""Number of groups with a line of their own; the others are one line."""

MOST_FOLLOWED = 2_000
"""Maximum number of partitions whose lag is followed over time, of all groups together."""

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the page shows. Times are in ms."""

    source: str
    made_at: Millis
    first_at: Millis | None
    """The first commit in the log; None: there is none."""
    last_at: Millis | None
    interval_ms: int
    """Length of the intervals of the charts over time."""
    commit_count: int
    audited: tuple[Audited, ...]
    commits: tuple[Series, ...] = ()
    """Commits of partitions in each interval, by group."""
    lag: tuple[Series, ...] | None = None
    """Lag at the end of each interval, of the groups with the largest lag that have at most `MOST_FOLLOWED`
    partitions together; None: not asked for, or no topic could be read.
    """
    rebalances: tuple[Series, ...] = ()
    """Changes of members in each interval, by group."""
    members: tuple[Series, ...] = ()
    """Number of members of the groups with the most changes: the most and the last one of each interval."""
    expiries: Series = NOTHING
    """Number of groups whose first offset expires in each interval."""
    expiry_interval_ms: int = SECOND_MS


def gather(
    spark: SparkSession,
    source: str,
    rules: Rules | None = None,
    *,
    with_lag: bool = True,
    retention_minutes: int | None = None,
    on_step: OnStep = lambda text: None,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Report:
    """Read a cluster (HOST:PORT[,...]) or a data directory and return what the report shows.

    The lag over time needs the timestamps of all records of the topics with commits: `with_lag=False` leaves
    it out. `options` of the source are for TLS and SASL. Raises what `audit` raises, OptionError for a
    session of Spark Connect, and PythonException for a log that Spark could not read.
    """
    context_of(spark, "use `headgate spark report`, which starts a Spark of its own")
    on_step("auditing the groups")
    known = look_at(source, options)
    audited = tuple(audit(known, rules, retention_minutes=retention_minutes, run=run_on_spark(spark)))
    expiries, expiry_interval_ms = counted(
        each.facts.first_expiry_at for each in audited if each.facts.first_expiry_at is not None
    )
    on_step("reading the commits")
    commits = (
        offset_commits(spark, source, include_history=False, **options).where(~F.col("is_tombstone")).cache()
    )
    try:
        first, last, count = commits.select(
            F.unix_millis(F.min("commit_timestamp")), F.unix_millis(F.max("commit_timestamp")), F.count("*")
        ).first() or (None, None, 0)
        report = Report(
            source=source,
            made_at=Millis(time.time_ns() // 1_000_000),
            first_at=first,
            last_at=last,
            interval_ms=SECOND_MS if first is None or last is None else interval_for(first, last),
            commit_count=count,
            audited=audited,
            expiries=expiries,
            expiry_interval_ms=expiry_interval_ms,
        )
        if first is None:
            return report
        report = _with_rates(spark, report, commits, on_step, options)
        if not with_lag:
            return report
        on_step("reading the timestamps of the topics")
        return replace(report, lag=_lag(spark, known, report, commits, options))
    finally:
        commits.unpersist()


def _with_rates(
    spark: SparkSession, report: Report, commits: DataFrame, on_step: OnStep, options: Mapping[str, str]
) -> Report:
    """Return the report with commits, rebalances and members over time."""
    first, last = report.first_at, report.last_at
    assert first is not None and last is not None
    on_step("reading the changes of members")
    changes = (
        group_events(spark, report.source, **options).transform(rebalances()).where("at is not null").cache()
    )
    try:
        report = replace(report, interval_ms=_interval_of(report, changes))
        start = F.window("at", _interval(report))["start"]
        counts = changes.select("group_id", F.unix_millis(start).alias("at"), F.lit(1).alias("value"))
        changed, members = largest(counts, F.count("*")), members_over_time(changes, _interval(report))
    finally:
        changes.unpersist()
    bounds = (report.interval_ms, first, last)
    rates = commits.transform(commits_per_interval(_interval(report))).select(
        "group_id", F.unix_millis("at").alias("at"), F.col("commits").alias("value")
    )
    return replace(
        report,
        commits=tuple(filled(each, *bounds) for each in largest(rates, F.sum("value"))),
        rebalances=tuple(changed),
        members=tuple(members),
    )


def _interval_of(report: Report, changes: DataFrame) -> int:
    """Return the interval, in ms, that divides the time of the commits and of the changes of members."""
    first, last = (F.unix_millis(bound("at")) for bound in (F.min, F.max))
    row = changes.select(first, last).first()
    times = [report.first_at, report.last_at, *(row or ())]
    known = [at for at in times if at is not None]
    return interval_for(min(known), max(known))


def members_over_time(changes: DataFrame, interval: str) -> Sequence[Series]:
    """Return the members of the groups with the most changes: the most and the last number of each interval.

    A group may change its members every second, for months.
    """
    of_group = changes.select(
        "group_id",
        F.window("at", interval)["start"].alias("start"),
        F.struct(F.unix_millis("at").alias("at"), "log_offset", F.col("member_count").alias("value")).alias(
            "change"
        ),
    )
    names = _names_of_largest(of_group, F.count("*"))
    most = F.max_by("change", F.struct("change.value", "change.at", "change.log_offset")).alias("most")
    both = of_group.where(F.col("group_id").isin(names)).groupBy("group_id", "start")
    points = both.agg(most, F.max("change").alias("last"))
    found = [
        (row["group_id"], row[which]["at"], row[which]["value"])
        for row in points.collect()
        for which in (("most", "last") if row["most"]["at"] < row["last"]["at"] else ("last",))
    ]
    return series_of(found, names)


def _interval(report: Report) -> str:
    return f"{report.interval_ms // SECOND_MS} seconds"


def _lag(
    spark: SparkSession, known: Source, report: Report, commits: DataFrame, options: Mapping[str, str]
) -> tuple[Series, ...] | None:
    names = _followed(report)
    followed = commits.where(F.col("group_id").isin(names))
    wanted = {row["topic"] for row in followed.select("topic").distinct().collect()}
    topics = sorted(wanted & _topics_of(known))
    if not topics:
        return None
    read = records(
        spark,
        report.source,
        ",".join(topics),
        columns="topic,partition,offset,timestamp",
        **options,
    )
    # Producers choose the times of records, which may be years apart: count those outside at the borders.
    first, last = (F.timestamp_millis(F.lit(at)) for at in (report.first_at, report.last_at))
    within = read.withColumn("timestamp", F.least(F.greatest("timestamp", first), last))
    ends = within.transform(end_offsets_over_time(_interval(report)))
    lags = followed.where(F.col("topic").isin(topics)).transform(lag_over_time(ends, _interval(report)))
    by_group = lags.where("lag is not null").groupBy("group_id", "at").agg(F.sum("lag").alias("value"))
    in_ms = by_group.select("group_id", F.unix_millis("at").alias("at"), "value")
    return tuple(largest(in_ms, F.max("value")))


def _followed(report: Report) -> list[str]:
    """Return the groups whose lag is followed: those with the largest lag now, and not too many partitions.

    Where no lag is known, those with the most commits. Each partition has a row for each interval.
    """
    committed_most = [each.name for each in report.commits]
    rank = {name: number for number, name in enumerate(committed_most)}
    facts = [each.facts for each in report.audited]
    facts.sort(key=lambda one: (-(one.lag or 0), rank.get(one.group_id, len(rank)), one.group_id))
    names: list[str] = []
    left = MOST_FOLLOWED
    for one in facts:
        if one.offset_count <= left and len(names) < SHOWN:
            names.append(one.group_id)
            left -= one.offset_count
    return names


def _topics_of(known: Source) -> set[str]:
    if known.ends is not None:
        return {where.topic for where in known.ends}
    assert known.options.path is not None
    return set(topics_in(known.options.path)) - {GROUP_OFFSETS_TOPIC}


def largest(rows: DataFrame, rank: Column) -> Sequence[Series]:
    """Return rows of group_id, at and value as series: the groups of highest rank, and the sum of all others
    as one.
    """
    rows = rows.cache()
    try:
        names = _names_of_largest(rows, rank)
        named = F.when(F.col("group_id").isin(names), F.col("group_id")).otherwise(F.lit(OTHERS))
        found = rows.groupBy(named.alias("name"), "at").agg(F.sum("value").alias("value")).collect()
    finally:
        rows.unpersist()
    return series_of(((row["name"], row["at"], row["value"]) for row in found), [*names, OTHERS])


def _names_of_largest(rows: DataFrame, rank: Column) -> list[str]:
    ranked = rows.groupBy("group_id").agg(rank.alias("rank")).orderBy(F.desc("rank"), "group_id")
    return [row["group_id"] for row in ranked.limit(SHOWN).collect()]
