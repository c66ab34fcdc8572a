"""The records of a share group (key types 10 to 15) to and from bytes: value version 0, flexible.

The schemas are Kafka's. Keys are not flexible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.domain.ids import GroupId, MemberId, Millis, TopicId, TopicName
from headgate.records.consumer_model import NO_ASSIGNMENT_YET, TargetPartitions
from headgate.records.reader import Reader
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
from headgate.records.writer import (
    compact_array,
    compact_int32s,
    compact_text,
    int16_bytes,
    int32_bytes,
    int64_bytes,
    key_bytes,
    tagged_bytes,
)

KEY_TYPES: Final = frozenset(ShareGroupRecordType)

_VERSION: Final = 0
_HEAD: Final = int16_bytes(_VERSION)
_END: Final = tagged_bytes({})
_STABLE: Final = b"\x00"
_TIMESTAMP_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16
_NAMED_TYPES: Final = frozenset(
    {
        ShareGroupRecordType.MEMBER,
        ShareGroupRecordType.TARGET_MEMBER,
        ShareGroupRecordType.CURRENT_ASSIGNMENT,
    }
)


# --- writing ---


def encode_share_group(record: ShareGroupRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record. The value of a tombstone is None."""
    kind, group_id = ShareGroupRecordType, record.group_id
    match record:
        case ShareGroupCurrentAssignment(member_id=member_id):
            return key_bytes(kind.CURRENT_ASSIGNMENT, group_id, member_id), _current_value(record)
        case ShareGroupTargetMember(member_id=member_id):
            value = _HEAD + _partitions(record.partitions) + _END
            return key_bytes(kind.TARGET_MEMBER, group_id, member_id), value
        case ShareGroupMetadata():
            value = _HEAD + int32_bytes(record.epoch) + int64_bytes(record.metadata_hash) + _END
            return key_bytes(kind.GROUP, group_id), value
        case ShareGroupMemberMetadata(member_id=member_id):
            return key_bytes(kind.MEMBER, group_id, member_id), _member_value(record)
        case ShareGroupTargetMetadata():
            return key_bytes(kind.TARGET_METADATA, group_id), _target_metadata_value(record)
        case ShareGroupStatePartitions():
            return key_bytes(kind.STATE_PARTITIONS, group_id), _state_partitions_value(record)
        case ShareGroupTombstone(record_type, _, name):
            names = (group_id, name) if record_type in _NAMED_TYPES else (group_id,)
            return key_bytes(record_type, *names), None


def _current_value(record: ShareGroupCurrentAssignment) -> bytes:
    epochs = int32_bytes(record.member_epoch) + int32_bytes(record.previous_member_epoch)
    return _HEAD + epochs + _STABLE + _partitions(record.assigned) + _END


def _member_value(record: ShareGroupMemberMetadata) -> bytes:
    texts = (compact_text(record.rack_id), compact_text(record.client_id), compact_text(record.client_host))
    return _HEAD + b"".join(texts) + compact_array(map(compact_text, record.subscribed_topic_names)) + _END


def _target_metadata_value(record: ShareGroupTargetMetadata) -> bytes:
    timestamp = record.assignment_timestamp
    fields = {} if timestamp == NO_ASSIGNMENT_YET else {_TIMESTAMP_TAG: int64_bytes(timestamp)}
    return _HEAD + int32_bytes(record.assignment_epoch) + tagged_bytes(fields)


def _state_partitions_value(record: ShareGroupStatePartitions) -> bytes:
    deleting = compact_array(
        topic_id + compact_text(name) + _END for topic_id, name in sorted(record.deleting.items())
    )
    return _HEAD + _named(record.initializing) + _named(record.initialized) + deleting + _END


def _partitions(partitions: TargetPartitions) -> bytes:
    return compact_array(
        topic_id + compact_int32s(indexes) + _END for topic_id, indexes in sorted(partitions.items())
    )


def _named(topics: Mapping[TopicId, TopicPartitions]) -> bytes:
    return compact_array(
        topic_id + compact_text(name) + compact_int32s(indexes) + _END
        for topic_id, (name, indexes) in sorted(topics.items())
    )


# --- reading ---


