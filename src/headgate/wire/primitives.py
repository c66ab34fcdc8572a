"""What readers, writers and headers share of the encoding: varints, bad lengths, unknown tagged fields."""

from __future__ import annotations

LONGEST_STRING_BYTES = 0x7FFF
"""What a string takes at most, as in Kafka, also where its length could be larger: records hold no more."""


class Refusal(Exception):
    """Why bytes are not what they should be; whoever knows the place makes it a MalformedMessage."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned varint at a position, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise Refusal("has a length of more than five bytes")


def skip_tagged_fields(data: bytes, at: int, first_byte: int) -> int:
    """The position behind a section of tagged fields none of which is known."""
    count = first_byte
    if first_byte > 0x7F:
        count, at = read_varint(data, at - 1)
    for _ in range(count):
        tag, at = read_varint(data, at)
        length, at = read_varint(data, at)
        at += length
        if at > len(data):
            raise Refusal(f"has a tagged field {tag} that ends behind the data")
    return at


def bad_length(length: int, left: int) -> Refusal:
    """Why a length cannot be."""
    if length == -1:
        return Refusal("is null, which it may not be")
    if length < 0:
        return Refusal(f"has the negative length {length}")
    return Refusal(f"has the length {length}, but {left} bytes are left")


def too_long(length: int) -> Refusal:
    """Why a string cannot be."""
    return Refusal(f"has the length {length}, but no string is longer than {LONGEST_STRING_BYTES}")


def write_varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
