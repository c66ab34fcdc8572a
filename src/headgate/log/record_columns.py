"""The positions of the records of many batches, as columns: much faster than reading them one by one.

Only the lengths are read in a loop, and not even those of consecutive records of one size; all other fields
are read for all records at once. If anything is unusual or wrong, the caller uses `iterate_records`, which
reads the same records and reports faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.log.compression import decompress
from headgate.log.header import HEADER_BYTES, MAGIC, BatchHeader, Buffer

Int64s = NDArray[np.int64]

READ_PAST_BYTES = 64
"""Number of zeros after the records in `RecordColumns.data`, for reads slightly past the end."""
_LONGEST_VARINT_BYTES = 5
_FEWEST_ALIKE = 12
"""Minimum number of records of one size that are worth reading together."""
_PATIENCE = 24
"""Number of records until the next search for such a run."""
_TOO_FAR = 1 << 40
_STEPS = [(length >> 1) + 1 if length and not length & 1 else _TOO_FAR for length in range(0x80)]
"""The size of a record by the one byte of its length."""


@dataclass(slots=True, eq=False)
class RecordColumns:
    """The records of some batches, in order: an element of each array is a record.

    Starts are positions in `data`. The size of a null key or value is -1.
    """

    data: bytes
    offsets: Int64s
    """Log offsets."""
    key_starts: Int64s
    key_sizes: Int64s
    value_starts: Int64s
    value_sizes: Int64s
    ends: Int64s
    """End position of each record."""
    has_headers: NDArray[np.bool_]
    timestamps: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, at: int) -> bytes | None:
        """Return the key of one record."""
        start, size = int(self.key_starts[at]), int(self.key_sizes[at])
        return None if size < 0 else self.data[start : start + size]

    def value(self, at: int) -> bytes | None:
        """Return the value of one record."""
        start, size = int(self.value_starts[at]), int(self.value_sizes[at])
        return None if size < 0 else self.data[start : start + size]


def read_columns(batches: Sequence[tuple[BatchHeader, Buffer]]) -> RecordColumns | None:
    """Return the records of these batches; None if a record is malformed or unusual.

    Raises CorruptBatch if a compressed batch cannot be decompressed.
    """
    headers = [header for header, _ in batches]
    if any(header.magic != MAGIC or header.record_count < 0 for header in headers):
        return None
    bodies = [
        decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
        if header.codec
        else memoryview(batch)[HEADER_BYTES:]
        for header, batch in batches
    ]
    data = b"".join((*bodies, bytes(READ_PAST_BYTES)))
    steps = _Steps(data)
    at = 0
    for (header, _), body in zip(batches, bodies, strict=True):
        end = at + len(body)
        if not steps.over(at, end, header.record_count):
            return None
        at = end
    try:
        return _fields(data, steps.starts(), at, headers)
    except _Unusual:
        return None


class _Unusual(Exception):
    """A number has more bytes than any valid one."""


class _Steps:
    """Steps from record to record and keeps their start positions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._found: list[int] = []
        self._pieces: list[Int64s] = []

    def starts(self) -> Int64s:
        """Return the start positions of all records so far."""
        self._keep()
        return np.concatenate(self._pieces) if self._pieces else np.empty(0, np.int64)

    def _keep(self) -> None:
        if self._found:
            self._pieces.append(np.array(self._found, np.int64))
            self._found = []

    def over(self, at: int, end: int, count: int) -> bool:
        """Step over `count` records from `at` to `end`; return False if they do not fit exactly."""
        data = self._data
        patience = 0
        while count > 0:
            if at >= end:
                return False
            if count >= _FEWEST_ALIKE and patience <= 0:
                alike, size = self._alike(at, end, count)
                if alike:
                    self._keep()
                    self._pieces.append(np.arange(at, at + alike * size, size, dtype=np.int64))
                    at += alike * size
                    count -= alike
                    patience = 0 if alike >= _FEWEST_ALIKE else _PATIENCE
                    continue
                patience = _PATIENCE
            steps = min(count, _FEWEST_ALIKE)
            append = self._found.append
            for step in range(steps):
                append(at)
                size = data[at]
                if size < 0x80:
                    at += _STEPS[size]
                elif (more := data[at + 1]) < 0x80:
                    size = size & 0x7F | more << 7
                    at += (size >> 1) + 2 if not size & 1 else _TOO_FAR
                else:
                    at += _long_step(data, at)
                if at >= end:
                    count -= step + 1
                    return at == end and not count
            count -= steps
            patience -= steps
        return at == end

    def _alike(self, at: int, end: int, count: int) -> tuple[int, int]:
        """Return the number of consecutive records of one size from `at` on, and the size; 0 if there are
        few.

        Equal lengths make equal steps: where one record ends the next one begins.
        """
        data = self._data
        size = _STEPS[data[at]] if data[at] < 0x80 else _long_step(data, at)
        far = at + (_FEWEST_ALIKE - 1) * size
        if far + size > end or data[far : far + 2] != data[at : at + 2]:
            return 0, size
        most = min(count, (end - at) // size)
        rows: NDArray[Any] = np.ndarray((most, 2), np.uint8, self._bytes, at, (size, 1))
        differs = (rows != rows[0]).any(axis=1)
        first = int(differs.argmax())
        return (first if differs[first] else most), size


def _long_step(data: bytes, at: int) -> int:
    """Return the size of a record whose length has more than one byte; _TOO_FAR if it is invalid."""
    value = shift = 0
    for width in range(1, _LONGEST_VARINT_BYTES + 1):
        byte = data[at + width - 1]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) + width if not value & 1 else _TOO_FAR
        shift += 7
    return _TOO_FAR


