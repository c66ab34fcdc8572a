"""The records of a consumer group (key types 3 to 8 and 16) to and from bytes: value version 0, flexible.

The schemas are Kafka's. ConsumerGroupMetadataValue has two more tagged fields, which other readers skip: the
time at which the group became empty, and the epoch of the last removal of a member. Keys are not flexible.

Assignment epochs (KIP-1251, R1.6) can be missing, or differ in number from the partitions. Then each is the
member's epoch, but at least 0 (the epoch of a static member that left temporarily is -2).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import assert_never

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records.consumer_model import (
    NEVER,
    UNKNOWN_EPOCH,
    ClassicMemberMetadata,
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
    MemberState,
    OwnedPartitions,
    PartitionRacks,
    SubscribedTopic,
)
from headgate.records.offset_commit import text_bytes
from headgate.records.reader import Reader
from headgate.records.writer import (
    compact_array,
    compact_blob,
    compact_int32s,
    compact_text,
    int16_bytes,
    int32_bytes,
    int64_bytes,
    key_bytes,
    tagged_bytes,
    varint_bytes,
)

_VERSION = 0
_HEAD = int16_bytes(_VERSION)
_END = tagged_bytes({})

_METADATA_HASH_TAG = 0
_EMPTY_SINCE_TAG = 1000
_LAST_REMOVAL_EPOCH_TAG = 1001
_CLASSIC_TAG = 0
_TIMESTAMP_TAG = 0
_ASSIGNMENT_EPOCHS_TAG = 0
_EPOCHS_HEAD = bytes((1, _ASSIGNMENT_EPOCHS_TAG))
"""The start of tagged fields that hold the assignment epochs only."""

_TOPIC_ID_BYTES = 16
_NAMES_KEPT = 256
_KEY_HEADS_KEPT = 1024
_NAMED_TYPES = frozenset(
    {
        ConsumerRecordType.MEMBER,
        ConsumerRecordType.TARGET_MEMBER,
        ConsumerRecordType.CURRENT_ASSIGNMENT,
        ConsumerRecordType.REGULAR_EXPRESSION,
    }
)
"""Record types of which a group has several records, each with a name in its key."""

KEY_TYPES = frozenset(ConsumerRecordType)


# --- writing ---


def encode_consumer(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record. The value of a tombstone is None."""
    kind = ConsumerRecordType
    group_id = record.group_id
    match record:  # the most frequent types come first
        case ConsumerGroupCurrentAssignment():
            return _key(kind.CURRENT_ASSIGNMENT, group_id, record.member_id), _current_value(record)
        case ConsumerGroupTargetMember():
            return _key(kind.TARGET_MEMBER, group_id, record.member_id), _target_value(record)
        case ConsumerGroupMetadata():
            return _key_head(kind.GROUP, group_id), _group_value(record)
        case ConsumerGroupPartitionMetadata():
            return _key_head(kind.PARTITION_METADATA, group_id), _partition_metadata_value(record)
        case ConsumerGroupMemberMetadata():
            return _key(kind.MEMBER, group_id, record.member_id), _member_value(record)
        case ConsumerGroupTargetMetadata():
            return _key_head(kind.TARGET_METADATA, group_id), _target_metadata_value(record)
        case ConsumerGroupRegularExpression():
            key = _key(kind.REGULAR_EXPRESSION, group_id, record.regular_expression)
            return key, _regular_expression_value(record)
        case ConsumerGroupTombstone():
            if record.record_type not in _NAMED_TYPES:
                return _key_head(record.record_type, group_id), None
            return _key(record.record_type, group_id, record.name), None
    assert_never(record)


def _key(kind: ConsumerRecordType, group_id: GroupId, name: str) -> bytes:
    return _key_head(kind, group_id) + text_bytes(name)


@lru_cache(_KEY_HEADS_KEPT)
def _key_head(kind: ConsumerRecordType, group_id: GroupId) -> bytes:
    """Return the key of a record of the group, which is also the start of its members' keys."""
    return key_bytes(kind, group_id)


