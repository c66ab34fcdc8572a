"""The partitions that a classic group's leader assigned to a consumer: Kafka's ConsumerProtocolAssignment.

All versions start in the same way: int16 version, then an array of topics, each with its name and an array of
int32 partitions, then the assignor's user data. The bytes come from clients, so every size is checked against
the bytes left.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.domain.ids import TopicName

NamedPartitions = Mapping[TopicName, tuple[int, ...]]
"""Partitions by topic, ascending, none twice."""

_VERSION_BYTES = 2
_SMALLEST_TOPIC_BYTES = 6
_PARTITION_BYTES = 4


@dataclass(slots=True, frozen=True)
class Assignment:
    """What the leader gave to a consumer."""

    partitions: NamedPartitions
    has_user_data: bool
    """Something that only the leader's own assignor understands."""


def read_assignment(data: bytes) -> Assignment | None:
    """The assignment; None where the bytes are something else. No bytes at all are no partitions."""
    if not data:
        return Assignment({}, has_user_data=False)
    try:
        if _integer(">h", data, 0) < 0:
            return None
        partitions, at = read_partitions(data, _VERSION_BYTES)
        if at == len(data):
            return Assignment(partitions, has_user_data=False)
        size = _integer(">i", data, at)
    except ValueError:
        return None
    if not -1 <= size <= len(data) - at - 4:
        return None
    return Assignment(partitions, has_user_data=size > 0)


def read_partitions(data: bytes, at: int) -> tuple[NamedPartitions, int]:
    """Return the array of topics with their partitions at a position, and the position after it.

    Raises ValueError if the bytes are no such array.
    """
    topic_count, at = _count(data, at, _SMALLEST_TOPIC_BYTES)
    partitions: dict[TopicName, tuple[int, ...]] = {}
    for _ in range(topic_count):
        size = _integer(">h", data, at)
        at += 2
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"a name of {size} bytes, {len(data) - at} are left")
        topic = TopicName(data[at : at + size].decode())
        count, at = _count(data, at + size, _PARTITION_BYTES)
        indexes = struct.unpack_from(f">{count}i", data, at)
        at += _PARTITION_BYTES * count
        partitions[topic] = tuple(sorted({*partitions.get(topic, ()), *indexes}))
    return partitions, at


def _count(data: bytes, at: int, smallest: int) -> tuple[int, int]:
    """How many elements of at least `smallest` bytes an array has, and the position of the first."""
    count = _integer(">i", data, at)
    at += 4
    if not 0 <= count <= (len(data) - at) // smallest:
        raise ValueError(f"{count} elements, {len(data) - at} bytes are left")
    return count, at


def _integer(form: str, data: bytes, at: int) -> int:
    try:
        return int(struct.unpack_from(form, data, at)[0])
    except struct.error as problem:
        raise ValueError("ends too early") from problem
