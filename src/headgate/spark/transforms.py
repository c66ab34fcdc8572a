"""What to make of the coordinator's log: pure functions from DataFrame to DataFrame, for `.transform`.

Each takes its parameters and returns the function. None reads anything, and none needs more than the columns
it names; what comes out has exactly the columns of the schema it names. An `interval` is Spark's: `1 minute`,
`5 seconds`; intervals are aligned to the epoch, and of fixed length (no months).
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ArrayType, StringType, StructType

from headgate.spark.schemas import (
    COMMITS_PER_INTERVAL,
    END_OFFSETS,
    LAG,
    LATEST_OFFSETS,
    REBALANCES,
)

Transform = Callable[[DataFrame], DataFrame]

_SUBSCRIPTION = ("group_id", "topic", "partition")


def commits_per_minute() -> Transform:
    """`OFFSET_COMMITS` -> `COMMITS_PER_INTERVAL`, by the minute."""
    return commits_per_interval("1 minute")


def commits_per_interval(interval: str) -> Transform:
    """`OFFSET_COMMITS` -> `COMMITS_PER_INTERVAL`: how many commits a partition had in each interval.

    `at` is when the interval begins, `last_offset` what the last of its commits said. Intervals without a
    commit have no row; removals of offsets are not counted.
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
            .transform(_as(COMMITS_PER_INTERVAL))
        )

    return transform


def latest_offsets() -> Transform:
    """`OFFSET_COMMITS` -> `LATEST_OFFSETS`: each offset as the log leaves it; removed ones are not there.

    A group lives in one partition of the log, so its latest commit is the one with the highest log offset. A
    transactional commit counts from when it is in the log, whether or not its transaction was committed.
    """

    def transform(offset_commits: DataFrame) -> DataFrame:
        carried = [name for name in LATEST_OFFSETS.fieldNames() if name not in _SUBSCRIPTION]
        return (
            offset_commits.groupBy(*_SUBSCRIPTION)
            .agg(F.max_by(F.struct("is_tombstone", *carried), "log_offset").alias("latest"))
            .where(~F.col("latest.is_tombstone"))
            .select(*_SUBSCRIPTION, "latest.*")
            .transform(_as(LATEST_OFFSETS))
        )

    return transform


def end_offsets_over_time(interval: str) -> Transform:
    """`RECORDS` -> `END_OFFSETS`: where partitions ended at the end (`at`) of each interval they grew in."""

    def transform(records: DataFrame) -> DataFrame:
        return (
            records.groupBy("topic", "partition", F.window("timestamp", interval).alias("interval"))
            .agg((F.max("offset") + 1).alias("end_offset"))
            .withColumn("at", F.col("interval.end"))
            .transform(_as(END_OFFSETS))
        )

    return transform


def lag_over_time(end_offsets: DataFrame, interval: str) -> Transform:
    """`OFFSET_COMMITS` -> `LAG`: how far each group was behind at the end (`at`) of each interval.

    `end_offsets` has the columns of `END_OFFSETS`, made with the same interval. Every partition that a group
    ever committed has a row for every interval in which anything happened anywhere, so that rows of equal
    `at` may be summed; before a group's first commit `committed_offset` and `lag` are null.
    """

    def transform(offset_commits: DataFrame) -> DataFrame:
        committed = (
            offset_commits.where(~F.col("is_tombstone"))
            .groupBy(*_SUBSCRIPTION, F.window("commit_timestamp", interval).alias("interval"))
            .agg(F.max_by("committed_offset", "log_offset").alias("committed_offset"))
            .select(*_SUBSCRIPTION, F.col("interval.end").alias("at"), "committed_offset")
        )
        subscriptions = committed.select(*_SUBSCRIPTION).distinct()
        ended = end_offsets.join(subscriptions, on=["topic", "partition"], how="inner")
        events = committed.unionByName(ended, allowMissingColumns=True)
        grid = events.select("at").distinct().crossJoin(subscriptions)
        so_far = Window.partitionBy(*_SUBSCRIPTION).orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
        return (
            events.unionByName(grid, allowMissingColumns=True)
            .groupBy(*_SUBSCRIPTION, "at")
            .agg(F.max("committed_offset").alias("committed"), F.max("end_offset").alias("end"))
            .withColumn("committed_offset", F.last("committed", ignorenulls=True).over(so_far))
            .withColumn("end_offset", F.max("end").over(so_far))
            # Records carry their producers' clock, commits the broker's: a commit may seem ahead of the end.
            .withColumn("behind", F.col("end_offset") - F.col("committed_offset"))
            .withColumn("lag", F.when(F.col("behind") < 0, 0).otherwise(F.col("behind")))
            .transform(_as(LAG))
        )

    return transform


def rebalances() -> Transform:
    """`GROUP_EVENTS` -> `REBALANCES`: every change of who is in a classic group, and what it changed.

    `joined` and `left` are member ids, against the group's previous record. Records that change neither the
    generation nor the members give no row, such as the first of a group that nobody is in yet; a static
    member that comes back under a new id is a change.
    """

    def transform(group_events: DataFrame) -> DataFrame:
        in_order = Window.partitionBy("group_id").orderBy("log_offset")
        nobody = F.array().cast(ArrayType(StringType()))
        members = F.coalesce(F.transform("members", lambda member: member["member_id"]), nobody)
        changed = (
            (F.col("generation") != F.coalesce("previous.generation", F.lit(0)))
            | (F.size("joined") > 0)
            | (F.size("left") > 0)
        )
        return (
            group_events.where(F.col("event").isin("assigned", "emptied", "removed"))
            .withColumn("at", F.coalesce("state_timestamp", "log_timestamp"))
            .withColumn("member_ids", members)
            .withColumn("state", F.struct("generation", "at", "member_ids"))
            .withColumn("previous", F.lag("state").over(in_order))
            .where(F.col("event") != "removed")
            .withColumn("before", F.coalesce("previous.member_ids", nobody))
            .withColumn("joined", F.array_except("member_ids", "before"))
            .withColumn("left", F.array_except("before", "member_ids"))
            .where(changed)
            .withColumn("member_count", F.size("member_ids"))
            .withColumn("since_previous_ms", F.unix_millis("at") - F.unix_millis("previous.at"))
            .transform(_as(REBALANCES))
        )

    return transform


def _as(schema: StructType) -> Transform:
    """Exactly the schema's columns, in its order and types."""
    return lambda frame: frame.select(*(F.col(field.name).cast(field.dataType) for field in schema))