def _group_value(group: ConsumerGroupMetadata) -> bytes:
    fields = {}
    if group.metadata_hash:
        fields[_METADATA_HASH_TAG] = int64_bytes(group.metadata_hash)
    if group.empty_since != NEVER:
        fields[_EMPTY_SINCE_TAG] = int64_bytes(group.empty_since)
    if group.last_removal_epoch != UNKNOWN_EPOCH:
        fields[_LAST_REMOVAL_EPOCH_TAG] = int64_bytes(group.last_removal_epoch)
    return _HEAD + int32_bytes(group.epoch) + tagged_bytes(fields)


def _partition_metadata_value(metadata: ConsumerGroupPartitionMetadata) -> bytes:
    return _HEAD + compact_array(map(_subscribed_topic, metadata.topics)) + _END


def _subscribed_topic(topic: SubscribedTopic) -> bytes:
    racks = compact_array(
        [
            int32_bytes(one.partition) + compact_array(map(compact_text, one.racks)) + _END
            for one in topic.racks
        ]
    )
    return topic.topic_id + compact_text(topic.name) + int32_bytes(topic.partition_count) + racks + _END


def _member_value(member: ConsumerGroupMemberMetadata) -> bytes:
    fields = {}
    if member.classic is not None:
        protocols = compact_array(
            [
                compact_text(name) + compact_blob(metadata) + _END
                for name, metadata in member.classic.protocols
            ]
        )
        # A nullable struct begins with a byte: 1 if it is not null.
        fields[_CLASSIC_TAG] = b"\x01" + int32_bytes(member.classic.session_timeout_ms) + protocols + _END
    return b"".join(
        (
            _HEAD,
            compact_text(member.instance_id),
            compact_text(member.rack_id),
            compact_text(member.client_id),
            compact_text(member.client_host),
            _names(member.subscribed_topic_names),
            compact_text(member.subscribed_topic_regex),
            int32_bytes(member.rebalance_timeout_ms),
            compact_text(member.server_assignor),
            tagged_bytes(fields),
        )
    )


@lru_cache(_NAMES_KEPT)
def _names(names: tuple[TopicName, ...]) -> bytes:
    """Encode topic names. Cached, because the members of a group mostly have the same subscription."""
    return compact_array(map(compact_text, names))


def _target_metadata_value(target: ConsumerGroupTargetMetadata) -> bytes:
    fields = {}
    if target.assignment_timestamp:
        fields[_TIMESTAMP_TAG] = int64_bytes(target.assignment_timestamp)
    return _HEAD + int32_bytes(target.assignment_epoch) + tagged_bytes(fields)


def _target_value(target: ConsumerGroupTargetMember) -> bytes:
    topics = [
        topic_id + compact_int32s(sorted(partitions)) + _END
        for topic_id, partitions in sorted(target.partitions.items())
    ]
    return _HEAD + compact_array(topics) + _END


def _current_value(current: ConsumerGroupCurrentAssignment) -> bytes:
    return b"".join(
        (
            _HEAD,
            int32_bytes(current.member_epoch),
            int32_bytes(current.previous_member_epoch),
            bytes((current.state,)),
            _owned(current.assigned),
            _owned(current.pending_revocation),
            _END,
        )
    )


def _owned(owned: OwnedPartitions) -> bytes:
    topics: list[bytes] = []
    for topic_id, epochs in sorted(owned.items()):
        partitions = sorted(epochs)
        aligned = compact_int32s([epochs[partition] for partition in partitions])
        topics += (topic_id, compact_int32s(partitions), _EPOCHS_HEAD, varint_bytes(len(aligned)), aligned)
    return varint_bytes(len(owned) + 1) + b"".join(topics)