def _fields(data: bytes, starts: Int64s, end: int, headers: Sequence[BatchHeader]) -> RecordColumns | None:
    octets = np.frombuffer(data, np.uint8)
    ends = np.append(starts[1:], end)
    counts = np.array([header.record_count for header in headers], np.int64)
    _, at = _varints(octets, starts)
    timestamp_deltas, at = _varints(octets, at + 1)
    deltas, at = _varints(octets, at)
    key_sizes, key_starts = _varints(octets, at)
    if not _fit(key_starts, key_sizes, ends):
        return None
    value_sizes, value_starts = _varints(octets, key_starts + np.maximum(key_sizes, 0))
    if not _fit(value_starts, value_sizes, ends):
        return None
    at = value_starts + np.maximum(value_sizes, 0)
    has_headers = octets[at] != 0
    if not ((at + 1 == ends) | (has_headers & (at < ends))).all():
        return None
    bases = np.repeat(np.array([header.base_offset for header in headers], np.int64), counts)
    if not _are_in_order(deltas, counts, [header.last_offset_delta for header in headers]):
        return None
    timestamps = timestamp_deltas + np.repeat(np.array([one.base_timestamp for one in headers]), counts)
    for first, header in zip((np.cumsum(counts) - counts).tolist(), headers, strict=True):
        if header.uses_log_append_time:
            timestamps[first : first + header.record_count] = header.max_timestamp
    return RecordColumns(
        data,
        bases + deltas,
        key_starts,
        key_sizes,
        value_starts,
        value_sizes,
        ends,
        has_headers,
        timestamps,
    )


def _fit(starts: Int64s, sizes: Int64s, ends: Int64s) -> bool:
    """Return whether keys and values lie within their records, a byte before the end, with valid sizes."""
    return bool((sizes >= -1).all() and (starts + np.maximum(sizes, 0) < ends).all())


def _are_in_order(deltas: Int64s, counts: Int64s, largest: Sequence[int]) -> bool:
    """Return whether offsets ascend within each batch, and stay below the end of the batch."""
    if not len(deltas):
        return True
    ends = np.cumsum(counts)[counts > 0]
    firsts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    grows = np.ones(len(deltas), np.bool_)
    grows[1:] = deltas[1:] > deltas[:-1]
    grows[firsts] = deltas[firsts] >= 0
    return bool(grows.all() and (deltas[ends - 1] <= np.array(largest, np.int64)[counts > 0]).all())


def _varints(octets: NDArray[np.uint8], at: Int64s) -> tuple[Int64s, Int64s]:
    """Return the zigzag varint at each position, and the position after it. Raises _Unusual."""
    low = octets[at]
    raw = low.astype(np.int64)
    after = at + 1
    if int(low.max(initial=0)) >= 0x80:
        raw &= 0x7F
        rest = np.flatnonzero(low >= 0x80)
        for index in range(1, _LONGEST_VARINT_BYTES):
            byte = octets[after[rest]]
            raw[rest] |= (byte & 0x7F).astype(np.int64) << (7 * index)
            after[rest] += 1
            rest = rest[byte >= 0x80]
        if len(rest):
            raise _Unusual
    return (raw >> 1) ^ -(raw & 1), after
