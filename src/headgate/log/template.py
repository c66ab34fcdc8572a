"""A batch that is written again with other numbers: its records stay, some numbers in their values change.

A wide commit that comes again differs from the last in its offsets and in its time. The batch it becomes is
copied from the one before, and the numbers are written over it, a column at a time; one that has not changed
stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import finish_batch
from headgate.log.builder import Rows, uniform_blocks
from headgate.log.header import CRC_END, HEADER_BYTES, set_time

Int64s = NDArray[np.int64]


class _Place(NamedTuple):
    """Where a number stands in records of one length: from which record to which, and these numbers."""

    first: int
    end: int
    numbers: Int64s


class BatchTemplate:
    """Makes batches of the same records with other numbers in their values."""

    __slots__ = ("_batch", "_fields", "_summed", "_written", "record_count")

    def __init__(self, keys: Rows, values: Rows, fields: Sequence[tuple[int, str]]) -> None:
        """Each row of `keys` and `values` is a record's; `fields` are the numbers that change:
        where each begins in the value, and its numpy type with the byte order.
        """
        self.record_count = len(keys)
        blocks = uniform_blocks(keys, values, 0)
        self._batch = bytearray(HEADER_BYTES) + b"".join(block.tobytes() for block in blocks)
        self._fields: list[list[_Place]] = [[] for _ in fields]
        self._written: list[Int64s | int | None] = [None] * len(fields)
        """What was put in last."""
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
        """What a batch comes to."""
        return len(self._batch)

    def batch(self, timestamp: int, *columns: Int64s | int) -> bytearray:
        """The batch at this time in ms, with a column, or one number for all records, for each field.

        A column that was given for the last batch must be what it was then.
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
