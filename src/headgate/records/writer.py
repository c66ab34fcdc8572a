"""Functions that encode the primitive types of Kafka's flexible record schemas, for `Reader` to read."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from headgate.records.offset_commit import text_bytes

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_int64 = struct.Struct(">q")

_NULL = b"\x00"
_SMALL = [bytes((value,)) for value in range(0x80)]


def key_bytes(key_type: int, *texts: str) -> bytes:
    """Encode a key: its type and its fields, which are strings."""
    return _int16.pack(key_type) + b"".join(map(text_bytes, texts))


def varint_bytes(value: int) -> bytes:
    """Encode an unsigned varint: seven bits in each byte."""
    if value < len(_SMALL):  # nearly always
        return _SMALL[value]
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def int16_bytes(value: int) -> bytes:
    """Encode a signed two-byte integer."""
    return _int16.pack(value)


def int32_bytes(value: int) -> bytes:
    """Encode a signed four-byte integer."""
    return _int32.pack(value)


def int64_bytes(value: int) -> bytes:
    """Encode a signed eight-byte integer."""
    return _int64.pack(value)


def compact_blob(blob: bytes) -> bytes:
    """Encode a byte string: its length and its bytes."""
    return varint_bytes(len(blob) + 1) + blob


def compact_text(text: str | None) -> bytes:
    """Encode a string or null."""
    return _NULL if text is None else compact_blob(text.encode())


def compact_array(entries: Iterable[bytes]) -> bytes:
    """Encode an array of encoded entries."""
    parts = list(entries)
    return varint_bytes(len(parts) + 1) + b"".join(parts)


def compact_int32s(numbers: list[int] | tuple[int, ...]) -> bytes:
    """Encode an array of four-byte integers."""
    return varint_bytes(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def tagged_bytes(fields: Mapping[int, bytes]) -> bytes:
    """Encode the tagged fields (tag -> content) at the end of a flexible struct, ordered by tag."""
    parts = [varint_bytes(len(fields))]
    for tag in sorted(fields):
        content = fields[tag]
        parts += (varint_bytes(tag), varint_bytes(len(content)), content)
    return b"".join(parts)