def decode_share_group(key_type: int, key: Reader, value: bytes | None) -> ShareGroupRecord:
    """Read a record. `key` is positioned after the key type, one of `KEY_TYPES`. Raises MalformedRecord."""
    kind = ShareGroupRecordType(key_type)
    group_id = GroupId(key.text())
    name = key.text() if kind in _NAMED_TYPES else ""
    key.finish()
    if value is None:
        return ShareGroupTombstone(kind, group_id, name)
    reader = Reader(value, f"share group {kind.name.lower().replace('_', ' ')}")
    version = reader.int16()
    if version != _VERSION:
        raise reader.malformed(f"version {version} is not {_VERSION}")
    record = _read(kind, group_id, MemberId(name), reader)
    reader.finish()
    return record


def _read(
    kind: ShareGroupRecordType, group_id: GroupId, member_id: MemberId, reader: Reader
) -> ShareGroupRecord:
    match kind:
        case ShareGroupRecordType.MEMBER:
            return _read_member(group_id, member_id, reader)
        case ShareGroupRecordType.GROUP:
            epoch, metadata_hash = reader.int32(), reader.int64()
            reader.tagged_fields()
            return ShareGroupMetadata(group_id=group_id, epoch=epoch, metadata_hash=metadata_hash)
        case ShareGroupRecordType.TARGET_METADATA:
            return _read_target_metadata(group_id, reader)
        case ShareGroupRecordType.TARGET_MEMBER:
            partitions = _read_partitions(reader)
            reader.tagged_fields()
            return ShareGroupTargetMember(group_id=group_id, member_id=member_id, partitions=partitions)
        case ShareGroupRecordType.CURRENT_ASSIGNMENT:
            return _read_current(group_id, member_id, reader)
        case ShareGroupRecordType.STATE_PARTITIONS:
            return _read_state_partitions(group_id, reader)


def _read_member(group_id: GroupId, member_id: MemberId, reader: Reader) -> ShareGroupMemberMetadata:
    rack_id = reader.nullable_text(is_flexible=True)
    client_id, client_host = reader.text(is_flexible=True), reader.text(is_flexible=True)
    count = reader.count(smallest=1, is_flexible=True)
    names = {TopicName(reader.text(is_flexible=True)) for _ in range(count)}
    reader.tagged_fields()
    return ShareGroupMemberMetadata(
        group_id=group_id,
        member_id=member_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=tuple(sorted(names)),
    )


def _read_target_metadata(group_id: GroupId, reader: Reader) -> ShareGroupTargetMetadata:
    epoch = reader.int32()
    fields = reader.tagged_fields()
    timestamp = NO_ASSIGNMENT_YET
    if _TIMESTAMP_TAG in fields:
        inner = Reader(fields[_TIMESTAMP_TAG], "share group assignment timestamp")
        timestamp = Millis(inner.int64())
        inner.finish()
    return ShareGroupTargetMetadata(group_id=group_id, assignment_epoch=epoch, assignment_timestamp=timestamp)


def _read_current(group_id: GroupId, member_id: MemberId, reader: Reader) -> ShareGroupCurrentAssignment:
    epoch, previous = reader.int32(), reader.int32()
    reader.take(len(_STABLE))
    assigned = _read_partitions(reader)
    reader.tagged_fields()
    return ShareGroupCurrentAssignment(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        previous_member_epoch=previous,
        assigned=assigned,
    )


def _read_state_partitions(group_id: GroupId, reader: Reader) -> ShareGroupStatePartitions:
    initializing, initialized = _read_named(reader), _read_named(reader)
    deleting: dict[TopicId, TopicName] = {}
    for _ in range(reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        deleting[topic_id] = TopicName(reader.text(is_flexible=True))
        reader.tagged_fields()
    reader.tagged_fields()
    return ShareGroupStatePartitions(
        group_id=group_id, initializing=initializing, initialized=initialized, deleting=deleting
    )


def _read_indexes(reader: Reader) -> tuple[int, ...]:
    count = reader.count(smallest=4, is_flexible=True)
    return tuple(sorted({reader.int32() for _ in range(count)}))


def _read_partitions(reader: Reader) -> TargetPartitions:
    partitions: dict[TopicId, tuple[int, ...]] = {}
    for _ in range(reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        partitions[topic_id] = _read_indexes(reader)
        reader.tagged_fields()
    return partitions


def _read_named(reader: Reader) -> dict[TopicId, TopicPartitions]:
    topics: dict[TopicId, TopicPartitions] = {}
    for _ in range(reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        name = TopicName(reader.text(is_flexible=True))
        topics[topic_id] = TopicPartitions(name, _read_indexes(reader))
        reader.tagged_fields()
    return topics
