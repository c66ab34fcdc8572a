"""The records of consumer groups have columns, and rebalances and assignments include them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.coordinator_records import GROUP, NOW
from tests.spark.support import collect, rows_of, write_segment

import headgate.spark
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecordType,
    MemberState,
    encode,
)
from headgate.records import Record as LogRecord
from headgate.spark.group_transforms import assignments, rebalances, unknown_records
from headgate.spark.source import GROUP_EVENTS_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "__consumer_offsets"
G = GroupId("cg")
FLIGHTS = TopicId(bytes(range(16)))
FLIGHTS_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def member(name: str) -> ConsumerGroupMemberMetadata:
    """Return the metadata record of a member."""
    return ConsumerGroupMemberMetadata(
        group_id=G,
        member_id=MemberId(name),
        instance_id=InstanceId("i"),
        rack_id="r",
        client_id="c",
        client_host="/h",
        subscribed_topic_names=(TopicName("flights"),),
        subscribed_topic_regex="f.*",
        rebalance_timeout_ms=5,
        server_assignor="uniform",
    )


def assignment(name: str, epoch: int, *partitions: int) -> ConsumerGroupCurrentAssignment:
    """Return the current assignment record of a member."""
    return ConsumerGroupCurrentAssignment(
        group_id=G,
        member_id=MemberId(name),
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={FLIGHTS: dict.fromkeys(partitions, epoch)},
        pending_revocation={FLIGHTS: {9: 1}},
    )


def gone(kind: ConsumerRecordType, name: str = "") -> ConsumerGroupTombstone:
    """Return a tombstone of the group."""
    return ConsumerGroupTombstone(kind, G, name)


def epoch(number: int) -> ConsumerGroupMetadata:
    """Return the record of a group epoch."""
    return ConsumerGroupMetadata(group_id=G, epoch=number)


def write(directory: Path, records: list[LogRecord]) -> None:
    """Write a log of these records, a second apart."""
    written = [Record(*encode(record), NOW + 1000 * at) for at, record in enumerate(records)]
    write_segment(directory, TOPIC, 0, [encode_batch(written, leader_epoch=4)])


def test_every_record_of_a_consumer_group_is_columns(tmp_path: Path) -> None:
    """No content remains as bytes, tombstones included."""
    expression = ConsumerGroupRegularExpression(
        group_id=G,
        regular_expression="f.*",
        topics=(TopicName("flights"),),
        version=1,
        timestamp=Millis(NOW),
    )
    target = ConsumerGroupTargetMember(group_id=G, member_id=MemberId("a"), partitions={FLIGHTS: (1, 2)})
    records: list[LogRecord] = [
        member("a"),
        expression,
        epoch(7),
        ConsumerGroupTargetMetadata(group_id=G, assignment_epoch=7, assignment_timestamp=Millis(NOW)),
        target,
        assignment("a", 7, 1),
        gone(ConsumerRecordType.CURRENT_ASSIGNMENT, "a"),
        gone(ConsumerRecordType.REGULAR_EXPRESSION, "f.*"),
        gone(ConsumerRecordType.GROUP),
    ]
    write(tmp_path, records)
    rows = rows_of(GROUP_EVENTS_VIEW, tmp_path, TOPIC)
    said = [
        {name: value for name, value in row.items() if value is not None and name[:3] not in ("log", "rec")}
        for row in rows
    ]
    assert all(row.pop("group_id") == "cg" for row in said)
    assert {row["log_leader_epoch"] for row in rows} == {4}
    owned = {"topic_id": FLIGHTS_TEXT}
    expected: list[dict[str, Any]] = [
        {
            "event": "member",
            "member_id": "a",
            "group_instance_id": "i",
            "client_id": "c",
            "client_host": "/h",
            "rack_id": "r",
            "rebalance_timeout_ms": 5,
            "server_assignor": "uniform",
            "topics": ["flights"],
            "regular_expression": "f.*",
        },
        {
            "event": "regular_expression",
            "regular_expression": "f.*",
            "topics": ["flights"],
            "state_timestamp": rows[1]["state_timestamp"],
        },
        {"event": "group_epoch", "epoch": 7},
        {"event": "target_epoch", "epoch": 7, "state_timestamp": rows[1]["state_timestamp"]},
        {
            "event": "member_target",
            "member_id": "a",
            "assigned": [owned | {"partition": at, "assignment_epoch": None} for at in (1, 2)],
        },
        {
            "event": "member_assignment",
            "member_id": "a",
            "epoch": 7,
            "previous_epoch": 6,
            "member_state": "UNREVOKED_PARTITIONS",
            "assigned": [owned | {"partition": 1, "assignment_epoch": 7}],
            "pending_revocation": [owned | {"partition": 9, "assignment_epoch": 1}],
        },
        {"event": "member_assignment", "member_id": "a"},
        {"event": "regular_expression", "regular_expression": "f.*"},
        {"event": "group_epoch"},
    ]
    for index, row in enumerate(expected):
        row["is_tombstone"] = index >= 6
    assert said == expected


def test_rebalances_and_assignments_know_both_kinds_of_groups(spark: SparkSession, tmp_path: Path) -> None:
    """An epoch lists the members that joined and left before it; members have their last assignments.

    A record that repeats the epoch is no rebalance: the end of the last pause of an empty group writes one.
    """
    unheard_of = Record(b"\x12\x67whatever", b"v", NOW)
    records: list[LogRecord] = [
        GROUP,
        member("a"),
        epoch(1),
        assignment("a", 1, 0, 1),
        member("b"),
        member("a"),
        epoch(2),
        assignment("a", 2, 0),
        assignment("b", 2, 1),
        gone(ConsumerRecordType.CURRENT_ASSIGNMENT, "a"),
        gone(ConsumerRecordType.MEMBER, "a"),
        epoch(3),
        epoch(3),
        member("c"),
        epoch(4),
    ]
    write(tmp_path, records)
    write_segment(tmp_path, TOPIC, 1, [encode_batch([unheard_of])])
    events = headgate.spark.group_events(spark, tmp_path).cache()
    found = collect(events.transform(rebalances()).where("group_id = 'cg'").orderBy("generation"))
    assert [
        (row["generation"], row["joined"], row["left"], row["member_count"], row["since_previous_ms"])
        for row in found
    ] == [
        (1, ["a"], [], 1, None),
        (2, ["b"], [], 2, 4000),
        (3, [], ["a"], 1, 5000),
        (4, ["c"], [], 2, 3000),
    ]
    reads = collect(events.transform(assignments()).orderBy("group_id", "topic", "partition"))
    assert [
        (row["group_type"], row["member_id"], row["epoch"], row["topic"] or row["topic_id"], row["partition"])
        for row in reads
    ] == [
        ("consumer", "b", 2, FLIGHTS_TEXT, 1),
        ("classic", "m-1", 4, "a", 0),
        ("classic", "m-1", 4, "a", 3),
        ("classic", "m-1", 4, "b", 7),
    ]
    (unknown,) = collect(events.transform(unknown_records()))
    assert (unknown["record_type"], unknown["value"], unknown["log_partition"]) == (0x1267, b"v", 1)
