"""The two sparse indexes of a segment, in Kafka's file formats.

    .index       relative offset i32, position i32      every `index_interval_bytes` of log, one entry: the
                                                        last offset of a batch and where that batch begins
    .timeindex   timestamp i64, relative offset i32     the largest timestamp so far, and whose it is

Both only grow while a segment is written, and are searched by bisection. They are derived from the log, which
has precedence: a file that is not strictly increasing, or points past its log, is ignored.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

import numpy as np

_WORD: Final = "i"
_HIGH, _LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
"""Places of the two words of a timestamp in memory."""
OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
MOST_RELATIVE_OFFSET: Final = (1 << 31) - 1
"""Maximum distance of an offset from the base offset of its segment."""


class OffsetIndex:
    """Relative last offsets of some batches, and the positions of these batches in the log."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets: array[int] = array(_WORD)
        self.positions: array[int] = array(_WORD)

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """Add one entry after all others."""
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def first_at_or_above(self, relative_offset: int) -> int:
        """Return the index of the first entry at or above `relative_offset`; `len` if there is none."""
        return bisect_left(self.offsets, relative_offset)

    def last_position_at_or_below(self, position: int) -> int:
        """Return the largest indexed position up to `position`, where a batch begins; 0 without one."""
        return self.last_entry_at_or_below(position)[0]

    def last_entry_at_or_below(self, position: int) -> tuple[int, int]:
        """Return the largest indexed position up to `position`, and the relative last offset of its batch.

        (0, -1) without one.
        """
        at = bisect_right(self.positions, position)
        return (self.positions[at - 1], self.offsets[at - 1]) if at else (0, -1)

    def truncate(self, position: int) -> None:
        """Remove the batches that begin at `position` or later."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:]
        del self.positions[keep:]

    def to_bytes(self) -> bytes:
        """Return the contents of the .index file."""
        words = array(_WORD, bytes(OFFSET_ENTRY_BYTES * len(self)))
        words[0::2] = self.offsets
        words[1::2] = self.positions
        return _big_endian(words).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, log_bytes: int) -> OffsetIndex | None:
        """Return the index in an .index file, or None if these bytes cannot be one for a log of this size."""
        if len(data) % OFFSET_ENTRY_BYTES:
            return None
        words: array[int] = array(_WORD)
        words.frombytes(data)
        _big_endian(words)
        index = cls()
        index.offsets, index.positions = words[0::2], words[1::2]
        if not _grows(index.offsets) or not _grows(index.positions):
            return None
        if len(index) and (
            index.offsets[0] < 0 or index.positions[0] <= 0 or index.positions[-1] >= log_bytes
        ):
            return None
        return index


class TimeIndex:
    """Increasing largest timestamps (ms), each with the relative last offset of its batch."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps: array[int] = array("q")
        self.offsets: array[int] = array(_WORD)

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if the timestamp is greater than the last one."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def start_before(self, timestamp: int) -> tuple[int, int]:
        """Return a relative offset up to which every timestamp is below `timestamp`, and the largest of them.

        (0, -1) when none is known.
        """
        at = bisect_left(self.timestamps, timestamp)
        return (self.offsets[at - 1], self.timestamps[at - 1]) if at else (0, -1)

    def last_before(self, relative_offset: int) -> tuple[int, int]:
        """Return timestamp and relative offset of the last entry below `relative_offset`; (-1, 0) without
        one.
        """
        at = bisect_left(self.offsets, relative_offset)
        return (self.timestamps[at - 1], self.offsets[at - 1]) if at else (-1, 0)

    def to_bytes(self) -> bytes:
        """Return the contents of the .timeindex file."""
        halves = array(_WORD)
        halves.frombytes(self.timestamps.tobytes())
        words = array(_WORD, bytes(TIME_ENTRY_BYTES * len(self)))
        words[0::3] = halves[_HIGH::2]
        words[1::3] = halves[_LOW::2]
        words[2::3] = self.offsets
        return _big_endian(words).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeIndex | None:
        """Return the index in a .timeindex file, or None if these bytes cannot be one."""
        if len(data) % TIME_ENTRY_BYTES:
            return None
        words: array[int] = array(_WORD)
        words.frombytes(data)
        _big_endian(words)
        index = cls()
        index.offsets = words[2::3]
        halves = array(_WORD, bytes(8 * len(index.offsets)))
        halves[_HIGH::2] = words[0::3]
        halves[_LOW::2] = words[1::3]
        index.timestamps.frombytes(halves.tobytes())
        if not _grows(index.timestamps) or not _grows(index.offsets):
            return None
        if len(index) and (index.offsets[0] < 0 or index.timestamps[0] < 0):
            return None
        return index


def _grows(values: array[int]) -> bool:
    if len(values) < 2:
        return True
    words = np.frombuffer(values, values.typecode)
    return bool((words[1:] > words[:-1]).all())


def _big_endian(words: array[int]) -> array[int]:
    if sys.byteorder == "little":
        words.byteswap()
    return words
