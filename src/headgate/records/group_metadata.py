"""GroupMetadataKey (type 2) and GroupMetadataValue: reads versions 0 to 4, writes 3 as Kafka does."""

from __future__ import annotations

import struct

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis
from headgate.records.errors import MalformedRecord
from headgate.records.model import NO_TIMESTAMP, GroupMember, GroupMetadata, GroupTombstone
from headgate.records.offset_commit import text_bytes
from headgate.records.reader import Reader

KEY_TYPE = 2
WRITTEN_VERSION = 3
FLEXIBLE_VERSION = 4

_NULL_TEXT = struct.pack(">h", -1)
_SMALLEST_MEMBER_BYTES = 10
"""Size of a flexible member with empty fields; members of older versions are larger."""


def _nullable_text_bytes(text: str | None) -> bytes:
    return _NULL_TEXT if text is None else text_bytes(text)


def _blob_bytes(blob: bytes) -> bytes:
    return struct.pack(">i", len(blob)) + blob


def _key(group_id: GroupId) -> bytes:
    return struct.pack(">h", KEY_TYPE) + text_bytes(group_id)


def encode_group(group: GroupMetadata) -> tuple[bytes, bytes]:
    """Return the key and the value of a classic group."""
    parts = [
        struct.pack(">h", WRITTEN_VERSION),
        text_bytes(group.protocol_type),
        struct.pack(">i", group.generation),
        _nullable_text_bytes(group.protocol_name),
        _nullable_text_bytes(group.leader),
        struct.pack(">qi", group.state_timestamp, len(group.members)),
    ]
    for member in group.members:
        parts += (
            text_bytes(member.member_id),
            _nullable_text_bytes(member.instance_id),
            text_bytes(member.client_id),
            text_bytes(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            _blob_bytes(member.subscription),
            _blob_bytes(member.assignment),
        )
    return _key(group.group_id), b"".join(parts)


def encode_tombstone(tombstone: GroupTombstone) -> tuple[bytes, None]:
    """Return the key of a removed group, and None as the value."""
    return _key(tombstone.group_id), None


def decode_group(key: Reader, value: bytes | None) -> GroupMetadata | GroupTombstone:
    """Read a group. `key` is positioned after the key type. Raises MalformedRecord."""
    group_id = GroupId(key.text())
    key.finish()
    if value is None:
        return GroupTombstone(group_id)
    reader = Reader(value, "GroupMetadataValue")
    version = reader.int16()
    if not 0 <= version <= FLEXIBLE_VERSION:
        raise MalformedRecord(f"GroupMetadataValue: version {version} is not in 0 to {FLEXIBLE_VERSION}")
    is_flexible = version >= FLEXIBLE_VERSION
    protocol_type = reader.text(is_flexible=is_flexible)
    generation = reader.int32()
    protocol_name = reader.nullable_text(is_flexible=is_flexible)
    leader = reader.nullable_text(is_flexible=is_flexible)
    state_timestamp = Millis(reader.int64()) if version >= 2 else NO_TIMESTAMP
    count = reader.count(smallest=_SMALLEST_MEMBER_BYTES, is_flexible=is_flexible)
    members = tuple(_read_member(reader, version) for _ in range(count))
    if is_flexible:
        reader.tagged_fields()
    reader.finish()
    return GroupMetadata(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol_name=protocol_name,
        leader=None if leader is None else MemberId(leader),
        state_timestamp=state_timestamp,
        members=members,
    )


def _read_member(reader: Reader, version: int) -> GroupMember:
    is_flexible = version >= FLEXIBLE_VERSION
    member_id = MemberId(reader.text(is_flexible=is_flexible))
    instance_id = reader.nullable_text(is_flexible=is_flexible) if version >= 3 else None
    client_id = reader.text(is_flexible=is_flexible)
    client_host = reader.text(is_flexible=is_flexible)
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription = reader.blob(is_flexible=is_flexible)
    assignment = reader.blob(is_flexible=is_flexible)
    if is_flexible:
        reader.tagged_fields()
    return GroupMember(
        member_id=member_id,
        instance_id=None if instance_id is None else InstanceId(instance_id),
        client_id=client_id,
        client_host=client_host,
        # Version 0 has one timeout for both.
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
