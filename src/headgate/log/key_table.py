"""The last offset of each key, for compaction: a table of fixed size in memory of its own.

Keys are compared by sixteen bytes of BLAKE2b, never by themselves. Two keys that share them would be taken
for one; among a thousand million keys the odds of that are one in 10^20. An entry takes 24 bytes, and the
table is not filled beyond three quarters unless it must be. Its memory is the operating system's again when
the table goes.
"""

from __future__ import annotations

import mmap
from hashlib import blake2b
from struct import Struct
from typing import Final

SLOT_BYTES: Final = 24
_SMALLEST_SLOTS: Final = 64
_HALVES: Final = Struct("=qq")


class TableFull(Exception):
    """Not one more key fits."""


def key_hash(key: bytes) -> bytes:
    """What a key is known by, 16 bytes."""
    return blake2b(key, digest_size=16).digest()


class KeyTable:
    """Hashes of keys to offsets. Made for `keys` keys, or as many as `limit_bytes` has room for."""

    __slots__ = ("_highs", "_lows", "_mask", "_offsets", "_slots", "count", "room")

    def __init__(self, keys: int, limit_bytes: int) -> None:
        most = max(limit_bytes // SLOT_BYTES, _SMALLEST_SLOTS)
        slots = _SMALLEST_SLOTS
        while 3 * slots < 4 * keys and 2 * slots <= most:
            slots *= 2
        self._slots = slots
        self._mask = slots - 1
        # Anonymous memory: zero without being touched, and given back at once.
        self._lows, self._highs, self._offsets = (
            memoryview(mmap.mmap(-1, 8 * slots)).cast("q") for _ in range(3)
        )
        self.count = 0
        self.room = 3 * slots // 4
        """How many keys it takes before it becomes slow."""

    def put(self, hashed: bytes, offset: int) -> None:
        """Let `offset` be the key's last; offsets only grow. Raises TableFull."""
        low, high = _HALVES.unpack(hashed)
        offsets, lows, highs, mask = self._offsets, self._lows, self._highs, self._mask
        at = low & mask
        # Stored one higher than it is, so that an empty slot is zero.
        while offsets[at]:
            if lows[at] == low and highs[at] == high:
                offsets[at] = offset + 1
                return
            at = (at + 1) & mask
        if self.count + 1 >= self._slots:
            raise TableFull
        lows[at], highs[at], offsets[at] = low, high, offset + 1
        self.count += 1

    def get(self, hashed: bytes) -> int:
        """The key's last offset; -1 for a key not seen."""
        low, high = _HALVES.unpack(hashed)
        offsets, lows, highs, mask = self._offsets, self._lows, self._highs, self._mask
        at = low & mask
        while stored := offsets[at]:
            if lows[at] == low and highs[at] == high:
                offset: int = stored - 1
                return offset
            at = (at + 1) & mask
        return -1
