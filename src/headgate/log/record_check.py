"""Check that the bytes after a batch's header are the records that the header announces.

The check walks over the records without creating objects: like Kafka, it checks every record of a produced
batch, and this must cost far less than the append. The walk collects what a broker needs to know of all
records together: smallest and largest timestamp, the number of records without a key, and whether the offset
deltas count up from 0. If something is wrong, `iterate_records` finds the record.

A long walk is divided into slices, with pauses for other threads, and uses a copy of a part of the bytes at a
time: compiled code and large copies do not release the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.log.header import Buffer, InvalidBatch

_LAST_SHIFT: Final = 63
"""A varint has up to ten bytes, of which the tenth has the last of 64 bits."""
_FAR: Final = 1 << 70
"""Larger than every timestamp delta."""
_SLICE_RECORDS: Final = 4096
_WINDOW_BYTES: Final = 1 << 20


def check_records(data: Buffer, at: int, count: int, pause: Callable[[], None] | None = None) -> RecordCheck:
    """Walk over the `count` records that should fill `data` from `at` on. Raises InvalidBatch.

    `pause` is called between two slices of the walk.
    """
    check = RecordCheck(count)
    size = len(data)
    window_bytes = _WINDOW_BYTES
    while True:
        end = min(at + window_bytes, size)
        window, start = (data, at) if isinstance(data, bytes) else (bytes(data[at:end]), 0)
        is_last = isinstance(data, bytes) or end == size
        begun = check.walked
        walked = check.walk(window, start, is_last)
        while check.walked < count and not check.needs_more:
            if pause is not None:
                pause()
            walked = check.walk(window, walked, is_last)
        if not check.needs_more:
            left = len(window) - walked if is_last else size - at - walked
            if left:
                raise InvalidBatch(f"{left} bytes are left after the last of {count} records")
            return check
        at += walked
        if check.walked == begun:
            window_bytes = _first_size(window)
        if pause is not None:
            pause()


class RecordCheck:
    """The findings of a walk over `count` records."""

    __slots__ = (
        "count",
        "is_contiguous",
        "keyless",
        "largest_timestamp_delta",
        "needs_more",
        "smallest_timestamp_delta",
        "walked",
    )

    def __init__(self, count: int) -> None:
        self.count = count
        self.walked: int = 0
        """Number of records walked over."""
        self.needs_more: bool = False
        """Whether `data` ended within a record, and more bytes follow."""
        self.is_contiguous: bool = True
        """Whether the offset deltas are 0, 1, 2, and so on."""
        self.keyless: int = 0
        """Number of records without a key."""
        self.smallest_timestamp_delta: int = _FAR
        self.largest_timestamp_delta: int = -_FAR

    def walk(self, data: bytes, at: int, is_last: bool) -> int:
        """Walk over a slice of the records, from the one at `at` on; return the position after the slice.

        `is_last` tells that no bytes follow `data`. Raises InvalidBatch.
        """
        # Lengths and deltas nearly always take one or two bytes, which are decoded inline.
        index = self.walked
        until = min(index + _SLICE_RECORDS, self.count)
        smallest, largest = self.smallest_timestamp_delta, self.largest_timestamp_delta
        keyless = self.keyless
        start = at
        self.needs_more = False
        try:
            while index < until:
                start = at
                byte = data[at]
                at += 1
                if byte >= 0x80:
                    more = data[at]
                    if more < 0x80:
                        byte = byte & 0x7F | more << 7
                        at += 1
                    else:
                        byte, at = _unsigned(data, at - 1)
                if byte & 1:
                    raise InvalidBatch(f"record {index} has a negative length")
                end = at + (byte >> 1)
                at += 1  # the attributes, all unused
                byte = data[at]
                at += 1
                if byte >= 0x80:
                    byte, at = _unsigned(data, at - 1)
                delta = (byte >> 1) ^ -(byte & 1)
                if delta < smallest:
                    smallest = delta
                if delta > largest:
                    largest = delta
                byte = data[at]
                at += 1
                if byte >= 0x80:
                    more = data[at]
                    if more < 0x80:
                        byte = byte & 0x7F | more << 7
                        at += 1
                    else:
                        byte, at = _unsigned(data, at - 1)
                if byte != index << 1:
                    self.is_contiguous = False
                byte = data[at]
                at += 1
                if byte >= 0x80:
                    byte, at = _unsigned(data, at - 1)
                lacks_key = byte & 1
                if not lacks_key:
                    at += byte >> 1
                elif byte != 1:
                    raise InvalidBatch(f"record {index} has a key of negative length")
                byte = data[at]
                at += 1
                if byte >= 0x80:
                    more = data[at]
                    if more < 0x80:
                        byte = byte & 0x7F | more << 7
                        at += 1
                    else:
                        byte, at = _unsigned(data, at - 1)
                if not byte & 1:
                    at += byte >> 1
                elif byte != 1:
                    raise InvalidBatch(f"record {index} has a value of negative length")
                if data[at]:
                    at = _walk_headers(data, at, end, index)
                else:
                    at += 1
                if at != end:
                    raise InvalidBatch(
                        f"record {index} ends {abs(end - at)} bytes {'early' if at < end else 'late'}"
                    )
                keyless += lacks_key
                index += 1
        except IndexError:
            if is_last:
                raise InvalidBatch(f"record {index} is cut short by the end of its batch") from None
            self.needs_more = True
            at = start
        self.walked = index
        self.keyless = keyless
        self.smallest_timestamp_delta, self.largest_timestamp_delta = smallest, largest
        return at


def _first_size(window: bytes) -> int:
    """Return the size of the first record; the window holds its length field."""
    doubled, after = _unsigned(window, 0)
    return after + (doubled >> 1)


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint without zigzag decoding, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if shift == _LAST_SHIFT and byte > 1:
            raise InvalidBatch("a varint has more than 64 bits")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _walk_headers(data: bytes, at: int, end: int, index: int) -> int:
    """Walk over a record's headers; return the position after them."""
    doubled, at = _unsigned(data, at)
    count = doubled >> 1
    # Each header takes two bytes at least.
    if doubled & 1 or count > (end - at) // 2:
        raise InvalidBatch(f"record {index} has an impossible number of headers")
    for _ in range(count):
        doubled, at = _unsigned(data, at)
        if doubled & 1:
            raise InvalidBatch(f"record {index} has a header without a key")
        at += doubled >> 1
        doubled, at = _unsigned(data, at)
        if not doubled & 1:
            at += doubled >> 1
        elif doubled != 1:
            raise InvalidBatch(f"record {index} has a header value of negative length")
        if at > end:
            raise InvalidBatch(f"record {index} has headers longer than itself")
    return at
