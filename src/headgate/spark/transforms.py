"""Transforms of the coordinator's log: pure functions from DataFrame to DataFrame, for `.transform`.

Each takes its parameters and returns the function. None reads data itself. The input needs only the columns
of the schema it names; the result has exactly the columns of its schema. An `interval` is Spark's: `1
minute`, `5 seconds`; intervals are aligned to the epoch, and of fixed length (no months).
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ArrayType, LongType, StructType

from headgate.spark.schemas import (
    COMMITS_PER_INTERVAL,
    END_OFFSETS,
    LAG,
    LATEST_OFFSETS,
    OFFSET_COMMITS,
)

Transform = Callable[[DataFrame], DataFrame]

_SUBSCRIPTION = ("group_id", "topic", "partition")


def commits_per_minute() -> Transform:
    """`OFFSET_COMMITS` -> `COMMITS_PER_INTERVAL`, by the minute."""
    return commits_per_interval("1 minute")


def commits_per_interval(interval: str) -> Transform:
    """`OFFSET_COMMITS` -> `COMMITS_PER_INTERVAL`: the number of commits of a partition in each interval.

    `at` is the start of the interval, `last_offset` the offset of its last commit. Intervals without a commit
    have no row; removals of offsets are not counted.
    """

    def transform(offset_commits: DataFrame) -> DataFrame:
        return (
            offset_commits.where(~F.col("is_tombstone"))
            .groupBy(*_SUBSCRIPTION, F.window("commit_timestamp", interval).alias("interval"))
            .agg(
                F.count("*").alias("commits"),
                F.max_by("committed_offset", "log_offset").alias("last_offset"),
            )
            .withColumn("at", F.col("interval.start"))
            .transform(exactly(COMMITS_PER_INTERVAL))
        )

    return transform


def settled_commits(group_events: DataFrame) -> Transform:
    """`OFFSET_COMMITS` -> `OFFSET_COMMITS`, without commits of open or aborted transactions.

    `group_events` has the columns of `GROUP_EVENTS`, from the same log. The next marker of a producer after a
    transactional commit decides.
    """
    markers = group_events.where(F.col("event").isin("transaction_committed", "transaction_aborted")).select(
        "log_partition", "log_offset", "producer_id", "event"
    )

    def transform(offset_commits: DataFrame) -> DataFrame:
        # Commits without a transaction share no partition of the window, so that no partition grows large.
        alone = F.struct("log_offset", F.lit(None).cast("long").alias("producer_id"))
        together = F.struct(F.lit(None).cast("long").alias("log_offset"), F.col("producer_id"))
        following = (
            Window.partitionBy("log_partition", "of")
            .orderBy("log_offset")
            .rowsBetween(Window.currentRow, Window.unboundedFollowing)
        )
        in_transaction = _is_transactional() | F.col("event").isNotNull()
        return (
            offset_commits.unionByName(markers, allowMissingColumns=True)
            .withColumn("of", F.when(in_transaction, together).otherwise(alone))
            .withColumn("outcome", F.first("event", ignorenulls=True).over(following))
            .where(F.col("event").isNull())
            .where(~_is_transactional() | (F.col("outcome") == "transaction_committed"))
            .transform(exactly(OFFSET_COMMITS))
        )

    return transform


def latest_offsets(group_events: DataFrame | None = None) -> Transform:
    """`OFFSET_COMMITS` -> `LATEST_OFFSETS`: each offset at the end of the log, without removed ones.

    A group is in one partition of the log, so its latest commit is the one with the highest log offset. With
    `group_events`, from the same log, transactional commits count as in `settled_commits`; without it they do
    not count.
    """
    settled = _outside_transactions if group_events is None else settled_commits(group_events)

    def transform(offset_commits: DataFrame) -> DataFrame:
        carried = [name for name in LATEST_OFFSETS.fieldNames() if name not in _SUBSCRIPTION]
        return (
            offset_commits.transform(settled)
            .groupBy(*_SUBSCRIPTION)
            .agg(F.max_by(F.struct("is_tombstone", *carried), "log_offset").alias("latest"))
            .where(~F.col("latest.is_tombstone"))
            .select(*_SUBSCRIPTION, "latest.*")
            .transform(exactly(LATEST_OFFSETS))
        )

    return transform


def _outside_transactions(offset_commits: DataFrame) -> DataFrame:
    return offset_commits.where(~_is_transactional())


def _is_transactional() -> Column:
    return F.coalesce("is_transactional", F.lit(False))


def end_offsets_over_time(interval: str) -> Transform:
    """`RECORDS` -> `END_OFFSETS`: the end offset of partitions at the end (`at`) of each interval with
    records.

    A record's time is the latest timestamp up to it, as in Kafka's time index: its own timestamp is the
    producer's, and may be earlier than those of previous records.
    """

    def transform(records: DataFrame) -> DataFrame:
        in_time = Window.partitionBy("topic", "partition").orderBy("at")
        later = in_time.rowsBetween(1, Window.unboundedFollowing)
        return (
            records.groupBy("topic", "partition", F.window("timestamp", interval).alias("interval"))
            .agg((F.max("offset") + 1).alias("end"), F.min("offset").alias("begin"))
            .withColumn("at", F.col("interval.end"))
            .withColumn("so_far", F.max("end").over(in_time.rowsBetween(Window.unboundedPreceding, 0)))
            .withColumn("end_offset", F.least("so_far", F.min("begin").over(later)))
            .transform(exactly(END_OFFSETS))
        )

    return transform


def lag_over_time(end_offsets: DataFrame, interval: str) -> Transform:
    """`OFFSET_COMMITS` -> `LAG`: the lag of each group at the end (`at`) of each interval.

    `end_offsets` has the columns of `END_OFFSETS`, made with the same interval. Every partition that a group
    ever committed has a row for every interval, from the first to the last with any commit or record, so that
    rows of equal `at` can be summed. Before a group's first commit, and after the removal of its offset,
    `committed_offset` and `lag` are null. Commits are ordered by log offset, whatever their time. An end
    offset holds until the next one, also if that is lower because the topic was created again.
    """

    def transform(offset_commits: DataFrame) -> DataFrame:
        in_log = Window.partitionBy(*_SUBSCRIPTION).orderBy("log_offset")
        so_far = in_log.rowsBetween(Window.unboundedPreceding, 0)
        happened = F.coalesce("commit_timestamp", "log_timestamp")
        changes = (
            offset_commits.withColumn("happened", F.max(happened).over(so_far))
            .groupBy(*_SUBSCRIPTION, F.window("happened", interval).alias("interval"))
            .agg(
                F.max_by(F.struct(F.col("committed_offset").alias("offset")), "log_offset").alias("committed")
            )
            .withColumn("at", F.unix_micros("interval.end"))
            .withColumn("step", F.col("at") - F.unix_micros("interval.start"))
        )
        timelines = changes.groupBy(*_SUBSCRIPTION).agg(
            F.map_from_entries(F.collect_list(F.struct("at", "committed"))).alias("commits"),
            F.max("step").alias("step"),
        )
        ends = end_offsets.groupBy("topic", "partition").agg(
            F.map_from_entries(F.collect_list(F.struct(F.unix_micros("at"), "end_offset"))).alias("ends")
        )
        # One row for each subscription so far, few enough for one task.
        everywhere = Window.partitionBy(F.lit(0))
        nothing = F.array().cast(ArrayType(LongType()))
        moments = F.array_union(F.map_keys("commits"), F.coalesce(F.map_keys("ends"), nothing))
        until_now = Window.partitionBy(*_SUBSCRIPTION).orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
        latest = F.last(F.element_at("commits", F.col("at")), ignorenulls=True).over(until_now)
        latest_end = F.last(F.element_at("ends", F.col("at")), ignorenulls=True).over(until_now)
        return (
            timelines.join(ends, on=["topic", "partition"], how="left")
            .withColumn("first", F.min(F.array_min(moments)).over(everywhere))
            .withColumn("last", F.max(F.array_max(moments)).over(everywhere))
            .withColumn("step", F.max("step").over(everywhere))
            .withColumn("at", F.explode(F.sequence("first", "last", "step")))
            .withColumn("committed_offset", latest["offset"])
            .withColumn("end_offset", latest_end)
            .withColumn("at", F.timestamp_micros("at"))
            # Records have their producers' time, commits the broker's: a commit may seem to be after the end.
            .withColumn("behind", F.col("end_offset") - F.col("committed_offset"))
            .withColumn("lag", F.when(F.col("behind") < 0, 0).otherwise(F.col("behind")))
            .transform(exactly(LAG))
        )

    return transform


def exactly(schema: StructType) -> Transform:
    """Any frame with a schema's columns -> exactly these, in its order and types."""
    return lambda frame: frame.select(*(F.col(field.name).cast(field.dataType) for field in schema))
