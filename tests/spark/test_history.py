"""The log of commits and its history as one table: every commit, each row once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException  # noqa: F401 - Spark's errors must be loaded before its session
from tests.spark.support import collect, rows_of, write_segment
from tests.waiting import wait_until

import headgate.spark
from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC, GroupId, Millis, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.records import OffsetCommit, OffsetTombstone, encode
from headgate.records.history import Origin, encode_mark
from headgate.spark.options import OptionError
from headgate.spark.source import OFFSETS_HISTORY_VIEW
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_000
TOPIC = TopicName("t")


def commit(offset: int) -> OffsetCommit:
    """Return a commit of this offset."""
    return OffsetCommit(GroupId("g"), TOPIC, 0, offset, 0, "m", Millis(NOW + offset))


def moved(record: OffsetCommit | OffsetTombstone, log_offset: int, *before: tuple[bytes, bytes]) -> Record:
    """Return a record of the history; `before` are headers before its origin."""
    key, value = encode(record)
    return Record(key, value, NOW + 999, (*before, Origin(log_offset, NOW + log_offset).header()))


def test_a_moved_record_is_a_row_of_the_place_it_had(tmp_path: Path) -> None:
    """Offset and timestamp are those of its origin, whatever other headers it has; markers are no rows."""
    records = [
        Record(*encode_mark(Millis(-1)), NOW),
        moved(commit(1), 70),
        moved(commit(2), 71, (b"headgate.origins", b"1234567890123456"), (b"x", b"")),
        moved(OffsetTombstone(GroupId("g"), TOPIC, 0), 75, (b"headgate.0rigin", b"1234567890123456")),
    ]
    write_segment(tmp_path, OFFSETS_HISTORY_TOPIC, 3, [encode_batch(records)])
    rows = rows_of(OFFSETS_HISTORY_VIEW, tmp_path, OFFSETS_HISTORY_TOPIC)
    assert [(row["log_partition"], row["log_offset"]) for row in rows] == [(3, 70), (3, 71), (3, 75)]
    assert [row["log_timestamp"].timestamp() * 1000 for row in rows] == [NOW + 70, NOW + 71, NOW + 75]
    assert [row["committed_offset"] for row in rows] == [1, 2, None]
    assert [row["is_tombstone"] for row in rows] == [False, False, True]


def test_log_and_history_are_one_table_without_doubles(spark: SparkSession, tmp_path: Path) -> None:
    """A record in both, or moved twice because of a crash, is one row; without a history the log alone."""
    log = encode_batch([Record(*encode(commit(at)), NOW + at) for at in (3, 4)], base_offset=3)
    write_segment(tmp_path, GROUP_OFFSETS_TOPIC, 0, [log])
    alone = headgate.spark.offset_commits(spark, tmp_path, include_history=True)
    assert sorted(row["committed_offset"] for row in collect(alone)) == [3, 4]
    history = [moved(commit(at), at) for at in (0, 1, 0, 1, 2, 3)]
    write_segment(tmp_path, OFFSETS_HISTORY_TOPIC, 0, [encode_batch(history)])
    both = headgate.spark.offset_commits(spark, tmp_path, include_history=True)
    assert both.schema == headgate.spark.offset_commits(spark, tmp_path).schema
    rows = collect(both.orderBy("log_offset"))
    assert [(row["log_offset"], row["committed_offset"]) for row in rows] == [(at, at) for at in range(5)]
    chosen = headgate.spark.offset_commits(spark, tmp_path, include_history=True, columns="committed_offset")
    assert chosen.columns == ["committed_offset"]
    with pytest.raises(OptionError, match="startingOffsets does not go with include_history"):
        headgate.spark.offset_commits(spark, tmp_path, include_history=True, startingOffsets="earliest")


@pytest.mark.timeout(120)
def test_every_commit_of_a_compacting_server_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """From its files and over the protocol: as many rows as commits, most of which the log no longer has."""
    settings = {
        "headgate.durability": "page-cache",
        "log.cleaner.backoff.ms": "10",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "2000",
    }
    history = TopicPartition(OFFSETS_HISTORY_TOPIC, 0)
    with run(settings, data_dir=tmp_path / "data") as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic]))
            for at in range(100):
                admin.alter_offsets("g", {TopicPartition(TOPIC, 0): at})
            wait_until(lambda: admin.log_end_offsets([history])[history] > 40, "most commits are history")
        for source in (broker.bootstrap_servers, broker.data_dir):
            rows = collect(headgate.spark.offset_commits(spark, source, include_history=True))
            assert sorted(row["committed_offset"] for row in rows) == list(range(100))
        assert headgate.spark.offset_commits(spark, broker.data_dir).count() < 60
