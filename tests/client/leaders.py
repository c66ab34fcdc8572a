"""The assignments that leaders of classic groups write."""

from __future__ import annotations

import struct


def assignment(version: int, topics: dict[str, list[int]], user_data: bytes = b"\xff\xff\xff\xff") -> bytes:
    """Return the bytes as the Java client writes them."""
    data = struct.pack(">hi", version, len(topics))
    for name, partitions in topics.items():
        data += struct.pack(">h", len(name.encode())) + name.encode()
        data += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return data + user_data
