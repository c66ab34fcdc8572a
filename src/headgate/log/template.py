"""A template of a batch whose records stay the same while some numbers in their values change.

A repeated wide commit differs from the last one in its offsets and its time. Its batch is a copy of the last
one in which changed numbers are written over, a column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import finish_batch
from headgate.log.builder import ByteRows, uniform_blocks
from headgate.log.header import CRC_END, HEADER_BYTES, set_time

Int64s = NDArray[np.int64]


class _Place(NamedTuple):
    """The memory of one number in records of equal length, from record `first` to `end` (exclusive)."""

    first: int
    end: int
    numbers: Int64s


class BatchTemplate:
    """Builds batches of the same records with other numbers in their values."""

    __slots__ = ("_batch", "_fields", "_summed", "_written", "record_count")

    def __init__(self, keys: ByteRows, values: ByteRows, fields: Sequence[tuple[int, str]]) -> None:
        """Rows of `keys` and `values` belong to records; `fields` are the variable numbers: position in the
        value, and numpy type with byte order.
        """
        self.record_count = len(keys)
        blocks = uniform_blocks(keys, values, 0)
        self._batch = bytearray(HEADER_BYTES) + b"".join(block.tobytes() for block in blocks)
        self._fields: list[list[_Place]] = [[] for _ in fields]
        self._written: list[Int64s | int | None] = [None] * len(fields)
        """The last column or number of each field."""
        first, start = 0, HEADER_BYTES
        for block in blocks:
            count, width = block.shape
            value_at = width - 1 - values.shape[1]  # a record ends with its value and the number of headers
            for places, (at, dtype) in zip(self._fields, fields, strict=True):
                places.append(
                    _Place(
                        first,
                        first + count,
                        np.ndarray((count,), dtype, self._batch, start + value_at + at, (width,)),
                    )
                )
            first += count
            start += count * width
        finish_batch(self._batch, self.record_count, 0)
        self._summed = memoryview(self._batch)[CRC_END:]

    @property
    def size_bytes(self) -> int:
        """Size of a batch."""
        return len(self._batch)

    def batch(self, timestamp: int, *columns: Int64s | int) -> bytearray:
        """Return the batch at this time in ms, with a column, or one number for all records, for each field.

        A column object that was passed for the last batch must be unchanged.
        """
        written = self._written
        for index, column in enumerate(columns):
            if column is written[index]:
                continue
            written[index] = column
            if isinstance(column, int):
                for place in self._fields[index]:
                    place.numbers.fill(column)
            else:
                for first, end, numbers in self._fields[index]:
                    numbers[...] = column[first:end]
        set_time(self._batch, self._summed, timestamp)
        return self._batch.copy()
