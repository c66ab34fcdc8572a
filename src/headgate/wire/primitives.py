"""Parts of the encoding that readers, writers and headers share: varints, lengths, unknown tagged fields."""

from __future__ import annotations

LONGEST_STRING_BYTES = 0x7FFF
"""Longest string, as in Kafka. It is also the limit for compact lengths, because records cannot hold more."""

_ANY_NUMBER = 1 << 35


class InvalidEncoding(Exception):
    """The reason why bytes are invalid. The caller that knows the field raises MalformedMessage instead."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint at position `at`, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise InvalidEncoding("has a length of more than five bytes")


def skip_tagged_fields(data: bytes, at: int, first_byte: int, most: int = _ANY_NUMBER) -> int:
    """Return the position after a section of unknown tagged fields, of which there may be at most so many."""
    count = first_byte
    if first_byte > 0x7F:
        count, at = read_varint(data, at - 1)
    if count > most:
        raise InvalidEncoding(f"has {count} tagged fields; at most {most} are read")
    for _ in range(count):
        tag, at = read_varint(data, at)
        length, at = read_varint(data, at)
        at += length
        if at > len(data):
            raise InvalidEncoding(f"has a tagged field {tag} that ends after the data")
    return at


def bad_length(length: int, left: int) -> InvalidEncoding:
    """Return the error for an invalid length, with `left` bytes left."""
    if length == -1:
        return InvalidEncoding("is null, but is not nullable")
    if length < 0:
        return InvalidEncoding(f"has the negative length {length}")
    return InvalidEncoding(f"has the length {length}, but {left} bytes are left")


def too_long(length: int) -> InvalidEncoding:
    """Return the error for a string of more than `LONGEST_STRING_BYTES`."""
    return InvalidEncoding(f"has the length {length}, but no string is longer than {LONGEST_STRING_BYTES}")


def too_many(most: int) -> InvalidEncoding:
    """Return the error for a request whose arrays have more than `most` elements together."""
    return InvalidEncoding(f"has more elements than a request may have, which is {most} in all its arrays")


def write_varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
