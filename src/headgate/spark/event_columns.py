"""The records of the coordinator's log except offset commits, one event each, for groups of every kind.

There are few of them compared with the commits, so they are read one by one, with the same `headgate.records`
as in the coordinator. No record is dropped: one without columns here, or with invalid content, keeps its key
and value unchanged.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.domain.assigned_partitions import read_assignment
from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.log.batch_scan import only
from headgate.records import (
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    MalformedRecord,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    decode,
)
from headgate.records.consumer_model import is_consumer_record
from headgate.spark import arrow
from headgate.spark.arrow import Column, Rows
from headgate.spark.commit_columns import is_offset_commit
from headgate.spark.consumer_events import consumer_event, topic_id_text
from headgate.spark.schemas import GROUP_EVENTS, arrow_type

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
}
"""Kafka's record types by the version of their key, and that of KIP-1249, which has no number there yet.

Each key begins with the group id.
"""

CONSUMER_PROTOCOL = "consumer"
"""The protocol type whose assignments have a known format."""

_MARKER_EVENTS = {0: "transaction_aborted", 1: "transaction_committed"}
_MARKER_NAME = "TransactionMarker"

Event = dict[str, Any]


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return all records except offset commits, as `schemas.GROUP_EVENTS`."""
    return rows_of(only(records, ~is_offset_commit(records)), where)


def rows_of(records: Records, where: TopicPartition) -> Rows:
    """Return records none of which is an offset commit, as `schemas.GROUP_EVENTS`."""
    count = len(records)
    is_control, producer_id = records.is_control, records.batches.producer_id[records.batch]
    keys = arrow.binaries(records.payload, records.key_at, records.key_size).to_pylist()
    values = arrow.binaries(records.payload, records.value_at, records.value_size).to_pylist()
    events = [
        _marker(key) if control else _event(key, value)
        for key, value, control in zip(keys, values, is_control.tolist(), strict=True)
    ]
    raw = np.asarray([event["event"] in ("other", "malformed") for event in events], dtype=np.bool_)

    def column(name: str) -> Column:
        return lambda: pa.array([event.get(name) for event in events], type=_TYPES[name])

    def kept(cells: list[bytes | None]) -> Column:
        return lambda: pa.array(
            [cell if keep else None for cell, keep in zip(cells, raw.tolist(), strict=True)], type=pa.binary()
        )

    columns: dict[str, Column] = {
        "log_partition": lambda: arrow.constant(where.partition, count, pa.int32()),
        "log_offset": lambda: arrow.integers(records.offset, pa.int64()),
        "log_timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "log_leader_epoch": lambda: arrow.leader_epochs(records),
        **{name: column(name) for name in _DECODED},
        "is_tombstone": lambda: pa.array((records.value_size < 0) & ~is_control),
        "producer_id": lambda: arrow.integers(producer_id, pa.int64(), ~is_control),
        "key": kept(keys),
        "value": kept(values),
    }
    return Rows(count, columns)


_TYPES = {field.name: arrow_type(field.dataType) for field in GROUP_EVENTS}
_DECODED = (
    "record_type",
    "record_name",
    "group_id",
    "event",
    "generation",
    "protocol_type",
    "protocol",
    "leader",
    "state_timestamp",
    "members",
    "epoch",
    "previous_epoch",
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "rack_id",
    "rebalance_timeout_ms",
    "member_state",
    "server_assignor",
    "topics",
    "regular_expression",
    "assigned",
    "pending_revocation",
    "paused",
)


def _marker(key: bytes | None) -> Event:
    """Return the event of a control record; its key is int16 version, int16 type."""
    if key is None or len(key) < 4:
        return {"event": "malformed"}
    (kind,) = struct.unpack_from(">h", key, 2)
    return {"record_name": _MARKER_NAME, "event": _MARKER_EVENTS.get(kind, "other")}


def _event(key: bytes | None, value: bytes | None) -> Event:
    if key is None or len(key) < 2:
        return {"event": "malformed"}
    (record_type,) = struct.unpack_from(">h", key)
    event: Event = {"record_type": record_type, "record_name": RECORD_NAMES.get(record_type)}
    if record_type in RECORD_NAMES:
        event["group_id"] = _group_id(key)
    try:
        record = decode(key, value)
    except MalformedRecord:
        return event | {"event": "malformed"}
    match record:
        case GroupMetadata():
            return event | _group(record)
        case GroupTombstone():
            return event | {"event": "removed"}
        case PausedTopicPartitions():
            return event | {"event": "paused_partitions", "paused": _paused(record)}
        case PausedTopicPartitionsTombstone():
            return event | {"event": "paused_partitions"}
    if is_consumer_record(record):
        return event | consumer_event(record)
    return event | {"event": "other"}


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
