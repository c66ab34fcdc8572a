"""Finds the row of a key: an open-addressed index of row numbers, which grows where it stands.

Where a key belongs, its home slot, is the key's hash scaled to the number of slots. So more slots do not
shuffle the rows: all of them move on, and keep their order. The index grows from its end: room is added
behind it, and a few rows at a time move from the old end to the new one, until the first is done. A hash at
or above the frontier has its home by the new number of slots, one below it by the old. Nobody ever waits for
the whole index, and at no time are there two of it.

A row that finds its home taken goes to the next free slot behind it; between a home and its row no slot is
free. What is moved is therefore always what stands between two free slots: no row's way leads through it.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE = 0xFFFFFFFF
"""A slot that holds no row."""
NOT_FOUND = -1

_HASH_FACTOR = 0x9E3779B97F4A7C15
_HASH_SHIFT = 20
"""Mix in the key's upper part and multiply; the upper 32 bits are the hash. Without the shift, keys that
differ in the topic alone would come to lie in heaps.
"""
_MASK64 = (1 << 64) - 1
_ALL = 1 << 32

_SMALLEST = 64
_HIGHEST_LOAD = 0.7
_GROWTH = 1.25
_GROWTH_IN_BULK = 1.6
"""When rows come by the thousand, as at load, there will be many more."""
_BULK_ROWS = 1000
_TAIL = 64
_MOVED_AT_ONCE = 1 << 13
"""An index of as many slots grows in one go."""
_ROWS_A_STEP = 256
_SLOTS_A_ROW = 7
"""How many slots are moved on for each row that comes: a little more than it takes to be done in time."""
_HASHED_AT_ONCE = 1 << 16

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]


class RowIndex:
    """Row numbers by key. The keys themselves are the caller's, who passes them in."""

    __slots__ = ("_frontier", "_home_slots", "_next_home_slots", "_slots", "full_at")

    def __init__(self, keys: Keys | None = None, room_for: int = 0) -> None:
        """An index of all these keys, row `i` has key `i`; or one with room for so many rows."""
        count = room_for if keys is None else len(keys)
        self._home_slots = self._next_home_slots = max(_SMALLEST, int(count * _GROWTH / _HIGHEST_LOAD))
        self._frontier = _ALL
        """Hashes below have their home by `home_slots`, the others by `next_home_slots`."""
        self._slots = _free(self._home_slots + _TAIL)
        self.full_at = int(self._home_slots * _HIGHEST_LOAD)
        """With how many rows `make_room` wants to be called."""
        if keys is not None and count:
            self._place_all(keys)

    # --- one row ---

    def find(self, key: int, keys: array[int]) -> int:
        """The row of a key, or NOT_FOUND."""
        slots = self._slots
        hashed = ((key ^ key >> _HASH_SHIFT) * _HASH_FACTOR & _MASK64) >> 32
        slot = hashed * (self._home_slots if hashed < self._frontier else self._next_home_slots) >> 32
        row: int = slots[slot]
        while row != FREE:
            if keys[row] == key:
                return row
            slot += 1
            row = slots[slot]
        return NOT_FOUND

    def add(self, row: int, key: int) -> None:
        """Take in a row whose key is not there yet."""
        slots = self._slots
        hashed = ((key ^ key >> _HASH_SHIFT) * _HASH_FACTOR & _MASK64) >> 32
        slot = hashed * (self._home_slots if hashed < self._frontier else self._next_home_slots) >> 32
        while slots[slot] != FREE:
            slot += 1
        slots[slot] = row
        if slot >= len(slots) - 1:  # the last slot stays free: it ends every search
            slots.extend(_free(_TAIL))

    # --- many rows ---

    def find_each(self, wanted: Keys, keys: array[int]) -> Rows:
        """The rows of many keys, NOT_FOUND where there is none."""
        found = np.full(len(wanted), NOT_FOUND, np.int64)
        held = np.frombuffer(keys, np.uint64)
        slots = np.frombuffer(self._slots, np.uint32)
        at = self._homes(wanted)
        pending = np.arange(len(wanted))
        while len(pending):
            rows = slots[at]
            is_taken = rows != FREE
            if not is_taken.all():
                pending, at, rows, wanted = pending[is_taken], at[is_taken], rows[is_taken], wanted[is_taken]
            is_it = held[rows] == wanted
            found[pending[is_it]] = rows[is_it]
            others = ~is_it
            pending, at, wanted = pending[others], at[others] + 1, wanted[others]
        return found

    def add_each(self, rows: Rows, keys: Keys) -> None:
        """Take in many rows by their keys, none of which is there yet."""
        self._put_in_order(*_by_home(rows, self._homes(keys)))

    def _put(self, rows: Rows, at: Rows) -> None:
        """Each row goes to the first free slot from its home on."""
        slots = np.frombuffer(self._slots, np.uint32)
        while len(rows):
            if int(at.max()) >= len(slots) - 1:
                del slots
                self._slots.extend(_free(int(at.max()) + _TAIL - len(self._slots)))
                slots = np.frombuffer(self._slots, np.uint32)
            is_free = slots[at] == FREE
            slots[at[is_free]] = rows[is_free]
            is_left = slots[at] != rows  # of those that came to the same slot one stays
            rows, at = rows[is_left], at[is_left] + 1

    # --- growing ---

    @property
    def is_growing(self) -> bool:
        """Whether rows are on the move."""
        return self._next_home_slots != self._home_slots

    def make_room(self, row_count: int, keys: array[int]) -> None:
        """Take a step of growth for `row_count` rows, of which those that are new have still to come."""
        new_rows = max(row_count - self.full_at, 0) + _ROWS_A_STEP
        if not self.is_growing and row_count >= int(self._home_slots * _HIGHEST_LOAD):
            growth = _GROWTH_IN_BULK if new_rows >= _BULK_ROWS else _GROWTH
            self._next_home_slots = max(int(self._home_slots * growth), int(row_count * growth))
            self._slots.extend(_free(self._next_home_slots - self._home_slots))
        if self.is_growing:
            is_small = self._home_slots <= _MOVED_AT_ONCE
            self._move(self._home_slots if is_small else new_rows * _SLOTS_A_ROW, keys)
        if self.is_growing:
            self.full_at = row_count + _ROWS_A_STEP
        else:
            self.full_at = int(self._home_slots * _HIGHEST_LOAD)

    def _move(self, count: int, keys: array[int]) -> None:
        """Move on what stands in about `count` slots below the frontier."""
        slots = np.frombuffer(self._slots, np.uint32)
        home_slots = self._home_slots
        below = ((self._frontier - 1) * home_slots >> 32) + 1
        first = max(below - count, 0)
        while first and slots[first - 1] != FREE:
            first -= 1
        end = below
        while slots[end] != FREE:
            end += 1
        part = slots[first:end]
        rows = part[part != FREE].astype(np.int64)
        part[:] = FREE
        self._frontier = -(-(first << 32) // home_slots)
        if not first:
            self._frontier, self._home_slots = _ALL, self._next_home_slots
        del slots, part
        self._put_in_order(*_by_home(rows, self._homes(np.frombuffer(keys, np.uint64)[rows])))

    def _put_in_order(self, rows: Rows, homes: Rows) -> None:
        """The same as `_put`, in one step for all rows but those in whose way others stand; homes ascend."""
        if not len(rows):
            return
        ranks = np.arange(len(rows))
        at = np.maximum.accumulate(homes - ranks) + ranks
        if int(at[-1]) >= len(self._slots) - 1:
            self._slots.extend(_free(int(at[-1]) + _TAIL - len(self._slots)))
        slots = np.frombuffer(self._slots, np.uint32)
        is_free = slots[at] == FREE
        slots[at[is_free]] = rows[is_free]
        del slots
        self._put(rows[~is_free], at[~is_free])

    # --- all rows ---

    def _homes(self, keys: Keys) -> Rows:
        hashes = (keys ^ (keys >> np.uint64(_HASH_SHIFT))) * np.uint64(_HASH_FACTOR) >> np.uint64(32)
        homes = hashes * np.uint64(self._home_slots) >> np.uint64(32)
        if self.is_growing:
            moved = hashes >= np.uint64(self._frontier)
            homes[moved] = hashes[moved] * np.uint64(self._next_home_slots) >> np.uint64(32)
        return homes.astype(np.int64)

    def _place_all(self, keys: Keys) -> None:
        """Place all rows into an empty index, a part of the slots after the other."""
        homes = np.empty(len(keys), np.uint32)
        for start in range(0, len(keys), _HASHED_AT_ONCE):
            homes[start : start + _HASHED_AT_ONCE] = self._homes(keys[start : start + _HASHED_AT_ONCE])
        parts = max(1, len(keys) // (4 * _HASHED_AT_ONCE))
        for part in range(parts):
            low, high = self._home_slots * part // parts, self._home_slots * (part + 1) // parts
            rows = np.flatnonzero((homes >= low) & (homes < high))
            self._put_in_order(*_by_home(rows, homes[rows]))


def _by_home(rows: Rows, homes: NDArray[Any]) -> tuple[Rows, Rows]:
    """Rows and their homes, in the order of the homes."""
    # Home and row in one number: sorting numbers is quicker than sorting by them.
    both = homes.astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    both.sort()
    return (both & np.uint64(FREE)).astype(np.int64), (both >> np.uint64(32)).astype(np.int64)


def _free(count: int) -> array[Any]:
    return array("I", (FREE,)) * max(count, 0)
