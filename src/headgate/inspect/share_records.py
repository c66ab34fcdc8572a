"""The records of share groups in words and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.domain.ids import TopicId, topic_id_text
from headgate.domain.wording import counted
from headgate.inspect.wording import plain, quoted
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

Json = dict[str, Any]

_GONE = {
    ShareGroupRecordType.GROUP: "was removed",
    ShareGroupRecordType.MEMBER: "has no member {name} any more",
    ShareGroupRecordType.TARGET_METADATA: "has no target assignment any more",
    ShareGroupRecordType.TARGET_MEMBER: "has no target assignment for {name} any more",
    ShareGroupRecordType.CURRENT_ASSIGNMENT: "has no current assignment of {name} any more",
    ShareGroupRecordType.STATE_PARTITIONS: "has no share-partitions recorded any more",
}


def share_record(record: ShareGroupRecord) -> Json:
    """Return a decoded record of a share group as JSON; `words` is a sentence."""
    kind, words, fields = _meaning(record)
    subject = f"share group {quoted(record.group_id)}"
    if isinstance(record, ShareGroupTombstone):
        subject = f"tombstone: {subject}"
    return {"kind": kind, "words": f"{subject} {words}", "group": record.group_id, **fields}


def _meaning(record: ShareGroupRecord) -> tuple[str, str, Json]:
    match record:
        case ShareGroupMetadata(epoch=epoch, metadata_hash=metadata_hash):
            return (
                "share-group-metadata",
                f"is in epoch {epoch}",
                {"epoch": epoch, "metadata_hash": metadata_hash},
            )
        case ShareGroupMemberMetadata():
            return _member(record)
        case ShareGroupTargetMetadata(assignment_epoch=epoch, assignment_timestamp=timestamp):
            fields: Json = {"assignment_epoch": epoch, "assignment_timestamp": timestamp}
            return "share-group-target", f"has a target assignment for epoch {epoch}", fields
        case ShareGroupTargetMember(member_id=member_id, partitions=partitions):
            words = f"has a target assignment of {_count(partitions)} for {plain(member_id)}"
            fields = {"member_id": member_id, "partitions": _target(partitions)}
            return "share-group-target-member", words, fields
        case ShareGroupCurrentAssignment():
            return _current(record)
        case ShareGroupStatePartitions():
            return _states(record)
        case ShareGroupTombstone(record_type=record_type, name=name):
            words = _GONE[record_type].format(name=quoted(name))
            return "share-group-tombstone", words, {"record_type": record_type.value, "name": name}


def _member(member: ShareGroupMemberMetadata) -> tuple[str, str, Json]:
    read = ", ".join(map(plain, member.subscribed_topic_names))
    words = f"has member {plain(member.member_id)}, subscribed to {read or 'nothing'}"
    fields = {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topic_names),
    }
    return "share-group-member", words, fields


def _current(current: ShareGroupCurrentAssignment) -> tuple[str, str, Json]:
    words = f"has {plain(current.member_id)} in epoch {current.member_epoch} with {_count(current.assigned)}"
    fields = {
        "member_id": current.member_id,
        "member_epoch": current.member_epoch,
        "previous_member_epoch": current.previous_member_epoch,
        "assigned": _target(current.assigned),
    }
    return "share-group-assignment", words, fields


def _states(record: ShareGroupStatePartitions) -> tuple[str, str, Json]:
    parts = [f"{counted(sum(len(one.partitions) for one in record.initialized.values()), 'share-partition')}"]
    coming = sum(len(one.partitions) for one in record.initializing.values())
    if coming:
        parts.append(f"{coming} to initialize")
    if record.deleting:
        parts.append(f"states of {counted(len(record.deleting), 'topic')} to delete")
    fields = {
        "initializing": _named(record.initializing),
        "initialized": _named(record.initialized),
        "deleting": [
            {"topic_id": topic_id_text(topic_id), "topic": name}
            for topic_id, name in sorted(record.deleting.items())
        ],
    }
    return "share-group-partitions", f"has {', '.join(parts)}", fields


def _count(partitions: TargetPartitions) -> str:
    return counted(sum(map(len, partitions.values())), "partition")


def _target(partitions: TargetPartitions) -> list[Json]:
    return [
        {"topic_id": topic_id_text(topic_id), "partitions": list(indexes)}
        for topic_id, indexes in sorted(partitions.items())
    ]


def _named(topics: Mapping[TopicId, TopicPartitions]) -> list[Json]:
    return [
        {"topic_id": topic_id_text(topic_id), "topic": name, "partitions": list(indexes)}
        for topic_id, (name, indexes) in sorted(topics.items())
    ]
