"""The records of consumer groups in words and as JSON values; `explain` has all other records."""

from __future__ import annotations

from typing import Any

from headgate.domain.ids import topic_id_text
from headgate.domain.wording import counted
from headgate.inspect.wording import plain, quoted, time_text
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
from headgate.records.consumer_model import NEVER, UNKNOWN_EPOCH, OwnedPartitions, TargetPartitions

Json = dict[str, Any]

_GONE = {
    ConsumerRecordType.GROUP: "was removed",
    ConsumerRecordType.PARTITION_METADATA: "has no topics recorded any more",
    ConsumerRecordType.MEMBER: "has no member {name} any more",
    ConsumerRecordType.TARGET_METADATA: "has no target assignment any more",
    ConsumerRecordType.TARGET_MEMBER: "has no target assignment for {name} any more",
    ConsumerRecordType.CURRENT_ASSIGNMENT: "has no current assignment of {name} any more",
    ConsumerRecordType.REGULAR_EXPRESSION: "does not use the regular expression {name} any more",
}


def consumer_record(record: ConsumerRecord) -> Json:
    """Return a decoded record of a consumer group as JSON; `words` is a sentence."""
    kind, words, fields = _meaning(record)
    subject = f"consumer group {quoted(record.group_id)}"
    if isinstance(record, ConsumerGroupTombstone):
        subject = f"tombstone: {subject}"
    return {"kind": kind, "words": f"{subject} {words}", "group": record.group_id, **fields}


def _meaning(record: ConsumerRecord) -> tuple[str, str, Json]:
    match record:
        case ConsumerGroupMetadata():
            return _group(record)
        case ConsumerGroupPartitionMetadata():
            words = f"is subscribed to {counted(len(record.topics), 'topic')}"
            names = [topic.name for topic in record.topics]
            return "consumer-group-partition-metadata", words, {"topics": names}
        case ConsumerGroupMemberMetadata():
            return _member(record)
        case ConsumerGroupTargetMetadata(assignment_epoch=epoch, assignment_timestamp=timestamp):
            fields: Json = {"assignment_epoch": epoch, "assignment_timestamp": timestamp}
            return "consumer-group-target", f"has a target assignment for epoch {epoch}", fields
        case ConsumerGroupTargetMember(member_id=member_id, partitions=partitions):
            count = sum(map(len, partitions.values()))
            words = f"has a target assignment of {counted(count, 'partition')} for {plain(member_id)}"
            fields = {"member_id": member_id, "partitions": _target(partitions)}
            return "consumer-group-target-member", words, fields
        case ConsumerGroupCurrentAssignment():
            return _current(record)
        case ConsumerGroupRegularExpression(regular_expression=regex, topics=topics):
            words = f"matches {counted(len(topics), 'topic')} with {quoted(regex)}"
            return "consumer-group-regex", words, {"regular_expression": regex, "topics": list(topics)}
        case ConsumerGroupTombstone(record_type=record_type, name=name):
            words = _GONE[record_type].format(name=quoted(name))
            return "consumer-group-tombstone", words, {"record_type": record_type.value, "name": name}


def _group(group: ConsumerGroupMetadata) -> tuple[str, str, Json]:
    words = f"is in epoch {group.epoch}"
    if group.empty_since != NEVER:
        words += f", empty since {time_text(group.empty_since)}"
    fields = {
        "epoch": group.epoch,
        "metadata_hash": group.metadata_hash,
        "empty_since": None if group.empty_since == NEVER else group.empty_since,
        "last_removal_epoch": None if group.last_removal_epoch == UNKNOWN_EPOCH else group.last_removal_epoch,
    }
    return "consumer-group-metadata", words, fields


def _member(member: ConsumerGroupMemberMetadata) -> tuple[str, str, Json]:
    regex = member.subscribed_topic_regex
    read = ", ".join(map(plain, member.subscribed_topic_names))
    if regex:
        read = f"{read} and {quoted(regex)}" if read else quoted(regex)
    words = f"has member {plain(member.member_id)}, subscribed to {read or 'nothing'}"
    fields = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "subscribed_topic_regex": regex,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "server_assignor": member.server_assignor,
        "uses_classic_protocol": member.classic is not None,
    }
    return "consumer-group-member", words, fields


def _current(current: ConsumerGroupCurrentAssignment) -> tuple[str, str, Json]:
    count = sum(map(len, current.assigned.values()))
    words = (
        f"has {plain(current.member_id)} in epoch {current.member_epoch} with {counted(count, 'partition')}"
    )
    pending = sum(map(len, current.pending_revocation.values()))
    if pending:
        words += f" and {pending} to revoke"
    fields = {
        "member_id": current.member_id,
        "member_epoch": current.member_epoch,
        "previous_member_epoch": current.previous_member_epoch,
        "state": current.state.name,
        "assigned": _owned(current.assigned),
        "pending_revocation": _owned(current.pending_revocation),
    }
    return "consumer-group-assignment", words, fields


def _target(partitions: TargetPartitions) -> list[Json]:
    return [
        {"topic_id": topic_id_text(topic_id), "partitions": list(indexes)}
        for topic_id, indexes in sorted(partitions.items())
    ]


def _owned(owned: OwnedPartitions) -> list[Json]:
    return [
        {
            "topic_id": topic_id_text(topic_id),
            "partitions": sorted(epochs),
            "assignment_epochs": [epochs[partition] for partition in sorted(epochs)],
        }
        for topic_id, epochs in sorted(owned.items())
    ]
