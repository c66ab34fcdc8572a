"""Building one batch from parts: single records, and columns of records that are alike in size.

Many records whose keys have one length and whose values have one length differ from each other in few bytes.
They are laid out as rows of one array and written in one piece: a loop over them would cost more than all
the rest of a wide commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import RecordHeader, assemble_batch, encode_record, varint

Rows = NDArray[np.uint8]
"""One row a record: (records, bytes)."""

_DELTAS_OF_WIDTH = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27))
"""How many bytes a zigzag varint takes, up to which value."""
_NO_HEADERS = b"\x00"
_DELTAS = [varint(value) for value in range(1024)]


class RecordOutline:
    """A record without headers, laid out but for its offset delta and the bytes of its value."""

    __slots__ = ("heads", "middle", "size_bytes")

    def __init__(self, key: bytes, value_size: int) -> None:
        self.middle = varint(len(key)) + key + varint(value_size)
        """What stands between offset delta and value."""
        behind = 2 + len(self.middle) + value_size + 1
        self.heads = tuple(varint(behind + width) + b"\x00\x00" for width, _ in _DELTAS_OF_WIDTH)
        """What stands before an offset delta of one byte, of two and so on."""
        self.size_bytes = behind + len(self.heads[-1]) + len(_DELTAS_OF_WIDTH)
        """What the record comes to at most."""


class BatchBuilder:
    """Collects records, all of one timestamp in ms, and makes one batch of them."""

    __slots__ = ("_parts", "record_count", "size_bytes", "timestamp")

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp
        self.record_count = 0
        self.size_bytes = 0
        """What the records come to, without the batch's header; roughly, for single ones."""
        self._parts: list[bytes] = []

    def add(
        self, key: bytes | None, value: bytes | None, size: int, headers: Sequence[RecordHeader] = ()
    ) -> None:
        """Append one record of about `size` bytes."""
        encode_record(self._parts, key, value, 0, self.record_count, headers)
        self.record_count += 1
        self.size_bytes += size

    def add_all(self, records: Iterable[tuple[bytes | None, bytes | None]], size: int) -> None:
        """Append records without headers, by key and value, of about `size` bytes together."""
        parts, count = self._parts, self.record_count
        for key, value in records:
            encode_record(parts, key, value, 0, count, ())
            count += 1
        self.record_count = count
        self.size_bytes += size

    def add_outlined(self, outlines: Sequence[RecordOutline], values: Iterable[bytes], size: int) -> None:
        """Append a record for each outline, with its value; they come to `size` bytes at most."""
        parts, first = self._parts, self.record_count
        self.record_count = end = first + len(outlines)
        self.size_bytes += size
        deltas = _DELTAS[first:end] if end <= len(_DELTAS) else [varint(one) for one in range(first, end)]
        for outline, delta, value in zip(outlines, deltas, values, strict=True):
            parts += (outline.heads[len(delta) - 1], delta, outline.middle, value, b"\x00")

    def add_laid_out(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Append records whose bytes are there: from key length to the value's end, and what follows."""
        parts, first = self._parts, self.record_count
        self.record_count = end = first + len(records)
        deltas = _DELTAS[first:end] if end <= len(_DELTAS) else [varint(one) for one in range(first, end)]
        total = 0
        for (body, headers), delta in zip(records, deltas, strict=True):
            size = 2 + len(delta) + len(body) + len(headers)
            total += size
            # Attributes and timestamp delta are zero.
            parts += (
                _DELTAS[size] if size < len(_DELTAS) else varint(size),
                b"\x00\x00",
                delta,
                body,
                headers,
            )
        self.size_bytes += total

    def add_laid_out_rows(self, *columns: bytes | Rows) -> None:
        """The same where all records have one length: the columns, or bytes in each, from key length on."""
        count = next(len(one) for one in columns if not isinstance(one, bytes))
        records = b"".join(block.tobytes() for block in _blocks(columns, count, self.record_count))
        self._parts.append(records)
        self.record_count += count
        self.size_bytes += len(records)

    def add_columns(self, keys: Rows, values: Rows, headers: Rows | None = None) -> None:
        """Append a record for each row of `keys` and `values`; `headers` begin with how many a record has."""
        records = uniform_records(keys, values, self.record_count, headers)
        self._parts.append(records)
        self.record_count += len(keys)
        self.size_bytes += len(records)

    def build(self) -> bytearray:
        """The batch, at base offset 0; `place_batch` moves it. Raises ValueError if it is empty."""
        if not self.record_count:
            raise ValueError("a batch needs at least one record")
        return assemble_batch(b"".join(self._parts), self.record_count, self.timestamp, self.timestamp)


def uniform_records(keys: Rows, values: Rows, first_delta: int, headers: Rows | None = None) -> bytes:
    """The bytes of records with these keys and values, the first at this offset delta, all at one time."""
    return b"".join(block.tobytes() for block in uniform_blocks(keys, values, first_delta, headers))


def uniform_blocks(keys: Rows, values: Rows, first_delta: int, headers: Rows | None = None) -> list[Rows]:
    """The same in blocks of rows of one length each: offset deltas take more bytes as they grow."""
    columns: list[bytes | Rows] = [varint(keys.shape[1]), keys, varint(values.shape[1]), values]
    columns.append(_NO_HEADERS if headers is None else headers)
    return _blocks(columns, len(keys), first_delta)


def _blocks(columns: Sequence[bytes | Rows], count: int, first_delta: int) -> list[Rows]:
    """Records in which these columns, or the same bytes in each, stand behind the offset delta."""
    blocks: list[Rows] = []
    end = first_delta + count
    lowest = 0
    for width, limit in _DELTAS_OF_WIDTH:
        start, stop = max(first_delta, lowest), min(end, limit)
        if start < stop:
            rows = slice(start - first_delta, stop - first_delta)
            parts = [one if isinstance(one, bytes) else one[rows] for one in columns]
            blocks.append(_rows_of(parts, start, stop - start, width))
        lowest = limit
    assert end <= lowest, "no batch holds so many records"
    return blocks


def _rows_of(parts: Sequence[bytes | Rows], first_delta: int, count: int, width: int) -> Rows:
    """Records whose offset deltas take `width` bytes."""
    attributes_and_timestamp_delta = b"\x00\x00"
    columns: list[Any] = [attributes_and_timestamp_delta, _varints(first_delta, count, width), *parts]
    widths = [len(one) if isinstance(one, bytes) else one.shape[1] for one in columns]
    columns.insert(0, varint(sum(widths)))
    widths.insert(0, len(columns[0]))
    rows = np.empty((count, sum(widths)), np.uint8)
    at = 0
    for column, size in zip(columns, widths, strict=True):
        rows[:, at : at + size] = np.frombuffer(column, np.uint8) if isinstance(column, bytes) else column
        at += size
    return rows


def _varints(first: int, count: int, width: int) -> Rows:
    """`count` values from `first` on as zigzag varints that all take `width` bytes."""
    zigzag = np.arange(first, first + count, dtype=np.uint32) << np.uint32(1)
    rows = np.empty((count, width), np.uint8)
    for index in range(width):
        more = 0x80 if index + 1 < width else 0
        rows[:, index] = (zigzag >> np.uint32(7 * index) & np.uint32(0x7F)) | np.uint32(more)
    return rows
