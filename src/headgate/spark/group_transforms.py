"""Transforms of group records: the members of groups over time, and the partitions that each member reads.

Pure functions from DataFrame to DataFrame, like those of `transforms`. Classic groups write one record for
each generation. Consumer groups (KIP-848) and share groups (KIP-932) write a record for each member, target
and assignment, and one for each group epoch after the records that caused it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ArrayType, StringType

from headgate.records.share_group_model import ShareGroupRecordType
from headgate.spark.schemas import ASSIGNMENTS, REBALANCES, UNKNOWN_RECORDS
from headgate.spark.transforms import Transform, exactly

_CLASSIC_EVENTS = ("assigned", "emptied", "removed")


def rebalances() -> Transform:
    """`GROUP_EVENTS` -> `REBALANCES`: every change of a group's members.

    For a classic group that is a generation, for a consumer or share group an epoch. `joined` and `left` are
    member ids, compared with the previous generation or epoch; a removed group begins anew. Records that
    change neither the generation or epoch nor the members give no row, such as the first record of an empty
    classic group, or that of an empty consumer group whose last pause ended. A static member that rejoins
    with a new id is a change.
    """

    def transform(group_events: DataFrame) -> DataFrame:
        return _generations(group_events).unionByName(_epochs(group_events)).transform(exactly(REBALANCES))

    return transform


def assignments() -> Transform:
    """`GROUP_EVENTS` -> `ASSIGNMENTS`: the partitions of each member of each group at the end of the log.

    A member of a classic group has topics by name, one of a consumer or share group by id. Several members of
    a share group may have the same partition.
    """

    def transform(group_events: DataFrame) -> DataFrame:
        return (
            _classic_assignments(group_events)
            .unionByName(_consumer_assignments(group_events), allowMissingColumns=True)
            .transform(exactly(ASSIGNMENTS))
        )

    return transform


def unknown_records() -> Transform:
    """`GROUP_EVENTS` -> `UNKNOWN_RECORDS`: the records without columns in this release, unchanged."""

    def transform(group_events: DataFrame) -> DataFrame:
        return group_events.where(F.col("event").isin("other", "malformed")).transform(
            exactly(UNKNOWN_RECORDS)
        )

    return transform


def _generations(group_events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("group_id").orderBy("log_offset")
    nobody = F.array().cast(ArrayType(StringType()))
    members = F.coalesce(F.transform("members", lambda member: member["member_id"]), nobody)
    changed = (
        (F.col("generation") != F.coalesce("previous.generation", F.lit(0)))
        | (F.size("joined") > 0)
        | (F.size("left") > 0)
    )
    return (
        group_events.where(F.col("event").isin(*_CLASSIC_EVENTS))
        .withColumn("at", F.coalesce("state_timestamp", "log_timestamp"))
        .withColumn("member_ids", members)
        .withColumn("state", F.when(F.col("event") != "removed", F.struct("generation", "at", "member_ids")))
        .withColumn("previous", F.lag("state").over(in_order))
        .where(F.col("event") != "removed")
        .withColumn("before", F.coalesce("previous.member_ids", nobody))
        .withColumn("joined", F.array_except("member_ids", "before"))
        .withColumn("left", F.array_except("before", "member_ids"))
        .where(changed)
        .withColumn("member_count", F.size("member_ids"))
        .withColumn("since_previous_ms", F.unix_millis("at") - F.unix_millis("previous.at"))
        .transform(exactly(REBALANCES))
    )


def _epochs(group_events: DataFrame) -> DataFrame:
    """Return each epoch of consumer and share groups, with the members that came and went since the last."""
    of_member = Window.partitionBy("group_id", "member_id").orderBy("log_offset")
    of_group = Window.partitionBy("group_id").orderBy("log_offset")
    ends_epoch = F.col("event") == "group_epoch"  # the next epoch, or the removal of the group
    is_epoch = ends_epoch & ~F.col("is_tombstone")
    is_member = F.col("event") == "member"
    is_there = is_member & ~F.col("is_tombstone")
    was_there = F.coalesce(~F.lag("is_tombstone").over(of_member), F.lit(False))
    return (
        group_events.where(F.col("event").isin("group_epoch", "member"))
        .withColumn("was_there", was_there)
        .withColumn(
            "of_epoch",
            F.first(F.when(ends_epoch, F.col("log_offset")), ignorenulls=True).over(
                of_group.rowsBetween(Window.currentRow, Window.unboundedFollowing)
            ),
        )
        .where(F.col("of_epoch").isNotNull())
        # A member may come and go several times between two epochs.
        .groupBy("group_id", F.col("of_epoch").alias("log_offset"), "member_id")
        .agg(
            F.max("log_partition").alias("log_partition"),
            F.max(F.when(is_epoch, F.col("epoch"))).alias("generation"),
            F.max(F.when(is_epoch, F.col("log_timestamp"))).alias("at"),
            F.min_by("was_there", "log_offset").alias("before"),
            F.max_by(is_there, "log_offset").alias("after"),
        )
        .groupBy("group_id", "log_offset")
        .agg(
            F.max("log_partition").alias("log_partition"),
            F.max("generation").alias("generation"),
            F.max("at").alias("at"),
            F.sort_array(F.collect_set(F.when(F.col("after") & ~F.col("before"), F.col("member_id")))).alias(
                "joined"
            ),
            F.sort_array(F.collect_set(F.when(F.col("before") & ~F.col("after"), F.col("member_id")))).alias(
                "left"
            ),
        )
        .withColumn(
            "member_count",
            F.sum(F.size("joined") - F.size("left")).over(
                of_group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
            ),
        )
        .withColumn("is_same_epoch", F.col("generation") == F.lag("generation").over(of_group))
        .where(~F.coalesce("is_same_epoch", F.lit(False)) | (F.size("joined") > 0) | (F.size("left") > 0))
        .withColumn("since_previous_ms", F.unix_millis("at") - F.unix_millis(F.lag("at").over(of_group)))
        .where(F.col("generation").isNotNull())
        .withColumn("event", F.when(F.col("member_count") == 0, "emptied").otherwise("assigned"))
        .withColumn("protocol", F.lit(None).cast("string"))
        .withColumn("leader", F.lit(None).cast("string"))
        .transform(exactly(REBALANCES))
    )


def _classic_assignments(group_events: DataFrame) -> DataFrame:
    carried = ("event", "generation", "members", "log_partition", "log_offset", "log_timestamp")
    return (
        group_events.where(F.col("event").isin(*_CLASSIC_EVENTS))
        .groupBy("group_id")
        .agg(F.max_by(F.struct(*carried), "log_offset").alias("latest"))
        .select("group_id", "latest.*")
        .withColumn("member", F.explode("members"))
        .withColumn("one", F.explode("member.assigned"))
        .select(
            "group_id",
            F.lit("classic").alias("group_type"),
            "member.member_id",
            F.col("generation").alias("epoch"),
            "one.topic",
            "one.partition",
            F.col("log_timestamp").alias("at"),
            "log_partition",
            "log_offset",
        )
    )


def _consumer_assignments(group_events: DataFrame) -> DataFrame:
    carried = (
        "is_tombstone",
        "record_type",
        "assigned",
        "epoch",
        "log_partition",
        "log_offset",
        "log_timestamp",
    )
    is_share = F.col("record_type") == ShareGroupRecordType.CURRENT_ASSIGNMENT
    return (
        group_events.where(F.col("event") == "member_assignment")
        .groupBy("group_id", "member_id")
        .agg(F.max_by(F.struct(*carried), "log_offset").alias("latest"))
        .where(~F.col("latest.is_tombstone"))
        .select("group_id", "member_id", "latest.*")
        .withColumn("one", F.explode("assigned"))
        .select(
            "group_id",
            F.when(is_share, "share").otherwise("consumer").alias("group_type"),
            "member_id",
            "epoch",
            "one.topic_id",
            "one.partition",
            F.col("log_timestamp").alias("at"),
            "log_partition",
            "log_offset",
        )
    )
