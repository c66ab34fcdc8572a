"""Frames that come again with other numbers in them.

A consumer commits the same partitions over and over: from one request to the next only the correlation id and
the offsets differ, and in its answers only the correlation id. A `RequestShape` knows where these numbers
stand in frames of one length; two frames whose other bytes are equal ask the same with other numbers, and
nothing else of them has to be read. A `ResponseShape` puts numbers into a response that was written once.

Where the numbers are is found by writing the same message twice, the second time with every number inverted:
what differs is numbers. So the message's layout is nowhere known but in the codec.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Numbers = Sequence[int] | Int64s

MOST_NARROW = 12
"""Up to so many numbers are taken out one by one; above, with arrays."""

_CORRELATION_ID_AT = 4
_CORRELATION_ID_END = 8
_correlation_id = struct.Struct(">i")
_RESPONSE_HEAD_SIZE = 8
_LENGTH_SIZE = 4
_response_head = struct.Struct(">ii")
_FORMATS = {4: "i", 8: "q"}
_DTYPES = {4: ">i4", 8: ">i8"}


class Place(NamedTuple):
    """Where a number stands and how many bytes it takes."""

    at: int
    size: int


def places_of(written: bytes | bytearray, inverted: bytes | bytearray, sizes: Sequence[int]) -> list[Place]:
    """Where two writings of one message differ: numbers of these sizes, which follow each other in turn.

    Raises ValueError if they differ anywhere else.
    """
    if len(written) != len(inverted):
        raise ValueError("the two writings differ in length")
    differing = np.flatnonzero(np.frombuffer(written, np.uint8) != np.frombuffer(inverted, np.uint8)).tolist()
    places: list[Place] = []
    at = 0
    while at < len(differing):
        size = sizes[len(places) % len(sizes)]
        start = differing[at]
        if differing[at : at + size] != list(range(start, start + size)):
            raise ValueError(f"what differs at byte {start} is not a number of {size} bytes")
        places.append(Place(start, size))
        at += size
    return places


Repeated = tuple[int, Numbers, Hashable]
"""What a frame says anew and what it says again: the correlation id, the numbers, and the rest, which is
equal for frames that differ in nothing else.
"""


class RequestShape:
    """Where the numbers are in request frames (without their length in front) of one size.

    Up to `MOST_NARROW` numbers come out as a tuple of integers, more of them as an int64 array.
    """

    __slots__ = ("_fields", "_places_of_numbers", "places", "size")

    def __init__(self, size: int, places: Sequence[Place]) -> None:
        self.size = size
        self.places = tuple(places)
        self._fields: struct.Struct | None = None
        self._places_of_numbers: NDArray[np.intp] | None = None
        if len(places) <= MOST_NARROW:
            self._fields = struct.Struct(_format(size, (Place(_CORRELATION_ID_AT, 4), *places)))
        else:
            starts = np.array([place.at for place in places], np.intp)
            self._places_of_numbers = starts[:, None] + np.arange(8)

    def split(self, frame: bytes) -> Repeated:
        """Take the numbers out of a frame of this size."""
        if self._fields is not None:
            fields = self._fields.unpack(frame)
            return fields[1], fields[3::2], fields[::2]
        everything = np.frombuffer(frame, np.uint8)
        places = self._places_of_numbers
        numbers = everything[places].view(">i8").ravel().astype(np.int64)
        rest = everything.copy()
        rest[_CORRELATION_ID_AT:_CORRELATION_ID_END] = 0
        rest[places] = 0
        return _correlation_id.unpack_from(frame, _CORRELATION_ID_AT)[0], numbers, rest.tobytes()


class ResponseShape:
    """A response written once, of which correlation id and numbers change.

    `body` is what stands behind the correlation id; `places` are counted from its beginning and come in turns
    of the sizes given.
    """

    __slots__ = ("_fields", "_frame", "_groups", "_pieces", "_size")

    def __init__(self, body: bytes, places: Sequence[Place] = ()) -> None:
        self._size = _RESPONSE_HEAD_SIZE - _LENGTH_SIZE + len(body)
        self._frame = _response_head.pack(self._size, 0) + body
        self._fields: struct.Struct | None = None
        self._pieces: list[Any] = []
        self._groups: list[tuple[NDArray[np.intp], str]] = []
        moved = [Place(place.at + _RESPONSE_HEAD_SIZE, place.size) for place in places]
        if not places:
            return
        if len(places) <= 2 * MOST_NARROW:
            layout = _format(len(self._frame), (Place(0, 4), Place(4, 4), *moved))
            self._fields = struct.Struct(layout)
            self._pieces = list(self._fields.unpack(self._frame))
            self._pieces[1] = self._size
        else:
            for size in dict.fromkeys(place.size for place in moved):
                starts = np.array([place.at for place in moved if place.size == size], np.intp)
                self._groups.append((starts[:, None] + np.arange(size), _DTYPES[size]))

    def frame(self, correlation_id: int) -> bytes:
        """The response as it is sent, length first, with no number changed."""
        return _response_head.pack(self._size, correlation_id) + self._frame[_RESPONSE_HEAD_SIZE:]

    def narrow_frame(self, correlation_id: int, numbers: Sequence[int]) -> bytes:
        """The response as it is sent with these numbers; for up to twice `MOST_NARROW` of them."""
        assert self._fields is not None
        pieces = self._pieces.copy()
        pieces[3] = correlation_id
        pieces[5::2] = numbers
        return self._fields.pack(*pieces)

    def wide_frame(self, correlation_id: int, *columns: Int64s) -> bytearray:
        """The response as it is sent with these numbers, a column for each size."""
        out = bytearray(self._frame)
        _correlation_id.pack_into(out, _LENGTH_SIZE, correlation_id)
        everything = np.frombuffer(out, np.uint8)
        for (places, dtype), column in zip(self._groups, columns, strict=True):
            everything[places] = column.astype(dtype).view(np.uint8).reshape(places.shape)
        return out


def _format(size: int, places: Sequence[Place]) -> str:
    """A struct format in which numbers and the bytes between them take turns, bytes first and last."""
    parts = [">"]
    end = 0
    for at, width in places:
        parts.append(f"{at - end}s{_FORMATS[width]}")
        end = at + width
    return "".join(parts) + f"{size - end}s"
