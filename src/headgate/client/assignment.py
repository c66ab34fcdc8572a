"""What a consumer was given, as its group's leader wrote it: ConsumerProtocolAssignment.

All versions begin alike: int16 version, an array of topics, each with its name and an array of partitions;
user data follows, which is the assignor's own affair.
"""

from __future__ import annotations

import struct

from headgate.domain.ids import TopicName, TopicPartition

_VERSION_BYTES = 2


def read_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions, in order; None where the bytes are something else. Nothing at all is no partitions."""
    if not data:
        return ()
    try:
        return tuple(sorted(_read(data)))
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


def _read(data: bytes) -> list[TopicPartition]:
    partitions = []
    (topics,) = struct.unpack_from(">i", data, _VERSION_BYTES)
    at = _VERSION_BYTES + 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, at)
        at += 2
        if length < 0 or at + length > len(data):
            raise ValueError("a topic's name ends behind the data")
        topic = TopicName(data[at : at + length].decode())
        at += length
        (count,) = struct.unpack_from(">i", data, at)
        if not 0 <= count <= (len(data) - at) // 4:
            raise ValueError("more partitions than bytes")
        partitions += [
            TopicPartition(topic, index) for index in struct.unpack_from(f">{count}i", data, at + 4)
        ]
        at += 4 + 4 * count
    return partitions
