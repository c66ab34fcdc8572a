"""Step from record to record of one batch, by their lengths.

The position of a record follows from the one before, so this is a loop. Consecutive records of one size are
stepped over together: equal lengths make equal steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_LONGEST_VARINT_BYTES = 10
"""The tenth has the last of 64 bits; one with more makes a size that is too far anyway."""
_FEWEST_ALIKE = 12
"""Minimum number of records of one size that are worth reading together."""
_PATIENCE = 24
"""Number of records until the next search for such a run."""
_TOO_FAR = 1 << 40
_STEPS = [(length >> 1) + 1 if length and not length & 1 else _TOO_FAR for length in range(0x80)]
"""The size of a record by the one byte of its length."""


class Steps:
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
        if data[at] >= 0x80 and data[at + 1] >= 0x80:
            return 0, 0  # two bytes do not tell whether lengths of three are equal
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
            return (value >> 1) + width if not value & 1 and value < _TOO_FAR else _TOO_FAR
        shift += 7
    return _TOO_FAR
