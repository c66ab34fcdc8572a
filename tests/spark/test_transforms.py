"""The transforms on small frames with results that can be counted by hand."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.coordinator_records import COMMIT
from tests.spark.support import collect, write_segment

import headgate.spark
from headgate.log.batch import Record, encode_batch
from headgate.records import encode
from headgate.spark import schemas
from headgate.spark.group_transforms import rebalances
from headgate.spark.transforms import (
    commits_per_interval,
    commits_per_minute,
    end_offsets_over_time,
    lag_over_time,
    latest_offsets,
    settled_commits,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def at(second: float) -> datetime.datetime:
    """Return the time `second` seconds after the hour."""
    return datetime.datetime(2026, 1, 1, 12) + datetime.timedelta(seconds=second)


def frame(spark: SparkSession, schema: StructType, rows: list[dict[str, Any]]) -> DataFrame:
    """Return a frame of a schema, null where a row has no value."""
    return spark.createDataFrame(
        [tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema
    )


def shape(schema: StructType) -> list[tuple[str, str]]:
    """Return names and types, without nullability, which Spark derives itself."""
    return [(field.name, field.dataType.simpleString()) for field in schema]


def commit(log_offset: int, second: float, committed: int | None, **other: Any) -> dict[str, Any]:
    """Return a commit of group g for partition 0 of topic t; None removes it."""
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
    """Removals do not count; the last commit is the last one in the log, not the highest offset."""
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
    """By log offset, not by time or by value; removed offsets are missing."""
    latest = commits.transform(latest_offsets())
    assert shape(latest.schema) == shape(schemas.LATEST_OFFSETS)
    rows = collect(latest.orderBy("partition"))
    assert [(row["group_id"], row["partition"], row["committed_offset"]) for row in rows] == [
        ("g", 0, 40),
        ("g", 1, 7),
    ]
    assert (rows[0]["metadata"], rows[0]["log_offset"]) == ("m", 3)


def test_end_offsets_are_one_behind_the_last_record_of_each_interval(spark: SparkSession) -> None:
    """`at` is the end of the interval, when the value is valid."""
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
    """Each partition has a row for each interval; nulls before a first commit."""
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
        (0, at(20), 50, 30, 20),
        (0, at(30), 90, 30, 60),
        (0, at(40), 90, 70, 20),
        (1, at(10), 5, None, None),
        (1, at(20), 5, None, None),
        (1, at(30), 5, None, None),
        (1, at(40), 5, 6, 0),  # ahead of the end by the producers' clock: no lag
    ]


def test_commits_of_aborted_and_open_transactions_do_not_count(spark: SparkSession) -> None:
    """The next marker of their producer in the same log decides; others and earlier ones do not."""
    rows = [
        commit(0, 1, 10),
        commit(1, 2, 20, is_transactional=True, producer_id=7),
        commit(2, 2, 30, is_transactional=True, producer_id=8),
        commit(5, 3, 40, is_transactional=True, producer_id=7),
        commit(7, 4, 50, is_transactional=True, producer_id=9),
    ]
    markers = [
        {"log_partition": partition, "log_offset": at, "producer_id": producer, "event": event}
        for partition, at, producer, event in [
            (0, 3, 7, "transaction_committed"),
            (0, 4, 8, "transaction_aborted"),
            (0, 6, 7, "transaction_aborted"),
            (1, 9, 9, "transaction_committed"),
        ]
    ]
    commits = frame(spark, schemas.OFFSET_COMMITS, rows)
    events = frame(spark, schemas.GROUP_EVENTS, markers)
    settled = collect(commits.transform(settled_commits(events)).orderBy("log_offset"))
    assert [row["committed_offset"] for row in settled] == [10, 20]
    assert collect(commits.transform(latest_offsets(events)))[0]["committed_offset"] == 20
    assert collect(commits.transform(latest_offsets()))[0]["committed_offset"] == 10


def test_an_early_timestamp_puts_no_end_before_its_time(spark: SparkSession) -> None:
    """A record's time is not before that of earlier records."""
    records = [
        {"topic": "t", "partition": 0, "offset": offset, "timestamp": at(second)}
        for offset, second in [(0, 1), (1, 11), (2, 12), (3, 2), (4, 21)]
    ]
    ends = frame(spark, schemas.RECORDS, records).transform(end_offsets_over_time("10 seconds"))
    assert [row["end_offset"] for row in collect(ends.orderBy("at"))] == [1, 4, 5]


def test_lag_follows_the_log_and_not_the_clock(spark: SparkSession) -> None:
    """A removed offset has no lag, a recreated topic starts low, a clock set back has no effect."""
    commits = [
        commit(0, 5, 40),
        commit(1, 15, 50),
        commit(2, 3, 60),  # the clock was set back
        commit(3, 5, 10, partition=1),
        commit(4, 15, None, partition=1),
        commit(5, 35, 5, partition=1),
    ]
    ends = [
        {"topic": "t", "partition": 0, "at": at(10), "end_offset": 100},
        {"topic": "t", "partition": 1, "at": at(10), "end_offset": 8000},
        {"topic": "t", "partition": 1, "at": at(40), "end_offset": 55},
    ]
    lag = frame(spark, schemas.OFFSET_COMMITS, commits).transform(
        lag_over_time(frame(spark, schemas.END_OFFSETS, ends), "10 seconds")
    )
    rows = collect(lag.orderBy("partition", "at"))
    assert [(row["at"], row["lag"]) for row in rows] == [
        (at(10), 60),
        (at(20), 40),
        (at(30), 40),
        (at(40), 40),
        (at(10), 7990),
        (at(20), None),
        (at(30), None),
        (at(40), 50),
    ]


def test_lag_reads_its_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    """However often the plan uses them."""
    record = Record(*encode(COMMIT), 1_700_000_000_000)
    write_segment(tmp_path, "__consumer_offsets", 0, [encode_batch([record])])
    commits = headgate.spark.offset_commits(spark, tmp_path)
    ends = frame(spark, schemas.END_OFFSETS, [])
    lag = commits.transform(lag_over_time(ends, "10 seconds"))
    plan = lag._jdf.queryExecution().executedPlan().toString()
    assert plan.count("BatchScan") == 1, plan
    assert lag.count() == 1


def test_rebalances_say_who_came_and_who_went(spark: SparkSession) -> None:
    """Compared with the previous record; no change is no rebalance; a removed group starts again."""

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
    assert [row["since_previous_ms"] for row in rows] == [1000, 1000, 2000, 1000, 1000, None]
