"""The records of consumer groups (KIP-848) as events: key types 3 to 8 and 16.

These records have topic ids, not names; ids are shown as Kafka shows them, in URL-safe Base64.
"""

from __future__ import annotations

from typing import Any, assert_never

from headgate.domain.ids import topic_id_text
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
)
from headgate.records.consumer_model import OwnedPartitions, TargetPartitions
from headgate.spark.arrow import microseconds

Event = dict[str, Any]

_EVENTS = {
    ConsumerRecordType.GROUP: "group_epoch",
    ConsumerRecordType.PARTITION_METADATA: "partition_metadata",
    ConsumerRecordType.MEMBER: "member",
    ConsumerRecordType.TARGET_METADATA: "target_epoch",
    ConsumerRecordType.TARGET_MEMBER: "member_target",
    ConsumerRecordType.CURRENT_ASSIGNMENT: "member_assignment",
    ConsumerRecordType.REGULAR_EXPRESSION: "regular_expression",
}


def consumer_event(record: ConsumerRecord) -> Event:
    """Return a record by the columns of `schemas.GROUP_EVENTS`; a tombstone has its record's event."""
    match record:
        case ConsumerGroupTombstone():
            return _tombstone(record)
        case ConsumerGroupMetadata():
            return {"event": "group_epoch", "epoch": record.epoch}
        case ConsumerGroupPartitionMetadata():
            return {"event": "partition_metadata", "topics": sorted(topic.name for topic in record.topics)}
        case ConsumerGroupMemberMetadata():
            return _member(record)
        case ConsumerGroupTargetMetadata():
            return {
                "event": "target_epoch",
                "epoch": record.assignment_epoch,
                "state_timestamp": microseconds(record.assignment_timestamp or -1),
            }
        case ConsumerGroupTargetMember():
            return {
                "event": "member_target",
                "member_id": record.member_id,
                "assigned": _target(record.partitions),
            }
        case ConsumerGroupCurrentAssignment():
            return {
                "event": "member_assignment",
                "member_id": record.member_id,
                "epoch": record.member_epoch,
                "previous_epoch": record.previous_member_epoch,
                "member_state": record.state.name,
                "assigned": _owned(record.assigned),
                "pending_revocation": _owned(record.pending_revocation),
            }
        case ConsumerGroupRegularExpression():
            return {
                "event": "regular_expression",
                "regular_expression": record.regular_expression,
                "topics": list(record.topics),
                "state_timestamp": microseconds(record.timestamp),
            }
    assert_never(record)


def _tombstone(record: ConsumerGroupTombstone) -> Event:
    event: Event = {"event": _EVENTS[record.record_type]}
    if record.record_type is ConsumerRecordType.REGULAR_EXPRESSION:
        event["regular_expression"] = record.name
    elif record.name:
        event["member_id"] = record.name
    return event


def _member(record: ConsumerGroupMemberMetadata) -> Event:
    return {
        "event": "member",
        "member_id": record.member_id,
        "group_instance_id": record.instance_id,
        "client_id": record.client_id,
        "client_host": record.client_host,
        "rack_id": record.rack_id,
        "rebalance_timeout_ms": record.rebalance_timeout_ms,
        "topics": list(record.subscribed_topic_names),
        "regular_expression": record.subscribed_topic_regex,
        "server_assignor": record.server_assignor,
    }


def _target(partitions: TargetPartitions) -> list[Event]:
    return [
        {"topic_id": topic_id_text(topic_id), "partition": partition, "assignment_epoch": None}
        for topic_id, indexes in partitions.items()
        for partition in indexes
    ]


def _owned(partitions: OwnedPartitions) -> list[Event]:
    return [
        {"topic_id": topic_id_text(topic_id), "partition": partition, "assignment_epoch": epoch}
        for topic_id, epochs in partitions.items()
        for partition, epoch in epochs.items()
    ]
