"""The last offset of each key, for compaction: a table of fixed size in memory of its own.

Keys are compared by sixteen bytes of BLAKE2b, never by themselves. Two keys that share them would be taken
for one; among a thousand million keys the odds of that are one in 10^20. An entry takes 24 bytes, and the
table is not filled beyond three quarters unless it must be. Its memory is the operating system's again when
the table goes.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

SLOT_BYTES: Final = 24
_SMALLEST_SLOTS: Final = 64
_MOST_REMEMBERED: Final = 1 << 16
"""Of how many keys the slot is remembered by the key itself: most keys come again soon."""
_HALVES: Final = Struct("=qq")


class TableFull(Exception):
    """Not one more key fits."""


def key_hash(key: bytes) -> bytes:
    """What a key is known by, 16 bytes."""
    return blake2b(key, digest_size=16).digest()


class KeyTable:
    """Hashes of keys to offsets. Made for `keys` keys, or as many as `limit_bytes` has room for."""

    __slots__ = ("_highs", "_lows", "_mask", "_offsets", "_slot_of", "_slots", "count", "room")

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
        self._slot_of: dict[bytes, int] = {}
        self.count = 0
        self.room = 3 * slots // 4
        """How many keys it takes before it becomes slow."""

    def put(self, hashed: bytes, offset: int) -> int:
        """Let `offset` be the key's last; offsets only grow. The key's slot. Raises TableFull."""
        low, high = _HALVES.unpack(hashed)
        offsets, lows, highs, mask = self._offsets, self._lows, self._highs, self._mask
        at: int = low & mask
        # Stored one higher than it is, so that an empty slot is zero.
        while offsets[at]:
            if lows[at] == low and highs[at] == high:
                offsets[at] = offset + 1
                return at
            at = (at + 1) & mask
        if self.count + 1 >= self._slots:
            raise TableFull
        lows[at], highs[at], offsets[at] = low, high, offset + 1
        self.count += 1
        return at

    def put_each(self, keys: Sequence[bytes], offsets: NDArray[np.int64]) -> None:
        """The same as `put` for the hash of each key. There has to be room for all."""
        remembered = self._slot_of
        get = remembered.get
        slots = [get(key, -1) for key in keys]
        if -1 in slots:
            for place in [place for place, slot in enumerate(slots) if slot < 0]:
                key = keys[place]
                slots[place] = slot = self.put(key_hash(key), int(offsets[place]))
                if len(remembered) < _MOST_REMEMBERED:
                    remembered[key] = slot
        # Arrays are assigned in order: of a key that stands twice the last offset stays.
        np.frombuffer(self._offsets, np.int64)[slots] = offsets + 1

    def get_each(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The last offset of each key; -1 for one not seen."""
        get = self._slot_of.get
        slots = np.array([get(key, -1) for key in keys], np.int64)
        found: NDArray[np.int64] = np.frombuffer(self._offsets, np.int64)[slots] - 1
        for place in np.flatnonzero(slots < 0).tolist():
            found[place] = self.get(key_hash(keys[place]))
        return found

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
