"""The records of share groups (KIP-932) in the coordinator's log as events: key types 10 to 15.

Events that share groups have in common with consumer groups have the same names; `record_type` tells them
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from headgate.domain.ids import TopicId, topic_id_text
from headgate.records.consumer_model import TargetPartitions
from headgate.records.share_group_model import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareGroupStatePartitions,
    ShareGroupTargetMember,
    ShareGroupTargetMetadata,
    ShareGroupTombstone,
    TopicPartitions,
)
from headgate.spark.arrow import microseconds

Event = dict[str, Any]

_EVENTS = {
    ShareGroupRecordType.MEMBER: "member",
    ShareGroupRecordType.GROUP: "group_epoch",
    ShareGroupRecordType.TARGET_METADATA: "target_epoch",
    ShareGroupRecordType.TARGET_MEMBER: "member_target",
    ShareGroupRecordType.CURRENT_ASSIGNMENT: "member_assignment",
    ShareGroupRecordType.STATE_PARTITIONS: "share_partitions",
}


def share_event(record: ShareGroupRecord) -> Event:
    """Return a record by the columns of `schemas.GROUP_EVENTS`; a tombstone has its record's event."""
    match record:
        case ShareGroupTombstone():
            return {"event": _EVENTS[record.record_type], "member_id": record.name or None}
        case ShareGroupMetadata():
            return {"event": "group_epoch", "epoch": record.epoch}
        case ShareGroupMemberMetadata():
            return _member(record)
        case ShareGroupTargetMetadata():
            return {
                "event": "target_epoch",
                "epoch": record.assignment_epoch,
                "state_timestamp": microseconds(record.assignment_timestamp or -1),
            }
        case ShareGroupTargetMember():
            assigned = _assigned(record.partitions)
            return {"event": "member_target", "member_id": record.member_id, "assigned": assigned}
        case ShareGroupCurrentAssignment():
            return {
                "event": "member_assignment",
                "member_id": record.member_id,
                "epoch": record.member_epoch,
                "previous_epoch": record.previous_member_epoch,
                "assigned": _assigned(record.assigned),
            }
        case ShareGroupStatePartitions():
            return {
                "event": "share_partitions",
                "initializing": _named(record.initializing),
                "initialized": _named(record.initialized),
                "deleting": [
                    {"topic_id": topic_id_text(topic_id), "topic": name}
                    for topic_id, name in record.deleting.items()
                ],
            }
    assert_never(record)


def _member(record: ShareGroupMemberMetadata) -> Event:
    return {
        "event": "member",
        "member_id": record.member_id,
        "client_id": record.client_id,
        "client_host": record.client_host,
        "rack_id": record.rack_id,
        "topics": list(record.subscribed_topic_names),
    }


def _assigned(partitions: TargetPartitions) -> list[Event]:
    return [
        {"topic_id": topic_id_text(topic_id), "partition": partition}
        for topic_id, indexes in partitions.items()
        for partition in indexes
    ]


def _named(topics: Mapping[TopicId, TopicPartitions]) -> list[Event]:
    return [
        {"topic_id": topic_id_text(topic_id), "topic": topic.name, "partition": partition}
        for topic_id, topic in topics.items()
        for partition in topic.partitions
    ]
