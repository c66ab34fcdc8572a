"""Build one batch from single records and from columns of records with equal sizes.

Records with equal key lengths and equal value lengths differ in few bytes. They are laid out as rows of one
array and written in one piece: a loop over them would cost more than the rest of a wide commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import RecordHeader, assemble_batch, encode_record, varint

Int64s = NDArray[np.int64]
ByteRows = NDArray[np.uint8]
"""One row per record: (records, bytes)."""


class RecordBlock(NamedTuple):
    """Records of one key length and one value length, among records of other lengths."""

    places: Int64s
    """Index of each record in the batch; ascending."""
    keys: ByteRows
    values: ByteRows | None
    """None for tombstones."""

    def between(self, first: int, end: int) -> RecordBlock:
        """Return the records with indexes in `first` to `end` (exclusive), with indexes relative to
        `first`.
        """
        low, high = np.searchsorted(self.places, (first, end)).tolist()
        values = None if self.values is None else self.values[low:high]
        return RecordBlock(self.places[low:high] - first, self.keys[low:high], values)


_DELTAS_OF_WIDTH = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27))
"""Size of a zigzag varint in bytes, and the first value that needs more."""
_NO_HEADERS = b"\x00"
_NULL = varint(-1)
_DELTAS: Final = [varint(value) for value in range(1024)]
_LENGTHS: Final = [varint(value) + b"\x00\x00" for value in range(1024)]
"""How a record of so many bytes begins: its length, no attributes, no timestamp delta."""
_MOST_VARINT_BYTES: Final = 5


class RecordOutline:
    """The bytes of a record without headers, except its offset delta and parts in the middle and at the end
    of its value.
    """

    __slots__ = ("after", "middle", "size_behind", "size_bytes")

    def __init__(self, key: bytes, before: bytes, size: int, after: bytes, end_size: int) -> None:
        """The value is `before`, then `size` variable bytes, `after`, and `end_size` variable bytes."""
        value_size = len(before) + size + len(after) + end_size
        self.middle = varint(len(key)) + key + varint(value_size) + before
        """Bytes between the offset delta and the variable part of the value."""
        self.after = after
        """Bytes between that part and the variable end."""
        self.size_behind = 2 + len(self.middle) + size + len(after) + end_size + 1
        """Size of the record without its length and its offset delta."""
        self.size_bytes = self.size_behind + _MOST_VARINT_BYTES + _DELTAS_OF_WIDTH[-1][0]
        """Maximum size of the record."""


class BatchBuilder:
    """Collects records, all of one timestamp in ms, and builds one batch of them."""

    __slots__ = ("_parts", "record_count", "size_bytes", "timestamp")

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp
        self.record_count = 0
        self.size_bytes = 0
        """Size of the records without the batch's header; an estimate for single records."""
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
        """Append a record for each outline, with its own bytes in the middle of the value and the same
        `ending` in all. `size` is their maximum size together.
        """
        end_and_headers = ending + _NO_HEADERS
        parts, first = self._parts, self.record_count
        self.record_count = end = first + len(outlines)
        self.size_bytes += size
        deltas = _DELTAS[first:end] if end <= len(_DELTAS) else [varint(one) for one in range(first, end)]
        for index, outline in enumerate(outlines):
            delta = deltas[index]
            length = outline.size_behind + len(delta)
            parts.append(_LENGTHS[length] if length < 1024 else varint(length) + b"\x00\x00")
            parts.append(delta)
            parts.append(outline.middle)
            parts.append(changing[index])
            parts.append(outline.after)
            parts.append(end_and_headers)

    def add_laid_out(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Append encoded records: each is its bytes from key length to the value's end, and those of its
        headers.
        """
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

    def add_laid_out_rows(self, *columns: bytes | ByteRows) -> None:
        """Do the same for records of one length: columns, or bytes equal in all, from the key length on."""
        count = next(len(one) for one in columns if not isinstance(one, bytes))
        records = b"".join(block.tobytes() for block in _blocks(columns, count, self.record_count))
        self._parts.append(records)
        self.record_count += count
        self.size_bytes += len(records)

    def add_columns(self, keys: ByteRows, values: ByteRows, headers: ByteRows | None = None) -> None:
        """Append a record for each row of `keys` and `values`; rows of `headers` begin with the header
        count.
        """
        records = uniform_records(keys, values, self.record_count, headers)
        self._parts.append(records)
        self.record_count += len(keys)
        self.size_bytes += len(records)

    def add_blocks(self, blocks: Sequence[RecordBlock], headers: ByteRows | None = None) -> None:
        """Append the records of all blocks at their indexes; `headers` has a row for each index."""
        first = self.record_count
        count = sum(len(block.places) for block in blocks)
        sizes = np.empty(count, np.int64)
        laid_out: list[tuple[Int64s, ByteRows]] = []
        for places, keys, values in blocks:
            columns: list[bytes | ByteRows] = [varint(keys.shape[1]), keys]
            columns += [_NULL] if values is None else [varint(values.shape[1]), values]
            columns.append(_NO_HEADERS if headers is None else headers[places])
            for part, rows in _laid_out(columns, first + places):
                sizes[places[part]] = rows.shape[1]
                laid_out.append((places[part], rows))
        ends = np.cumsum(sizes)
        records = np.empty(int(ends[-1]) if count else 0, np.uint8)
        for places, rows in laid_out:
            # Write each record as one item of its size at an arbitrary position.
            one = np.dtype(f"V{rows.shape[1]}")
            anywhere = np.ndarray((len(records) - one.itemsize + 1,), one, records, strides=(1,))
            anywhere[ends[places] - one.itemsize] = rows.view(one).ravel()
        self._parts.append(records.tobytes())
        self.record_count += count
        self.size_bytes += len(records)

    def mark(self) -> tuple[int, int, int]:
        """Return a mark for `cut_back`."""
        return len(self._parts), self.record_count, self.size_bytes

    def cut_back(self, mark: tuple[int, int, int]) -> None:
        """Remove the records appended since `mark` was taken."""
        parts, self.record_count, self.size_bytes = mark
        del self._parts[parts:]

    def build(self) -> bytearray:
        """Return the batch, at base offset 0; `place_batch` moves it. Raises ValueError if it is empty."""
        if not self.record_count:
            raise ValueError("a batch needs at least one record")
        return assemble_batch(b"".join(self._parts), self.record_count, self.timestamp, self.timestamp)


def most_record_bytes(key_size: int, value_size: int, headers_size: int) -> int:
    """Return the maximum size of a record with these sizes; a small offset delta makes it some bytes
    smaller.
    """
    behind = len(varint(key_size)) + key_size + len(varint(value_size)) + value_size + headers_size
    behind += 2 + _DELTAS_OF_WIDTH[-1][0]
    return len(varint(behind)) + behind


def uniform_records(
    keys: ByteRows, values: ByteRows, first_delta: int, headers: ByteRows | None = None
) -> bytes:
    """Return the bytes of records with these keys and values, at one time, from this offset delta on."""
    return b"".join(block.tobytes() for block in uniform_blocks(keys, values, first_delta, headers))


def uniform_blocks(
    keys: ByteRows, values: ByteRows, first_delta: int, headers: ByteRows | None = None
) -> list[ByteRows]:
    """Do the same in blocks of rows of equal length: larger offset deltas take more bytes."""
    columns: list[bytes | ByteRows] = [varint(keys.shape[1]), keys, varint(values.shape[1]), values]
    columns.append(_NO_HEADERS if headers is None else headers)
    return _blocks(columns, len(keys), first_delta)


def _blocks(columns: Sequence[bytes | ByteRows], count: int, first_delta: int) -> list[ByteRows]:
    """Return records with these columns, or the same bytes in each, after the offset delta."""
    return [rows for _, rows in _laid_out(columns, np.arange(first_delta, first_delta + count))]


def _laid_out(columns: Sequence[bytes | ByteRows], deltas: Int64s) -> Iterator[tuple[slice, ByteRows]]:
    """Yield records with these ascending offset deltas: one part for each width of the delta."""
    start = 0
    for width, limit in _DELTAS_OF_WIDTH:
        end = int(np.searchsorted(deltas, limit))
        if start < end:
            part = slice(start, end)
            parts = [one if isinstance(one, bytes) else one[part] for one in columns]
            yield part, _rows_of(parts, deltas[part], width)
        start = end
    assert start == len(deltas), "no batch holds so many records"


def _rows_of(parts: Sequence[bytes | ByteRows], deltas: Int64s, width: int) -> ByteRows:
    """Return records whose offset deltas take `width` bytes."""
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


def _varints(values: Int64s, width: int) -> ByteRows:
    """Return the values as zigzag varints that all take `width` bytes."""
    zigzag = values.astype(np.uint32) << np.uint32(1)
    rows = np.empty((len(values), width), np.uint8)
    for index in range(width):
        more = 0x80 if index + 1 < width else 0
        rows[:, index] = (zigzag >> np.uint32(7 * index) & np.uint32(0x7F)) | np.uint32(more)
    return rows