def _regular_expression_value(regex: ConsumerGroupRegularExpression) -> bytes:
    topics = compact_array(map(compact_text, regex.topics))
    return _HEAD + topics + int64_bytes(regex.version) + int64_bytes(regex.timestamp) + _END


# --- reading ---


def decode_consumer(key_type: int, key: Reader, value: bytes | None) -> ConsumerRecord:
    """Read a record. `key` is positioned after the key type, one of `KEY_TYPES`. Raises MalformedRecord."""
    kind = ConsumerRecordType(key_type)
    group_id = GroupId(key.text())
    name = key.text() if kind in _NAMED_TYPES else ""
    key.finish()
    if value is None:
        return ConsumerGroupTombstone(kind, group_id, name)
    what, read = _READERS[kind]
    reader = Reader(value, what)
    version = reader.int16()
    if version != _VERSION:
        raise reader.malformed(f"version {version} is not {_VERSION}")
    record = read(group_id, name, reader)
    reader.finish()
    return record


def _read_group(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupMetadata:
    epoch = reader.int32()
    fields = reader.tagged_fields()
    return ConsumerGroupMetadata(
        group_id=group_id,
        epoch=epoch,
        metadata_hash=_tagged_int64(fields, _METADATA_HASH_TAG, 0),
        empty_since=Millis(_tagged_int64(fields, _EMPTY_SINCE_TAG, NEVER)),
        last_removal_epoch=_tagged_int64(fields, _LAST_REMOVAL_EPOCH_TAG, UNKNOWN_EPOCH),
    )


def _tagged_int64(fields: dict[int, bytes], tag: int, default: int) -> int:
    if tag not in fields:
        return default
    reader = Reader(fields[tag], f"tagged field {tag}")
    number = reader.int64()
    reader.finish()
    return number


def _read_partition_metadata(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupPartitionMetadata:
    count = reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)
    topics = tuple(_read_subscribed_topic(reader) for _ in range(count))
    reader.tagged_fields()
    return ConsumerGroupPartitionMetadata(group_id=group_id, topics=topics)


def _read_subscribed_topic(reader: Reader) -> SubscribedTopic:
    topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
    name = TopicName(reader.text(is_flexible=True))
    partition_count = reader.int32()
    racks = []
    for _ in range(reader.count(smallest=6, is_flexible=True)):
        partition = reader.int32()
        racks.append(PartitionRacks(partition=partition, racks=_read_texts(reader)))
        reader.tagged_fields()
    reader.tagged_fields()
    return SubscribedTopic(topic_id=topic_id, name=name, partition_count=partition_count, racks=tuple(racks))


def _read_texts(reader: Reader) -> tuple[str, ...]:
    return tuple(reader.text(is_flexible=True) for _ in range(reader.count(smallest=1, is_flexible=True)))


def _read_member(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupMemberMetadata:
    instance_id = reader.nullable_text(is_flexible=True)
    rack_id = reader.nullable_text(is_flexible=True)
    client_id = reader.text(is_flexible=True)
    client_host = reader.text(is_flexible=True)
    topic_names = _read_texts(reader)
    regex = reader.nullable_text(is_flexible=True)
    rebalance_timeout_ms = reader.int32()
    server_assignor = reader.nullable_text(is_flexible=True)
    classic = reader.tagged_fields().get(_CLASSIC_TAG)
    return ConsumerGroupMemberMetadata(
        group_id=group_id,
        member_id=MemberId(name),
        instance_id=None if instance_id is None else InstanceId(instance_id),
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=tuple(map(TopicName, topic_names)),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic=None if classic is None else _read_classic(classic),
    )


def _read_classic(content: bytes) -> ClassicMemberMetadata | None:
    reader = Reader(content, "ClassicMemberMetadata")
    if reader.take(1) != b"\x01":
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.count(smallest=3, is_flexible=True)):
        protocols.append((reader.text(is_flexible=True), reader.blob(is_flexible=True)))
        reader.tagged_fields()
    reader.tagged_fields()
    reader.finish()
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def _read_target_metadata(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupTargetMetadata:
    epoch = reader.int32()
    fields = reader.tagged_fields()
    return ConsumerGroupTargetMetadata(
        group_id=group_id,
        assignment_epoch=epoch,
        assignment_timestamp=Millis(_tagged_int64(fields, _TIMESTAMP_TAG, 0)),
    )


def _read_int32s(reader: Reader) -> list[int]:
    return [reader.int32() for _ in range(reader.count(smallest=4, is_flexible=True))]


def _read_target(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupTargetMember:
    partitions = {}
    for _ in range(reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        partitions[topic_id] = tuple(sorted(_read_int32s(reader)))
        reader.tagged_fields()
    reader.tagged_fields()
    return ConsumerGroupTargetMember(group_id=group_id, member_id=MemberId(name), partitions=partitions)


def _read_current(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupCurrentAssignment:
    member_epoch = reader.int32()
    previous_member_epoch = reader.int32()
    state = reader.take(1)[0]
    assigned = _read_owned(reader, member_epoch)
    pending_revocation = _read_owned(reader, member_epoch)
    reader.tagged_fields()
    is_known = state in frozenset(MemberState)
    return ConsumerGroupCurrentAssignment(
        group_id=group_id,
        member_id=MemberId(name),
        member_epoch=member_epoch,
        previous_member_epoch=previous_member_epoch,
        state=MemberState(state) if is_known else MemberState.UNKNOWN,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def _read_owned(reader: Reader, member_epoch: int) -> OwnedPartitions:
    owned: dict[TopicId, dict[int, int]] = {}
    for _ in range(reader.count(smallest=_TOPIC_ID_BYTES, is_flexible=True)):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        partitions = _read_int32s(reader)
        epochs = _read_epochs(reader.tagged_fields().get(_ASSIGNMENT_EPOCHS_TAG))
        if epochs is None or len(epochs) != len(partitions):
            epochs = [max(member_epoch, 0)] * len(partitions)
        owned[topic_id] = dict(zip(partitions, epochs, strict=True))
    return owned


def _read_epochs(content: bytes | None) -> list[int] | None:
    if content is None or content == b"\x00":  # null
        return None
    reader = Reader(content, "AssignmentEpochs")
    epochs = _read_int32s(reader)
    reader.finish()
    return epochs


def _read_regular_expression(group_id: GroupId, name: str, reader: Reader) -> ConsumerGroupRegularExpression:
    topics = _read_texts(reader)
    version = reader.int64()
    timestamp = Millis(reader.int64())
    reader.tagged_fields()
    return ConsumerGroupRegularExpression(
        group_id=group_id,
        regular_expression=name,
        topics=tuple(map(TopicName, topics)),
        version=version,
        timestamp=timestamp,
    )


_Read = Callable[[GroupId, str, Reader], ConsumerRecord]

_READERS: dict[ConsumerRecordType, tuple[str, _Read]] = {
    ConsumerRecordType.GROUP: ("ConsumerGroupMetadataValue", _read_group),
    ConsumerRecordType.PARTITION_METADATA: ("ConsumerGroupPartitionMetadataValue", _read_partition_metadata),
    ConsumerRecordType.MEMBER: ("ConsumerGroupMemberMetadataValue", _read_member),
    ConsumerRecordType.TARGET_METADATA: ("ConsumerGroupTargetAssignmentMetadataValue", _read_target_metadata),
    ConsumerRecordType.TARGET_MEMBER: ("ConsumerGroupTargetAssignmentMemberValue", _read_target),
    ConsumerRecordType.CURRENT_ASSIGNMENT: ("ConsumerGroupCurrentMemberAssignmentValue", _read_current),
    ConsumerRecordType.REGULAR_EXPRESSION: (
        "ConsumerGroupRegularExpressionValue",
        _read_regular_expression,
    ),
}
"""The name of each value, for error messages, and the function that reads it."""
