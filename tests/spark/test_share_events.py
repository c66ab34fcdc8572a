"""The records of share groups have columns, and rebalances and assignments include them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.coordinator_records import NOW
from tests.spark.support import collect, rows_of, write_segment

import headgate.spark
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.records import Record as LogRecord
from headgate.records import encode
from headgate.records.share_group_model import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecordType,
    ShareGroupStatePartitions,
    ShareGroupTargetMember,
    ShareGroupTargetMetadata,
    ShareGroupTombstone,
    TopicPartitions,
)
from headgate.spark.group_transforms import assignments, rebalances
from headgate.spark.source import GROUP_EVENTS_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "__consumer_offsets"
SHARE = GroupId("sg")
FLIGHTS = TopicId(bytes(range(16)))
FLIGHTS_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def share_joins(name: str, epoch: int, *partitions: int) -> list[LogRecord]:
    """Return what is written of a member that joins: its metadata, and its assignment."""
    member_id = MemberId(name)
    return [
        ShareGroupMemberMetadata(
            group_id=SHARE,
            member_id=member_id,
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=(TopicName("flights"),),
        ),
        ShareGroupCurrentAssignment(
            group_id=SHARE,
            member_id=member_id,
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            assigned={FLIGHTS: partitions} if partitions else {},
        ),
    ]


def share_leaves(name: str) -> list[LogRecord]:
    """Return what is written of a member that leaves."""
    kinds = (ShareGroupRecordType.CURRENT_ASSIGNMENT, ShareGroupRecordType.MEMBER)
    return [ShareGroupTombstone(kind, SHARE, name) for kind in kinds]


def write(directory: Path, records: list[LogRecord]) -> None:
    """Write a log of these records, a second apart."""
    written = [Record(*encode(record), NOW + 1000 * at) for at, record in enumerate(records)]
    write_segment(directory, TOPIC, 0, [encode_batch(written)])


def test_every_record_of_a_share_group_is_columns(tmp_path: Path) -> None:
    """No content remains as bytes, tombstones included."""
    member_id = MemberId("a")
    states = ShareGroupStatePartitions(
        group_id=SHARE,
        initializing={FLIGHTS: TopicPartitions(TopicName("flights"), (2,))},
        initialized={FLIGHTS: TopicPartitions(TopicName("flights"), (0, 1))},
        deleting={TopicId(bytes(16)): TopicName("old")},
    )
    records: list[LogRecord] = [
        *share_joins("a", 7, 1),
        ShareGroupMetadata(group_id=SHARE, epoch=7),
        ShareGroupTargetMetadata(group_id=SHARE, assignment_epoch=7, assignment_timestamp=Millis(NOW)),
        ShareGroupTargetMember(group_id=SHARE, member_id=member_id, partitions={FLIGHTS: (1, 2)}),
        states,
        *share_leaves("a"),
        ShareGroupTombstone(ShareGroupRecordType.STATE_PARTITIONS, SHARE),
    ]
    write(tmp_path, records)
    rows = rows_of(GROUP_EVENTS_VIEW, tmp_path, TOPIC)
    assert [row["record_type"] for row in rows] == [10, 14, 11, 12, 13, 15, 14, 10, 15]
    said = [
        {name: value for name, value in row.items() if value is not None and name[:3] not in ("log", "rec")}
        for row in rows
    ]
    assert all(row.pop("group_id") == "sg" for row in said)
    owned: dict[str, Any] = {"topic_id": FLIGHTS_TEXT, "assignment_epoch": None}
    stated: dict[str, Any] = {"topic_id": FLIGHTS_TEXT, "topic": "flights"}
    expected: list[dict[str, Any]] = [
        {
            "event": "member",
            "member_id": "a",
            "client_id": "c",
            "client_host": "/h",
            "rack_id": "r",
            "topics": ["flights"],
        },
        {
            "event": "member_assignment",
            "member_id": "a",
            "epoch": 7,
            "previous_epoch": 6,
            "assigned": [owned | {"partition": 1}],
        },
        {"event": "group_epoch", "epoch": 7},
        {"event": "target_epoch", "epoch": 7, "state_timestamp": rows[0]["log_timestamp"]},
        {
            "event": "member_target",
            "member_id": "a",
            "assigned": [owned | {"partition": 1}, owned | {"partition": 2}],
        },
        {
            "event": "share_partitions",
            "initializing": [stated | {"partition": 2}],
            "initialized": [stated | {"partition": 0}, stated | {"partition": 1}],
            "deleting": [{"topic_id": "A" * 22, "topic": "old"}],
        },
        {"event": "member_assignment", "member_id": "a"},
        {"event": "member", "member_id": "a"},
        {"event": "share_partitions"},
    ]
    for index, row in enumerate(expected):
        row["is_tombstone"] = index >= 6
    assert said == expected


def test_malformed_records_of_share_groups_keep_their_bytes(tmp_path: Path) -> None:
    """A record that is cut, and one of a later version."""
    key, value = encode(ShareGroupMetadata(group_id=SHARE, epoch=7))
    assert value is not None
    values = [value[:-1], b"\x00\x07" + value[2:]]
    records = [Record(key, value, NOW) for value in values]
    write_segment(tmp_path, TOPIC, 0, [encode_batch(records)])
    rows = rows_of(GROUP_EVENTS_VIEW, tmp_path, TOPIC)
    assert [(row["event"], row["group_id"], row["value"]) for row in rows] == [
        ("malformed", "sg", value) for value in values
    ]


def test_rebalances_and_assignments_know_share_groups(spark: SparkSession, tmp_path: Path) -> None:
    """Members come and go by epochs; several may have the same partition."""
    records = [
        *share_joins("a", 1, 0, 1),
        ShareGroupMetadata(group_id=SHARE, epoch=1),
        *share_joins("b", 2, 0),
        *share_joins("c", 2, 1),
        *share_leaves("c"),
        ShareGroupMetadata(group_id=SHARE, epoch=2),
    ]
    write(tmp_path, records)
    events = headgate.spark.group_events(spark, tmp_path).cache()
    found = collect(events.transform(rebalances()).orderBy("generation"))
    assert [(row["joined"], row["left"], row["member_count"]) for row in found] == [
        (["a"], [], 1),
        (["b"], [], 2),
    ]
    reads = collect(events.transform(assignments()).orderBy("member_id", "partition"))
    assert [(row["group_type"], row["member_id"], row["topic_id"], row["partition"]) for row in reads] == [
        ("share", "a", FLIGHTS_TEXT, 0),
        ("share", "a", FLIGHTS_TEXT, 1),
        ("share", "b", FLIGHTS_TEXT, 0),
    ]
