"""A batch that is written again with other numbers: its records stay, some numbers in their values change.

A wide commit that comes again differs from the last in its offsets and in its time. The batch it becomes is
copied from the one before, and the numbers are written over it, a column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import finish_batch
from headgate.log.builder import Rows, uniform_blocks
from headgate.log.header import HEADER_BYTES

Int64s = NDArray[np.int64]


class _Block(NamedTuple):
    """Records of one length: where they begin in the batch, which they are, how they are laid out."""

    start: int
    rows: slice
    layout: np.dtype[np.void]


class BatchTemplate:
    """Makes batches of the same records with other numbers in their values."""

    __slots__ = ("_batch", "_blocks", "_names", "record_count")

    def __init__(self, keys: Rows, values: Rows, fields: Sequence[tuple[int, str]]) -> None:
        """Each row of `keys` and `values` is a record's; `fields` are the numbers that change:
        where each begins in the value, and its numpy type with the byte order.
        """
        self.record_count = len(keys)
        self._names = [f"field {index}" for index in range(len(fields))]
        self._batch = bytearray(HEADER_BYTES)
        self._blocks: list[_Block] = []
        first = 0
        for block in uniform_blocks(keys, values, 0):
            count, width = block.shape
            value_at = width - 1 - values.shape[1]  # a record ends with its value and the number of headers
            layout = np.dtype(
                {
                    "names": self._names,
                    "formats": [dtype for _, dtype in fields],
                    "offsets": [value_at + at for at, _ in fields],
                    "itemsize": width,
                }
            )
            self._blocks.append(_Block(len(self._batch), slice(first, first + count), layout))
            self._batch += block.tobytes()
            first += count

    @property
    def size_bytes(self) -> int:
        """What a batch comes to."""
        return len(self._batch)

    def batch(self, timestamp: int, *columns: Int64s | int) -> bytearray:
        """The batch at this time in ms, with a column, or one number for all records, for each field."""
        batch = self._batch.copy()
        for start, rows, layout in self._blocks:
            block = np.frombuffer(batch, layout, rows.stop - rows.start, start)
            for name, column in zip(self._names, columns, strict=True):
                block[name] = column if isinstance(column, int) else column[rows]
        finish_batch(batch, self.record_count, timestamp)
        return batch
