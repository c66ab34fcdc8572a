"""OffsetCommitKey (types 0 and 1) and OffsetCommitValue: reads versions 0 to 4, writes 3.

Only version 1 has an expiry. An offset with an expiry is therefore written in version 1, without its leader
epoch, as in Kafka. Version 4 is read but not written, because tools that read the topic fail on it. Both key
types have the same format. Type 0 comes from brokers before 0.9 and is never written.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId, TopicName
from headgate.records.errors import MalformedRecord
from headgate.records.model import NO_EXPIRY, NO_LEADER_EPOCH, OffsetCommit, OffsetTombstone
from headgate.records.reader import Reader

LEGACY_KEY_TYPE = 0
KEY_TYPE = 1
KEY_STARTS = (struct.pack(">h", KEY_TYPE), struct.pack(">h", LEGACY_KEY_TYPE))
"""The first two bytes of the keys of offsets."""

WRITTEN_VERSION = 3
EXPIRY_VERSION = 1
FLEXIBLE_VERSION = 4

LONGEST_TEXT_BYTES = 0x7FFF
"""Limit for metadata and names: their lengths have two bytes."""

_TOPIC_ID_TAG = 0
_PREFIXES_KEPT = 8192

_PARTITION_BYTES = 4
_pack_length = struct.Struct(">h").pack
_pack_partition = struct.Struct(">i").pack
_unpack_partition = struct.Struct(">i").unpack
_without_metadata = struct.Struct(">hqihq")
_pack_expiry_head = struct.Struct(">hqh").pack
_pack_expiry_tail = struct.Struct(">qq").pack
_pack_between = struct.Struct(">ih").pack
pack_int64 = struct.Struct(">q").pack
INT64_BYTES = 8


def text_bytes(text: str) -> bytes:
    """Return a string as UTF-8 after its two-byte length."""
    encoded = text.encode()
    return _pack_length(len(encoded)) + encoded


def _key_prefix(group_id: str, topic: str) -> bytes:
    return KEY_STARTS[0] + text_bytes(group_id) + text_bytes(topic)


@lru_cache(maxsize=_PREFIXES_KEPT)
def key_prefix(group_id: str, topic: str) -> bytes:
    """Return the key without the partition, which is its last four bytes."""
    return _key_prefix(group_id, topic)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the whole key."""
    return _key_prefix(group_id, topic) + _pack_partition(partition)


def encode_commit(commit: OffsetCommit) -> tuple[bytes, bytes]:
    """Return the key and the value of a committed offset."""
    key = offset_key(commit.group_id, commit.topic, commit.partition)
    if commit.expire_timestamp != NO_EXPIRY:
        return key, _encode_with_expiry(commit)
    between = between_offset_and_timestamp(commit.leader_epoch, commit.metadata)
    return key, VALUE_START + pack_int64(commit.offset) + between + pack_int64(commit.commit_timestamp)


VALUE_START = struct.pack(">h", WRITTEN_VERSION)
"""The bytes before the offset in a value without an expiry. The commit timestamp is at its end."""


def between_offset_and_timestamp(leader_epoch: int, metadata: str) -> bytes:
    """Return the bytes between the offset and the commit timestamp in such a value."""
    text = metadata.encode()
    return _pack_between(leader_epoch, len(text)) + text


def _encode_with_expiry(commit: OffsetCommit) -> bytes:
    metadata = commit.metadata.encode()
    head = _pack_expiry_head(EXPIRY_VERSION, commit.offset, len(metadata))
    return head + metadata + _pack_expiry_tail(commit.commit_timestamp, commit.expire_timestamp)


def encode_tombstone(tombstone: OffsetTombstone) -> tuple[bytes, None]:
    """Return the key of a removed offset, and None as the value."""
    return offset_key(tombstone.group_id, tombstone.topic, tombstone.partition), None


@lru_cache(maxsize=_PREFIXES_KEPT)
def names_of(prefix: bytes) -> tuple[GroupId, TopicName]:
    """Return group and topic of a key without its partition. Raises MalformedRecord."""
    reader = Reader(prefix, "OffsetCommitKey")
    reader.int16()
    names = GroupId(reader.text()), TopicName(reader.text())
    reader.finish()
    return names


def decode_offset(key: bytes, value: bytes | None) -> OffsetCommit | OffsetTombstone:
    """Read an offset from its whole key and its value. Raises MalformedRecord."""
    group_id, topic = names_of(key[:-_PARTITION_BYTES])  # raises for a key that is too short
    (partition,) = _unpack_partition(key[-_PARTITION_BYTES:])
    if value is None:
        return OffsetTombstone(group_id, topic, partition)
    if len(value) == _without_metadata.size:  # the most frequent case, and much faster than `_decode_value`
        version, offset, leader_epoch, metadata_size, timestamp = _without_metadata.unpack(value)
        if version == WRITTEN_VERSION and metadata_size == 0:
            return OffsetCommit(group_id, topic, partition, offset, leader_epoch, "", timestamp)
    return _decode_value(group_id, topic, partition, value)


def _decode_value(group_id: GroupId, topic: TopicName, partition: int, value: bytes) -> OffsetCommit:
    reader = Reader(value, "OffsetCommitValue")
    version = reader.int16()
    if not 0 <= version <= FLEXIBLE_VERSION:
        raise MalformedRecord(f"OffsetCommitValue: version {version} is not in 0 to {FLEXIBLE_VERSION}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.text(is_flexible=version >= FLEXIBLE_VERSION)
    commit_timestamp = Millis(reader.int64())
    expire_timestamp = Millis(reader.int64()) if version == EXPIRY_VERSION else NO_EXPIRY
    topic_id = _read_topic_id(reader) if version >= FLEXIBLE_VERSION else ZERO_TOPIC_ID
    reader.finish()
    return OffsetCommit(
        group_id,
        topic,
        partition,
        offset,
        leader_epoch,
        metadata,
        commit_timestamp,
        expire_timestamp,
        topic_id,
    )


def _read_topic_id(reader: Reader) -> TopicId:
    topic_id = reader.tagged_fields().get(_TOPIC_ID_TAG, ZERO_TOPIC_ID)
    if len(topic_id) != len(ZERO_TOPIC_ID):
        raise reader.malformed(f"a topic id of {len(topic_id)} bytes")
    return TopicId(topic_id)
