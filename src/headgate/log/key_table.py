"""The last offset of each key, for compaction: a table of fixed size in its own memory.

Keys are compared only by sixteen bytes of BLAKE2b. Two keys with the same hash would be taken for one; among
a thousand million keys the probability of that is one in 10^20. An entry takes 24 bytes. The table is filled
to at most three quarters unless it must be. Its memory returns to the operating system when the table is
freed.
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
"""Maximum number of keys whose slots are cached by key: most keys recur soon."""
_HALVES: Final = Struct("=qq")


class TableFull(Exception):
    """The table has no space for another key."""


def key_hash(key: bytes) -> bytes:
    """Return the hash that identifies a key, 16 bytes."""
    return blake2b(key, digest_size=16).digest()


class KeyTable:
    """Hashes of keys to offsets, with space for `keys` keys or as many as fit into `limit_bytes`."""

    __slots__ = ("_highs", "_lows", "_mask", "_offsets", "_slot_of", "_slots", "count", "room")

    def __init__(self, keys: int, limit_bytes: int) -> None:
        most = max(limit_bytes // SLOT_BYTES, _SMALLEST_SLOTS)
        slots = _SMALLEST_SLOTS
        while 3 * slots < 4 * keys and 2 * slots <= most:
            slots *= 2
        self._slots = slots
        self._mask = slots - 1
        # Anonymous memory: zero without being touched, and released at once.
        self._lows, self._highs, self._offsets = [
            memoryview(mmap.mmap(-1, 8 * slots)).cast("q") for _ in range(3)
        ]
        self._slot_of: dict[bytes, int] = {}
        self.count = 0
        self.room = 3 * slots // 4
        """Number of keys up to which the table is fast."""

    def put(self, hashed: bytes, offset: int) -> int:
        """Set the key's last offset, which only grows; return the key's slot. Raises TableFull."""
        low, high = _HALVES.unpack(hashed)
        offsets, lows, highs, mask = self._offsets, self._lows, self._highs, self._mask
        at: int = low & mask
        # Offsets are stored plus one, so that zero is an empty slot.
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
        """Do the same as `put` for the hash of each key. There must be space for all."""
        remembered = self._slot_of
        get = remembered.get
        slots = [get(key, -1) for key in keys]
        if -1 in slots:
            for place in [place for place, slot in enumerate(slots) if slot < 0]:
                key = keys[place]
                slots[place] = slot = self.put(key_hash(key), int(offsets[place]))
                if len(remembered) < _MOST_REMEMBERED:
                    remembered[key] = slot
        # Arrays are assigned in order: for a repeated key the last offset remains.
        np.frombuffer(self._offsets, np.int64)[slots] = offsets + 1

    def get_each(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the last offset of each key; -1 for an unknown one."""
        get = self._slot_of.get
        slots = np.array([get(key, -1) for key in keys], np.int64)
        found: NDArray[np.int64] = np.frombuffer(self._offsets, np.int64)[slots] - 1
        for place in np.flatnonzero(slots < 0).tolist():
            found[place] = self.get(key_hash(keys[place]))
        return found

    def get(self, hashed: bytes) -> int:
        """Return the key's last offset; -1 for an unknown key."""
        low, high = _HALVES.unpack(hashed)
        offsets, lows, highs, mask = self._offsets, self._lows, self._highs, self._mask
        at = low & mask
        while stored := offsets[at]:
            if lows[at] == low and highs[at] == high:
                offset: int = stored - 1
                return offset
            at = (at + 1) & mask
        return -1
