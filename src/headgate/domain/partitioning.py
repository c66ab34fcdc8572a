"""Which partition of an internal topic holds a group's state: Kafka's own hash, so that its tools agree."""

from __future__ import annotations

import struct
from functools import lru_cache


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: 31-polynomial over the UTF-16 code units, as a signed 32-bit integer."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for unit in struct.unpack(f"<{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=65_536)
def partition_for(key: str, partition_count: int) -> int:
    """The partition, 0 to `partition_count` - 1, that owns `key` (a group id or a transactional id).

    Kafka takes the absolute value of the hash, and 0 for the one value that has none.
    """
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partition_count
