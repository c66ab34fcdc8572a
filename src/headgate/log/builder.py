"""Building one batch from parts: single records, and columns of records that are alike in size.

Many records whose keys have one length and whose values have one length differ from each other in few bytes.
They are laid out as rows of one array and written in one piece: a loop over them would cost more than all
the rest of a wide commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import RecordHeader, assemble_batch, encode_record, varint

Int64s = NDArray[np.int64]
Rows = NDArray[np.uint8]
"""One row a record: (records, bytes)."""


class RecordBlock(NamedTuple):
    """Records whose keys have one length and whose values have one length, among others of other lengths."""

    places: Int64s
    """Where each of them stands among all; ascending."""
    keys: Rows
    values: Rows | None
    """None: they have no values."""

    def between(self, first: int, end: int) -> RecordBlock:
        """Those in the places from `first` up to and without `end`, counted from there."""
        low, high = np.searchsorted(self.places, (first, end)).tolist()
        values = None if self.values is None else self.values[low:high]
        return RecordBlock(self.places[low:high] - first, self.keys[low:high], values)


_DELTAS_OF_WIDTH = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27))
"""How many bytes a zigzag varint takes, up to which value."""
_NO_HEADERS = b"\x00"
_NULL = varint(-1)
_DELTAS = [varint(value) for value in range(1024)]


class RecordOutline:
    """A record without headers, laid out but for its offset delta and some bytes in the middle and at the end
    of its value.
    """

    __slots__ = ("after", "heads", "middle", "size_bytes")

    def __init__(self, key: bytes, before: bytes, size: int, after: bytes, end_size: int) -> None:
        """The value is `before`, then `size` bytes that change, `after`, and `end_size` bytes that change."""
        value_size = len(before) + size + len(after) + end_size
        self.middle = varint(len(key)) + key + varint(value_size) + before
        """What stands between the offset delta and what changes in the value."""
        self.after = after
        """What stands between that and the end, which changes too."""
        behind = 2 + len(self.middle) + size + len(after) + end_size + 1
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

    def add_outlined(
        self, outlines: list[RecordOutline], changing: list[bytes], ending: bytes, size: int
    ) -> None:
        """Append a record for each outline, with its own bytes in the value and the ending that all have
        in common; they come to `size` bytes at most.
        """
        end_and_headers = ending + _NO_HEADERS
        parts, first = self._parts, self.record_count
        self.record_count = end = first + len(outlines)
        self.size_bytes += size
        deltas = _DELTAS[first:end] if end <= len(_DELTAS) else [varint(one) for one in range(first, end)]
        for index, outline in enumerate(outlines):
            delta = deltas[index]
            parts.append(outline.heads[len(delta) - 1])
            parts.append(delta)
            parts.append(outline.middle)
            parts.append(changing[index])
            parts.append(outline.after)
            parts.append(end_and_headers)

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

    def add_blocks(self, blocks: Sequence[RecordBlock], headers: Rows | None = None) -> None:
        """Append the records of all blocks, each in its place; `headers` are a row for each place."""
        first = self.record_count
        count = sum(len(block.places) for block in blocks)
        sizes = np.empty(count, np.int64)
        laid_out: list[tuple[Int64s, Rows]] = []
        for places, keys, values in blocks:
            columns: list[bytes | Rows] = [varint(keys.shape[1]), keys]
            columns += [_NULL] if values is None else [varint(values.shape[1]), values]
            columns.append(_NO_HEADERS if headers is None else headers[places])
            for part, rows in _laid_out(columns, first + places):
                sizes[places[part]] = rows.shape[1]
                laid_out.append((places[part], rows))
        ends = np.cumsum(sizes)
        records = np.empty(int(ends[-1]) if count else 0, np.uint8)
        for places, rows in laid_out:
            # Each record is one item of as many bytes, which may begin anywhere.
            one = np.dtype(f"V{rows.shape[1]}")
            anywhere = np.ndarray((len(records) - one.itemsize + 1,), one, records, strides=(1,))
            anywhere[ends[places] - one.itemsize] = rows.view(one).ravel()
        self._parts.append(records.tobytes())
        self.record_count += count
        self.size_bytes += len(records)

    def mark(self) -> tuple[int, int, int]:
        """What `cut_back` takes the builder back to."""
        return len(self._parts), self.record_count, self.size_bytes

    def cut_back(self, mark: tuple[int, int, int]) -> None:
        """Drop what was appended since `mark` was taken."""
        parts, self.record_count, self.size_bytes = mark
        del self._parts[parts:]

    def build(self) -> bytearray:
        """The batch, at base offset 0; `place_batch` moves it. Raises ValueError if it is empty."""
        if not self.record_count:
            raise ValueError("a batch needs at least one record")
        return assemble_batch(b"".join(self._parts), self.record_count, self.timestamp, self.timestamp)


def most_record_bytes(key_size: int, value_size: int, headers_size: int) -> int:
    """What a record of these sizes takes at most; some bytes less where its offset delta is small."""
    behind = len(varint(key_size)) + key_size + len(varint(value_size)) + value_size + headers_size
    behind += 2 + _DELTAS_OF_WIDTH[-1][0]
    return len(varint(behind)) + behind


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
    return [rows for _, rows in _laid_out(columns, np.arange(first_delta, first_delta + count))]


def _laid_out(columns: Sequence[bytes | Rows], deltas: Int64s) -> Iterator[tuple[slice, Rows]]:
    """Records with these offset deltas, which ascend: a stretch of them for each width of delta."""
    start = 0
    for width, limit in _DELTAS_OF_WIDTH:
        end = int(np.searchsorted(deltas, limit))
        if start < end:
            part = slice(start, end)
            parts = [one if isinstance(one, bytes) else one[part] for one in columns]
            yield part, _rows_of(parts, deltas[part], width)
        start = end
    assert start == len(deltas), "no batch holds so many records"


def _rows_of(parts: Sequence[bytes | Rows], deltas: Int64s, width: int) -> Rows:
    """Records whose offset deltas take `width` bytes."""
    attributes_and_timestamp_delta = b"\x00\x00"
    columns: list[Any] = [attributes_and_timestamp_delta, _varints(deltas, width), *parts]
    widths = [len(one) if isinstance(one, bytes) else one.shape[1] for one in columns]
    columns.insert(0, varint(sum(widths)))
    widths.insert(0, len(columns[0]))
    rows = np.empty((len(deltas), sum(widths)), np.uint8)
    at = 0
    for column, size in zip(columns, widths, strict=True):
        rows[:, at : at + size] = np.frombuffer(column, np.uint8) if isinstance(column, bytes) else column
        at += size
    return rows


def _varints(values: Int64s, width: int) -> Rows:
    """Values as zigzag varints that all take `width` bytes."""
    zigzag = values.astype(np.uint32) << np.uint32(1)
    rows = np.empty((len(values), width), np.uint8)
    for index in range(width):
        more = 0x80 if index + 1 < width else 0
        rows[:, index] = (zigzag >> np.uint32(7 * index) & np.uint32(0x7F)) | np.uint32(more)
    return rows
