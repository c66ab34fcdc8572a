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
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Numbers = Sequence[int] | Int64s

MOST_NARROW: Final = 12
"""Up to so many numbers are taken out one by one; above, with arrays."""

_CORRELATION_ID_AT: Final = 4
_CORRELATION_ID_END: Final = 8
_NO_CORRELATION_ID = bytes(4)
_correlation_id = struct.Struct(">i")
_RESPONSE_HEAD_SIZE: Final = 8
_LENGTH_SIZE: Final = 4
_pack_response_head = struct.Struct(">ii").pack
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

    __slots__ = ("_column", "_rest", "_unpack", "places", "size")

    def __init__(self, size: int, places: Sequence[Place]) -> None:
        self.size = size
        self.places = tuple(places)
        self._unpack: Callable[[bytes], tuple[Any, ...]] | None = None
        self._rest = bytearray()
        """A frame to take numbers out of; what is left of the last one."""
        if len(places) <= MOST_NARROW:
            self._unpack = struct.Struct(_format(size, (Place(_CORRELATION_ID_AT, 4), *places))).unpack
        else:
            self._rest = bytearray(size)
            (self._column,) = _columns(self._rest, places)

    def split(self, frame: bytes) -> Repeated:
        """Take the numbers out of a frame of this size."""
        if self._unpack is not None:
            fields = self._unpack(frame)
            return fields[1], fields[3::2], fields[::2]
        rest = self._rest
        rest[:] = frame
        numbers = self._column.take()
        rest[_CORRELATION_ID_AT:_CORRELATION_ID_END] = _NO_CORRELATION_ID
        return _correlation_id.unpack_from(frame, _CORRELATION_ID_AT)[0], numbers, bytes(rest)


class WrittenResponse:
    """A response of which nothing but the correlation id changes; `body` is what stands behind that."""

    __slots__ = ("_body", "size")

    def __init__(self, body: bytes) -> None:
        self.size = _RESPONSE_HEAD_SIZE - _LENGTH_SIZE + len(body)
        """In bytes, without the length that stands in front."""
        self._body = body

    def frame(self, correlation_id: int) -> bytes:
        """The response as it is sent, length first."""
        return _pack_response_head(self.size, correlation_id) + self._body


class ResponseShape:
    """A response written once, in which numbers change.

    `body` is what stands behind the correlation id; `places` are counted from its beginning and come in turns
    of the sizes given.
    """

    __slots__ = ("_body", "_columns", "_fields", "_pieces")

    def __init__(self, body: bytes, places: Sequence[Place]) -> None:
        self._body = bytearray(body)
        self._fields: struct.Struct | None = None
        self._pieces: list[Any] = []
        self._columns: list[_Column | _ScatteredColumn] = []
        if len(places) <= 2 * MOST_NARROW:
            self._fields = struct.Struct(_format(len(body), places))
            self._pieces = list(self._fields.unpack(body))
        else:
            self._columns = _columns(self._body, places)

    @property
    def is_narrow(self) -> bool:
        """Whether the numbers are so few that `narrow` takes them; otherwise `wide` does."""
        return self._fields is not None

    def narrow(self, numbers: Numbers) -> WrittenResponse:
        """The response with these numbers, up to twice `MOST_NARROW` of them."""
        assert self._fields is not None
        pieces = self._pieces.copy()
        pieces[1::2] = numbers
        return WrittenResponse(self._fields.pack(*pieces))

    def wide(self, *columns: Int64s) -> WrittenResponse:
        """The response with these numbers, a column for each size."""
        for places, numbers in zip(self._columns, columns, strict=True):
            places.put(numbers)
        return WrittenResponse(bytes(self._body))


class _Column:
    """Many numbers of one size at equal distances, as those of partitions that follow each other are."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Int64s) -> None:
        """`numbers` are those of a frame, where they stand."""
        self._numbers = numbers

    def take(self) -> Int64s:
        """The numbers; zeros are left in their places."""
        places = self._numbers
        numbers = places.astype(np.int64)
        places.fill(0)
        return numbers

    def put(self, numbers: Int64s) -> None:
        """Put these numbers in their places."""
        self._numbers[...] = numbers


class _ScatteredColumn:
    """Many numbers of one size, anywhere: several topics have their names between them."""

    __slots__ = ("_dtype", "_frame", "_places")

    def __init__(self, frame: bytearray, starts: NDArray[np.intp], size: int) -> None:
        self._frame: Bytes = np.frombuffer(frame, np.uint8)
        self._places = starts[:, None] + np.arange(size)
        self._dtype = _DTYPES[size]

    def take(self) -> Int64s:
        """The numbers; zeros are left in their places."""
        frame, places = self._frame, self._places
        numbers: Int64s = frame[places].view(self._dtype).astype(np.int64)
        frame[places] = 0
        return numbers.ravel()

    def put(self, numbers: Int64s) -> None:
        """Put these numbers in their places."""
        rows = np.asarray(numbers).astype(self._dtype)
        self._frame[self._places] = rows.view(np.uint8).reshape(self._places.shape)


def _columns(frame: bytearray, places: Sequence[Place]) -> list[_Column | _ScatteredColumn]:
    """A column of a frame for each size of number, in the order in which the sizes come."""
    return [
        _column(frame, np.array([place.at for place in places if place.size == size], np.intp), size)
        for size in dict.fromkeys(place.size for place in places)
    ]


def _column(frame: bytearray, starts: NDArray[np.intp], size: int) -> _Column | _ScatteredColumn:
    distances = np.diff(starts)
    width = int(distances[0])
    if (distances != width).any():
        return _ScatteredColumn(frame, starts, size)
    return _Column(np.ndarray((len(starts),), _DTYPES[size], frame, int(starts[0]), (width,)))


def _format(size: int, places: Sequence[Place]) -> str:
    """A struct format in which numbers and the bytes between them take turns, bytes first and last."""
    parts = [">"]
    end = 0
    for at, width in places:
        parts.append(f"{at - end}s{_FORMATS[width]}")
        end = at + width
    return "".join(parts) + f"{size - end}s"
