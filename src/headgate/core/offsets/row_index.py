"""Finds the row of a key: an open-addressed index of row numbers, which grows where it stands.

Where a key belongs, its home slot, is the key's hash scaled to the number of slots. So more slots do not
shuffle the rows: all of them move on, and keep their order. The index grows from its end: room is added
behind it, and a few rows at a time move from the old end to the new one, until the first is done. It shrinks
the other way round, from its start. A hash at or above the frontier has its home by the larger number of
slots, one below it by the smaller. Nobody ever waits for the whole index, and at no time are there two of it.

A row that finds its home taken goes to the next free slot behind it; between a home and its row no slot is
free. What is moved is therefore always what stands between two free slots: no row's way leads through it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
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
_HIGHEST_LOAD = 0.75
_GROWTH = 1.2
_GROWTH_IN_BULK = 1.6
"""When rows come by the thousand, as at load, there will be many more."""
_BULK_ROWS = 1000
_TAIL = 64
_MOVED_AT_ONCE = 1 << 13
"""An index of as many slots grows in one go."""
_ROWS_A_STEP = 256
_SLOTS_A_ROW = 7
"""How many slots are moved on for each row that comes: a little more than it takes to be done in time."""
_RESERVED_AT_ONCE = 1 << 19
_LARGE = 2
"""An index with more than so many times the slots it needs is to shrink."""

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]


class RowIndex:
    """Row numbers by key. The keys themselves are the caller's, who passes them in."""

    __slots__ = ("_frontier", "_high_slots", "_is_shrinking", "_low_slots", "_slots", "full_at")

    def __init__(self) -> None:
        self._low_slots = self._high_slots = _SMALLEST
        """They differ while rows are on the move."""
        self._frontier = _ALL
        """Hashes below have their home by `low_slots`, the others by `high_slots`."""
        self._is_shrinking = False
        self._slots = _free(_SMALLEST + _TAIL)
        self.full_at = _full_at(_SMALLEST)
        """With how many rows `make_room` wants to be called."""

    # --- one row ---

    def find(self, key: int, keys: array[int]) -> int:
        """The row of a key, or NOT_FOUND."""
        slots = self._slots
        hashed = ((key ^ key >> _HASH_SHIFT) * _HASH_FACTOR & _MASK64) >> 32
        slot = hashed * (self._low_slots if hashed < self._frontier else self._high_slots) >> 32
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
        slot = hashed * (self._low_slots if hashed < self._frontier else self._high_slots) >> 32
        while slots[slot] != FREE:
            slot += 1
        slots[slot] = row
        if slot >= len(slots) - 1:  # the last slot stays free: it ends every search
            slots.extend(_free(_TAIL))

    def replace(self, row: int, new_row: int, key: int) -> None:
        """What was row `row` has another number now."""
        slots = self._slots
        slot = self._home(key)
        while slots[slot] != row:
            slot += 1
        slots[slot] = new_row

    def discard(self, row: int, keys: array[int]) -> None:
        """A row is gone: those behind it that had to give way to it move up."""
        slots = self._slots
        gap = self._home(keys[row])
        while slots[gap] != row:
            gap += 1
        slot = gap + 1
        while (following := slots[slot]) != FREE:
            if self._home(keys[following]) <= gap:
                slots[gap] = following
                gap = slot
            slot += 1
        slots[gap] = FREE

    def _home(self, key: int) -> int:
        hashed = ((key ^ key >> _HASH_SHIFT) * _HASH_FACTOR & _MASK64) >> 32
        return hashed * (self._low_slots if hashed < self._frontier else self._high_slots) >> 32

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

    # --- growing and shrinking ---

    @property
    def is_moving(self) -> bool:
        """Whether rows are on the move."""
        return self._low_slots != self._high_slots

    @property
    def is_shrinking(self) -> bool:
        """Whether `shrink` has more to do."""
        return self._is_shrinking

    def reserve(self, row_count: int) -> Iterator[None]:
        """Make room for so many rows in an index that has none, in steps."""
        wanted = max(_SMALLEST, int(row_count * _GROWTH / _HIGHEST_LOAD))
        while (missing := wanted + _TAIL - len(self._slots)) > 0:
            self._slots.extend(_free(min(missing, _RESERVED_AT_ONCE)))
            yield
        self._settle(wanted)

    def make_room(self, row_count: int, keys: array[int]) -> None:
        """Take a step of growth for `row_count` rows, of which those that are new have still to come; where
        growth that was under way ends with too little room for them, begin to grow again.
        """
        self._grow(row_count, keys)
        while row_count >= self.full_at:
            self._grow(row_count, keys)

    def _grow(self, row_count: int, keys: array[int]) -> None:
        new_rows = max(row_count - self.full_at, 0) + _ROWS_A_STEP
        self._is_shrinking = False  # what has shrunk so far grows again
        if not self.is_moving and row_count >= _full_at(self._low_slots):
            growth = _GROWTH_IN_BULK if new_rows >= _BULK_ROWS else _GROWTH
            more = max(int(self._low_slots * growth), int(row_count * growth))
            self._high_slots = max(more, self._low_slots + 1)  # a handful of slots, times 1.2, are as many
            self._slots.extend(_free(self._high_slots - self._low_slots))
        if self.is_moving:
            is_small = self._low_slots <= _MOVED_AT_ONCE
            self._move_up(self._low_slots if is_small else new_rows * _SLOTS_A_ROW, keys)
        if self.is_moving:
            self.full_at = row_count + _ROWS_A_STEP

    def shrink(self, row_count: int, slot_count: int, keys: array[int]) -> None:
        """Take a step of about so many slots towards the room that these rows need, if it is much less."""
        wanted = max(_SMALLEST, int(row_count * _GROWTH / _HIGHEST_LOAD))
        if not self._is_shrinking:
            if _LARGE * wanted > self._low_slots:
                return
            if not self.is_moving:
                self._low_slots, self._frontier = wanted, 0
            self._is_shrinking = True
            self.full_at = (_full_at(self._low_slots) + row_count) // 2
        self._move_down(slot_count, keys)

    def _settle(self, slots: int) -> None:
        """From here on all homes are by this number of slots."""
        self._low_slots = self._high_slots = slots
        self._frontier = _ALL
        self._is_shrinking = False
        self.full_at = _full_at(slots)

    def _move_up(self, count: int, keys: array[int]) -> None:
        """Move on what stands in about `count` slots below the frontier."""
        low_slots = self._low_slots
        below = ((self._frontier - 1) * low_slots >> 32) + 1
        first = max(below - count, 0)
        while first and self._slots[first - 1] != FREE:
            first -= 1
        end = below
        while self._slots[end] != FREE:
            end += 1
        rows = self._take_out(first, end)
        self._frontier = -(-(first << 32) // low_slots)
        if not first:
            self._settle(self._high_slots)
        self._put_in_order(*_by_home(rows, self._homes(np.frombuffer(keys, np.uint64)[rows])))

    def _move_down(self, count: int, keys: array[int]) -> None:
        """Move up to the front what stands in about `count` slots from the frontier on."""
        high_slots = self._high_slots
        first = self._frontier * high_slots >> 32
        end = min(first + count, high_slots)
        while self._slots[end] != FREE:
            end += 1
        rows = self._take_out(first, end)
        is_last = end >= high_slots
        self._frontier = _ALL if is_last else -(-(end << 32) // high_slots)
        self._put_in_order(*_by_home(rows, self._homes(np.frombuffer(keys, np.uint64)[rows])))
        if is_last:
            self._settle(self._low_slots)
            end = self._low_slots
            while self._slots[end] != FREE:
                end += 1
            del self._slots[end + _TAIL :]

    def _take_out(self, first: int, end: int) -> Rows:
        """The rows in these slots, which are free from here on."""
        part = np.frombuffer(self._slots, np.uint32)[first:end]
        rows: Rows = part[part != FREE].astype(np.int64)
        part[:] = FREE
        return rows

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
        homes = hashes * np.uint64(self._low_slots) >> np.uint64(32)
        if self.is_moving:
            moved = hashes >= np.uint64(self._frontier)
            homes[moved] = hashes[moved] * np.uint64(self._high_slots) >> np.uint64(32)
        return homes.astype(np.int64)


def _full_at(slots: int) -> int:
    """With how many rows so many slots are full."""
    return int(slots * _HIGHEST_LOAD)


def _by_home(rows: Rows, homes: NDArray[Any]) -> tuple[Rows, Rows]:
    """Rows and their homes, in the order of the homes."""
    # Home and row in one number: sorting numbers is quicker than sorting by them.
    both = homes.astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    both.sort()
    return (both & np.uint64(FREE)).astype(np.int64), (both >> np.uint64(32)).astype(np.int64)


def _free(count: int) -> array[Any]:
    return array("I", (FREE,)) * max(count, 0)
