"""The partition of an internal topic that holds a group's state, by Kafka's hash, so that its tools agree."""

from __future__ import annotations

import struct
from functools import lru_cache


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`: a signed 32-bit integer."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for unit in struct.unpack(f"<{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=65_536)
def partition_for(key: str, partition_count: int) -> int:
    """Return the partition, 0 to `partition_count` - 1, that owns `key` (a group id or a transactional id).

    Like Kafka, use the absolute value of the hash, and 0 for -2**31, whose absolute value is no Java `int`.
    """
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partition_count
