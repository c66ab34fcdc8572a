"""The metadata of classic consumers: ConsumerProtocolSubscription and ConsumerProtocolAssignment.

Each begins with its version, and later versions only append fields, so a reader decodes those it knows:

    subscription   topics, user data, from 1 owned partitions, from 2 generation, from 3 rack
    assignment     partitions, user data
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.domain.assigned_partitions import (
    Assignment,
    NamedPartitions,
    read_assignment,
    read_partitions,
)
from headgate.domain.ids import TopicName
from headgate.records import MalformedRecord
from headgate.records.offset_commit import text_bytes
from headgate.records.reader import Reader

LATEST_VERSION = 3

_SMALLEST_TEXT_BYTES = 2
_NO_USER_DATA = struct.pack(">i", -1)

__all__ = [
    "LATEST_VERSION",
    "Assignment",
    "NamedPartitions",
    "Subscription",
    "read_assignment",
    "read_subscription",
    "write_assignment",
]


@dataclass(slots=True, frozen=True, kw_only=True)
class Subscription:
    """What a consumer sends when it joins."""

    version: int
    topics: tuple[TopicName, ...]
    owned: NamedPartitions
    """The partitions it owns; empty before version 1."""
    rack_id: str | None


def read_subscription(data: bytes) -> Subscription | None:
    """Decode a subscription; return None if it cannot be decoded."""
    reader = Reader(data, "ConsumerProtocolSubscription")
    try:
        version = _read_version(reader)
        topics = tuple(TopicName(reader.text()) for _ in range(reader.count(smallest=_SMALLEST_TEXT_BYTES)))
        _read_user_data(reader)
        owned = _read_partitions(reader) if version >= 1 else {}
        if version >= 2:
            reader.int32()
        rack_id = reader.nullable_text() if version >= 3 else None
    except MalformedRecord:
        return None
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id or None)


def write_assignment(version: int, partitions: Mapping[TopicName, Iterable[int]]) -> bytes:
    """Encode an assignment in the version of its consumer's subscription."""
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic in sorted(partitions):
        indexes = sorted(partitions[topic])
        parts += (text_bytes(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join((*parts, _NO_USER_DATA))


def _read_version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version}")
    return min(version, LATEST_VERSION)


def _read_partitions(reader: Reader) -> NamedPartitions:
    try:
        partitions, end = read_partitions(reader.data, reader.position)
    except ValueError as problem:
        raise reader.malformed(str(problem)) from problem
    reader.take(end - reader.position)
    return partitions


def _read_user_data(reader: Reader) -> bytes:
    size = reader.int32()
    return b"" if size == -1 else reader.take(size)
