"""The records of the coordinator's log except offset commits, one event each, for groups of every kind.

There are few of them compared with the commits, so they are read one by one, with the same `headgate.records`
as in the coordinator. No record is dropped: one without columns here, or with invalid content, keeps its key
and value unchanged.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from headgate.domain.assigned_partitions import read_assignment
from headgate.domain.ids import TopicPartition, topic_id_text
from headgate.log.batch_records import Records
from headgate.log.batch_scan import only
from headgate.records import (
    ChangeAuthor,
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    MalformedRecord,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    decode,
)
from headgate.records.consumer_model import is_consumer_record
from headgate.records.share_group_model import is_share_group_record
from headgate.spark import arrow
from headgate.spark.arrow import Rows
from headgate.spark.commit_columns import is_offset_commit
from headgate.spark.consumer_events import consumer_event
from headgate.spark.event_rows import MALFORMED, OTHER, Event, event_columns, keys_and_values
from headgate.spark.schemas import GROUP_EVENTS
from headgate.spark.share_events import share_event

RECORD_NAMES = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
    1000: "PausedTopicPartitions",
    1002: "ChangeAuthor",
}
"""Kafka's record types by the version of their key; from 1000 on those that only Headgate has.

Each key begins with the group id.
"""

CONSUMER_PROTOCOL = "consumer"
"""The protocol type whose assignments have a known format."""

_MARKER_EVENTS = {0: "transaction_aborted", 1: "transaction_committed"}
_MARKER_NAME = "TransactionMarker"


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return all records except offset commits, as `schemas.GROUP_EVENTS`."""
    return rows_of(only(records, ~is_offset_commit(records)), where)


def rows_of(records: Records, where: TopicPartition) -> Rows:
    """Return records none of which is an offset commit, as `schemas.GROUP_EVENTS`."""
    is_control, producer_id = records.is_control, records.batches.producer_id[records.batch]
    keys, values = keys_and_values(records)
    events = [
        _marker(key) if control else _event(key, value)
        for key, value, control in zip(keys, values, is_control.tolist(), strict=True)
    ]
    columns = event_columns(records, where, GROUP_EVENTS, events, (keys, values))
    columns["producer_id"] = lambda: arrow.integers(producer_id, pa.int64(), ~is_control)
    return Rows(len(records), columns)


def _marker(key: bytes | None) -> Event:
    """Return the event of a control record; its key is int16 version, int16 type."""
    if key is None or len(key) < 4:
        return {"event": MALFORMED}
    (kind,) = struct.unpack_from(">h", key, 2)
    return {"record_name": _MARKER_NAME, "event": _MARKER_EVENTS.get(kind, OTHER)}


def _event(key: bytes | None, value: bytes | None) -> Event:
    if key is None or len(key) < 2:
        return {"event": MALFORMED}
    (record_type,) = struct.unpack_from(">h", key)
    event: Event = {"record_type": record_type, "record_name": RECORD_NAMES.get(record_type)}
    if record_type in RECORD_NAMES:
        event["group_id"] = _group_id(key)
    try:
        record = decode(key, value)
    except MalformedRecord:
        return event | {"event": MALFORMED}
    match record:
        case GroupMetadata():
            return event | _group(record)
        case GroupTombstone():
            return event | {"event": "removed"}
        case PausedTopicPartitions():
            return event | {"event": "paused_partitions", "paused": _paused(record)}
        case PausedTopicPartitionsTombstone():
            return event | {"event": "paused_partitions"}
        case ChangeAuthor():
            return event | _author(record)
    if is_consumer_record(record):
        return event | consumer_event(record)
    if is_share_group_record(record):
        return event | share_event(record)
    return event | {"event": OTHER}


def _author(author: ChangeAuthor) -> Event:
    return {
        "event": "offsets_changed",
        "client_id": author.client_id,
        "client_host": author.client_host,
        "topics": [author.topic],
    }


def _group_id(key: bytes) -> str | None:
    size = int.from_bytes(key[2:4], "big", signed=True)
    return key[4 : 4 + size].decode("utf-8", "replace") if 0 <= size <= len(key) - 4 else None


def _group(group: GroupMetadata) -> Event:
    members = [_member(member, group.protocol_type) for member in group.members]
    return {
        "event": "assigned" if members else "emptied",
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "state_timestamp": arrow.microseconds(group.state_timestamp),
        "members": members,
    }


def _member(member: GroupMember, protocol_type: str) -> Event:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription": member.subscription,
        "assignment": member.assignment,
        "assigned": assigned_partitions(member.assignment) if protocol_type == CONSUMER_PROTOCOL else None,
    }


def _paused(record: PausedTopicPartitions) -> list[Event]:
    return [
        {
            "topic_id": topic_id_text(topic_id),
            "partition": partition,
            "paused_at": arrow.microseconds(pause.since),
            "caller": pause.caller,
            "reason": pause.reason,
        }
        for topic_id, pauses in record.partitions.items()
        for partition, pause in pauses.items()
    ]


def assigned_partitions(assignment: bytes) -> list[Event] | None:
    """Return the partitions in a ConsumerProtocolAssignment, by topic; None if the bytes are not one."""
    found = read_assignment(assignment)
    if found is None:
        return None
    return [
        {"topic": topic, "partition": partition}
        for topic, partitions in found.partitions.items()
        for partition in partitions
    ]
