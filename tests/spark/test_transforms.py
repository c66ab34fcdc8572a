"""The transforms on small frames whose answer can be counted by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.support import collect

from headgate.spark import schemas
from headgate.spark.transforms import (
    commits_per_interval,
    commits_per_minute,
    end_offsets_over_time,
    lag_over_time,
    latest_offsets,
    rebalances,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def at(second: float) -> datetime.datetime:
    """So many seconds after the hour."""
    return datetime.datetime(2026, 1, 1, 12) + datetime.timedelta(seconds=second)


def frame(spark: SparkSession, schema: StructType, rows: list[dict[str, Any]]) -> DataFrame:
    """A frame of a schema, null where a row says nothing."""
    return spark.createDataFrame(
        [tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema
    )


def shape(schema: StructType) -> list[tuple[str, str]]:
    """Names and types; whether Spark could prove that nothing is null is its own affair."""
    return [(field.name, field.dataType.simpleString()) for field in schema]


def commit(log_offset: int, second: float, committed: int | None, **other: Any) -> dict[str, Any]:
    """A commit of group g for partition 0 of topic t; None removes it."""
    return {
        "log_partition": 0,
        "log_offset": log_offset,
        "group_id": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": committed,
        "commit_timestamp": at(second),
        "is_tombstone": committed is None,
        **other,
    }


@pytest.fixture
def commits(spark: SparkSession) -> DataFrame:
    """Partition 0 is committed four times and removed, partition 1 once, and group h once."""
    rows = [
        commit(0, 1, 10),
        commit(1, 5, 20),
        commit(2, 61, 15),
        commit(3, 119, 40, metadata="m"),
        commit(4, 62, 7, partition=1),
        commit(5, 1, 3, group_id="h"),
        commit(6, 130, None, group_id="h"),
    ]
    return frame(spark, schemas.OFFSET_COMMITS, rows)


def test_commits_are_counted_per_partition_and_minute(commits: DataFrame) -> None:
    """Removals do not count; the last in the log is the last, not the highest."""
    counted = commits.transform(commits_per_minute())
    assert shape(counted.schema) == shape(schemas.COMMITS_PER_INTERVAL)
    rows = collect(counted.orderBy("group_id", "partition", "at"))
    assert [tuple(row.values()) for row in rows] == [
        ("g", "t", 0, at(0), 2, 20),
        ("g", "t", 0, at(60), 2, 40),
        ("g", "t", 1, at(60), 1, 7),
        ("h", "t", 0, at(0), 1, 3),
    ]
    assert commits.transform(commits_per_interval("1 hour")).count() == 3


def test_the_latest_offsets_are_those_the_log_ends_with(commits: DataFrame) -> None:
    """By log offset, not by time or by height; what was removed is gone."""
    latest = commits.transform(latest_offsets())
    assert shape(latest.schema) == shape(schemas.LATEST_OFFSETS)
    rows = collect(latest.orderBy("partition"))
    assert [(row["group_id"], row["partition"], row["committed_offset"]) for row in rows] == [
        ("g", 0, 40),
        ("g", 1, 7),
    ]
    assert (rows[0]["metadata"], rows[0]["log_offset"]) == ("m", 3)


def test_end_offsets_are_one_behind_the_last_record_of_each_interval(spark: SparkSession) -> None:
    """`at` is the end of the interval, when the statement is true."""
    records = [
        {"topic": "t", "partition": partition, "offset": offset, "timestamp": at(second)}
        for partition, offset, second in [(0, 0, 1), (0, 1, 2), (0, 2, 11), (1, 0, 11)]
    ]
    ends = frame(spark, schemas.RECORDS, records).transform(end_offsets_over_time("10 seconds"))
    assert shape(ends.schema) == shape(schemas.END_OFFSETS)
    rows = collect(ends.orderBy("partition", "at"))
    assert [tuple(row.values()) for row in rows] == [
        ("t", 0, at(10), 2),
        ("t", 0, at(20), 3),
        ("t", 1, at(20), 1),
    ]


def test_lag_carries_both_sides_forward_and_can_be_summed(spark: SparkSession) -> None:
    """Each partition has a row for each interval in which anything happened; nulls before a first commit."""
    end_rows = [
        {"topic": "t", "partition": 0, "at": at(10), "end_offset": 50},
        {"topic": "t", "partition": 0, "at": at(30), "end_offset": 90},
        {"topic": "t", "partition": 1, "at": at(10), "end_offset": 5},
        {"topic": "other", "partition": 0, "at": at(20), "end_offset": 1},
    ]
    commits = frame(
        spark,
        schemas.OFFSET_COMMITS,
        [commit(0, 1, 20), commit(1, 2, 30), commit(2, 35, 70), commit(3, 31, 6, partition=1)],
    )
    ends = frame(spark, schemas.END_OFFSETS, end_rows)
    lag = commits.transform(lag_over_time(ends, "10 seconds"))
    assert shape(lag.schema) == shape(schemas.LAG)
    rows = collect(lag.orderBy("partition", "at"))
    assert [tuple(row.values())[2:] for row in rows] == [
        (0, at(10), 50, 30, 20),
        (0, at(30), 90, 30, 60),
        (0, at(40), 90, 70, 20),
        (1, at(10), 5, None, None),
        (1, at(30), 5, None, None),
        (1, at(40), 5, 6, 0),  # ahead of what the producers' clock shows: not behind
    ]


def test_rebalances_say_who_came_and_who_went(spark: SparkSession) -> None:
    """Against the record before; what changes nothing is no rebalance; a removed group starts anew."""

    def event(log_offset: int, kind: str, generation: int | None, *members: str) -> dict[str, Any]:
        return {
            "log_partition": 0,
            "log_offset": log_offset,
            "group_id": "g",
            "event": kind,
            "generation": generation,
            "state_timestamp": None if kind == "removed" else at(log_offset),
            "log_timestamp": at(log_offset),
            "members": [(name, *([None] * 8)) for name in members],
        }

    history = [
        event(0, "emptied", 0),
        event(1, "assigned", 1, "a"),
        event(2, "assigned", 2, "a", "b"),
        event(3, "assigned", 2, "a", "b"),
        event(4, "other", None),
        event(5, "assigned", 3, "b"),
        event(6, "assigned", 4, "b"),
        event(7, "emptied", 5),
        event(8, "removed", None),
        event(9, "assigned", 1, "c"),
    ]
    changes = frame(spark, schemas.GROUP_EVENTS, history).transform(rebalances())
    assert shape(changes.schema) == shape(schemas.REBALANCES)
    rows = collect(changes.orderBy("log_offset"))
    assert [
        (row["log_offset"], row["generation"], row["member_count"], row["joined"], row["left"])
        for row in rows
    ] == [
        (1, 1, 1, ["a"], []),
        (2, 2, 2, ["b"], []),
        (5, 3, 1, [], ["a"]),
        (6, 4, 1, [], []),
        (7, 5, 0, [], ["b"]),
        (9, 1, 1, ["c"], []),
    ]
    assert [row["since_previous_ms"] for row in rows] == [1000, 1000, 2000, 1000, 1000, 1000]
