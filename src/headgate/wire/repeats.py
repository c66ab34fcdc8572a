"""Repeated requests: frames that differ only in some numbers.

A consumer repeatedly commits the same partitions. Its requests differ only in the correlation id and the
offsets, the responses only in the correlation id. A `RequestShape` knows the places of these numbers in
frames of one size. Two frames with equal other bytes are the same request with other numbers, so the other
bytes need not be decoded again. A `ResponseShape` puts numbers into an encoded response.

`headgate.wire.places` finds the places.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headgate.wire.places import Place

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Numbers = Sequence[int] | Int64s

MOST_NARROW: Final = 12
"""Up to this many numbers are extracted one by one, more of them with arrays."""

_CORRELATION_ID_AT: Final = 4
_CORRELATION_ID_END: Final = 8
_NO_CORRELATION_ID = bytes(4)
_correlation_id = struct.Struct(">i")
_struct = lru_cache(1024)(struct.Struct)
"""A struct is larger than the rest of a narrow `ResponseShape`, and most of these have the same layout."""
_RESPONSE_HEAD_SIZE: Final = 8
_LENGTH_SIZE: Final = 4
_pack_response_head = struct.Struct(">ii").pack
_FORMATS = {4: "i", 8: "q"}
_DTYPES = {4: ">i4", 8: ">i8"}


Repeated = tuple[int, Numbers, Hashable]
"""A frame's correlation id, its numbers, and its rest, which is equal for repeated requests."""


class RequestShape:
    """The places of the numbers in request frames (without their length) of one size.

    Up to `MOST_NARROW` numbers are returned as a tuple of integers, more of them as an int64 array.
    """

    __slots__ = ("_column", "_rest", "_unpack", "places", "size")

    def __init__(self, size: int, places: Sequence[Place]) -> None:
        self.size = size
        self.places = tuple(places)
        self._unpack: Callable[[bytes], tuple[Any, ...]] | None = None
        self._rest = bytearray()
        """The buffer from which numbers are extracted. It holds the rest of the last frame."""
        if len(places) <= MOST_NARROW:
            self._unpack = _struct(_format(size, ((_CORRELATION_ID_AT, 4), *places))).unpack
        else:
            self._rest = bytearray(size)
            (self._column,) = _columns(self._rest, places)

    def split(self, frame: bytes) -> Repeated:
        """Split a frame of this size into correlation id, numbers and rest."""
        if self._unpack is not None:
            fields = self._unpack(frame)
            return fields[1], fields[3::2], fields[::2]
        rest = self._rest
        rest[:] = frame
        numbers = self._column.take()
        rest[_CORRELATION_ID_AT:_CORRELATION_ID_END] = _NO_CORRELATION_ID
        return _correlation_id.unpack_from(frame, _CORRELATION_ID_AT)[0], numbers, bytes(rest)


class WrittenResponse:
    """An encoded response. `body` is the part after the correlation id."""

    __slots__ = ("_body", "size")

    def __init__(self, body: bytes) -> None:
        self.size = _RESPONSE_HEAD_SIZE - _LENGTH_SIZE + len(body)
        """In bytes, without the length before it."""
        self._body = body

    def frame(self, correlation_id: int) -> bytes:
        """Return the whole frame, with its length and this correlation id."""
        return _pack_response_head(self.size, correlation_id) + self._body


class ResponseShape:
    """An encoded response with variable numbers.

    `body` is the part after the correlation id. `places` are positions in `body`; their sizes repeat
    cyclically.
    """

    __slots__ = ("_body", "_columns", "_fields", "_pieces")

    def __init__(self, body: bytes, places: Sequence[Place]) -> None:
        self._body: bytearray | None = None
        self._fields: struct.Struct | None = None
        self._pieces: tuple[Any, ...] = ()
        self._columns: Sequence[_Column | _ScatteredColumn] = ()
        if len(places) <= 2 * MOST_NARROW:
            self._fields = _struct(_format(len(body), places))
            self._pieces = self._fields.unpack(body)
        else:
            self._body = bytearray(body)
            self._columns = _columns(self._body, places)

    @property
    def is_narrow(self) -> bool:
        """Whether to call `narrow`, because the numbers are few; otherwise call `wide`."""
        return self._fields is not None

    def narrow(self, numbers: Numbers) -> WrittenResponse:
        """Return the response with these numbers, at most twice `MOST_NARROW`."""
        assert self._fields is not None
        pieces = [*self._pieces]
        pieces[1::2] = numbers
        return WrittenResponse(self._fields.pack(*pieces))

    def wide(self, *columns: Int64s) -> WrittenResponse:
        """Return the response with these numbers, one column for each size."""
        assert self._body is not None
        for places, numbers in zip(self._columns, columns, strict=True):
            places.put(numbers)
        return WrittenResponse(bytes(self._body))


class _Column:
    """Many numbers of one size at equal distances, such as those of consecutive partitions."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Int64s) -> None:
        """`numbers` is a view of the numbers in a frame."""
        self._numbers = numbers

    def take(self) -> Int64s:
        """Return the numbers, and replace them in the frame by zeros."""
        places = self._numbers
        numbers = places.astype(np.int64)
        places.fill(0)
        return numbers

    def put(self, numbers: Int64s) -> None:
        """Write these numbers into the frame."""
        self._numbers[...] = numbers


class _ScatteredColumn:
    """Many numbers of one size at any distances, for example with topic names between them."""

    __slots__ = ("_dtype", "_frame", "_places")

    def __init__(self, frame: bytearray, starts: NDArray[np.intp], size: int) -> None:
        self._frame: Bytes = np.frombuffer(frame, np.uint8)
        self._places = starts[:, None] + np.arange(size)
        self._dtype = _DTYPES[size]

    def take(self) -> Int64s:
        """Return the numbers, and replace them in the frame by zeros."""
        frame, places = self._frame, self._places
        numbers: Int64s = frame[places].view(self._dtype).astype(np.int64)
        frame[places] = 0
        return numbers.ravel()

    def put(self, numbers: Int64s) -> None:
        """Write these numbers into the frame."""
        rows = np.asarray(numbers).astype(self._dtype)
        self._frame[self._places] = rows.view(np.uint8).reshape(self._places.shape)


def _columns(frame: bytearray, places: Sequence[Place]) -> list[_Column | _ScatteredColumn]:
    """Return a column for each size of number, in the order of the first place of each size."""
    return [
        _column(frame, np.array([at for at, width in places if width == size], np.intp), size)
        for size in dict.fromkeys(width for _, width in places)
    ]


def _column(frame: bytearray, starts: NDArray[np.intp], size: int) -> _Column | _ScatteredColumn:
    distances = np.diff(starts)
    width = int(distances[0])
    if (distances != width).any():
        return _ScatteredColumn(frame, starts, size)
    return _Column(np.ndarray((len(starts),), _DTYPES[size], frame, int(starts[0]), (width,)))


def _format(size: int, places: Sequence[Place]) -> str:
    """Return a struct format that alternates between bytes and numbers, bytes first and last."""
    parts = [">"]
    end = 0
    for at, width in places:
        parts.append(f"{at - end}s{_FORMATS[width]}")
        end = at + width
    return "".join(parts) + f"{size - end}s"
