"""Finds the row of a key: an open-addressed index of row numbers that grows in place.

The home slot of a key is its hash scaled to the number of slots. So with more slots the rows keep their
order, and all of them move to later slots. The index grows from its end: slots are added, and a few rows at a
time move from the old end to the new one, until the first row has moved. It shrinks in the opposite
direction, from its start. A hash at or above the frontier has its home by the larger number of slots, a hash
below it by the smaller one. No request waits for a rebuild of the index, and there is never a second copy of
it.

A row whose home slot is taken goes to the next free slot; all slots between a home and its row are taken. So
the index moves whole stretches between two free slots: no search of another row crosses them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE = 0xFFFFFFFF
"""A slot without a row."""
NOT_FOUND = -1

_HASH_FACTOR = 0x9E3779B97F4A7C15
_HASH_SHIFT = 20
"""Mix in the upper part of the key and multiply; the upper 32 bits are the hash. Without the shift, keys that
differ only in the topic would cluster.
"""
_MASK64 = (1 << 64) - 1
_ALL = 1 << 32

_SMALLEST = 64
_HIGHEST_LOAD = 0.75
_GROWTH = 1.2
_GROWTH_IN_BULK = 1.6
"""RowNumbers added by the thousand, as in a load, are followed by many more."""
_BULK_ROWS = 1000
_TAIL = 64
_MOVED_AT_ONCE = 1 << 13
"""An index with at most this number of slots grows in one step."""
_ROWS_A_STEP = 256
_SLOTS_A_ROW = 7
"""Number of slots to move for each new row; slightly more than needed to finish in time."""
_RESERVED_AT_ONCE = 1 << 19
_LARGE = 2
"""An index with more than this multiple of the slots that it needs shrinks."""

Keys = NDArray[np.uint64]
RowNumbers = NDArray[np.int64]


class RowIndex:
    """Row numbers by key. The caller holds the keys and passes them in."""

    __slots__ = ("_frontier", "_high_slots", "_is_shrinking", "_low_slots", "_slots", "full_at")

    def __init__(self) -> None:
        self._low_slots = self._high_slots = _SMALLEST
        """Slot counts below and above the frontier; different while rows move."""
        self._frontier = _ALL
        """Hashes below it have their home by `low_slots`, the others by `high_slots`."""
        self._is_shrinking = False
        self._slots = _free(_SMALLEST + _TAIL)
        self.full_at = _full_at(_SMALLEST)
        """The number of rows from which `make_room` must be called."""

    # --- one row ---

    def find(self, key: int, keys: array[int]) -> int:
        """Return the row of a key, or NOT_FOUND."""
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
        """Add a row whose key is not in the index."""
        slots = self._slots
        hashed = ((key ^ key >> _HASH_SHIFT) * _HASH_FACTOR & _MASK64) >> 32
        slot = hashed * (self._low_slots if hashed < self._frontier else self._high_slots) >> 32
        while slots[slot] != FREE:
            slot += 1
        slots[slot] = row
        if slot >= len(slots) - 1:  # the last slot stays free: it ends each search
            slots.extend(_free(_TAIL))

    def replace(self, row: int, new_row: int, key: int) -> None:
        """Change the number of a row."""
        slots = self._slots
        slot = self._home(key)
        while slots[slot] != row:
            slot += 1
        slots[slot] = new_row

    def discard(self, row: int, keys: array[int]) -> None:
        """Remove a row; move the rows after it up to the gap where needed."""
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

    def find_each(self, wanted: Keys, keys: array[int]) -> RowNumbers:
        """Return the rows of many keys, NOT_FOUND for keys without a row."""
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

    def add_each(self, rows: RowNumbers, keys: Keys) -> None:
        """Add many rows whose keys are not in the index."""
        self._put_in_order(*_by_home(rows, self._homes(keys)))

    def _put(self, rows: RowNumbers, at: RowNumbers) -> None:
        """Put each row into the first free slot from its home on."""
        slots = np.frombuffer(self._slots, np.uint32)
        while len(rows):
            if int(at.max()) >= len(slots) - 1:
                del slots
                self._slots.extend(_free(int(at.max()) + _TAIL - len(self._slots)))
                slots = np.frombuffer(self._slots, np.uint32)
            is_free = slots[at] == FREE
            slots[at[is_free]] = rows[is_free]
            is_left = slots[at] != rows  # of several rows for one slot, one stays
            rows, at = rows[is_left], at[is_left] + 1

    # --- growing and shrinking ---

    @property
    def is_moving(self) -> bool:
        """Return whether rows are moving to another number of slots."""
        return self._low_slots != self._high_slots

    @property
    def is_shrinking(self) -> bool:
        """Return whether `shrink` has more to do."""
        return self._is_shrinking

    def reserve(self, row_count: int) -> Iterator[None]:
        """Reserve slots for `row_count` rows in an empty index, in steps."""
        wanted = max(_SMALLEST, int(row_count * _GROWTH / _HIGHEST_LOAD))
        while (missing := wanted + _TAIL - len(self._slots)) > 0:
            self._slots.extend(_free(min(missing, _RESERVED_AT_ONCE)))
            yield
        self._settle(wanted)

    def make_room(self, row_count: int, keys: array[int]) -> None:
        """Take a step of growth for `row_count` rows, new ones included; repeat if the slots are too few."""
        self._grow(row_count, keys)
        while row_count >= self.full_at:
            self._grow(row_count, keys)

    def _grow(self, row_count: int, keys: array[int]) -> None:
        new_rows = max(row_count - self.full_at, 0) + _ROWS_A_STEP
        self._is_shrinking = False  # the part that has shrunk grows again
        if not self.is_moving and row_count >= _full_at(self._low_slots):
            growth = _GROWTH_IN_BULK if new_rows >= _BULK_ROWS else _GROWTH
            more = max(int(self._low_slots * growth), int(row_count * growth))
            self._high_slots = max(more, self._low_slots + 1)  # with few slots, 1.2 times is the same number
            self._slots.extend(_free(self._high_slots - self._low_slots))
        if self.is_moving:
            is_small = self._low_slots <= _MOVED_AT_ONCE
            self._move_up(self._low_slots if is_small else new_rows * _SLOTS_A_ROW, keys)
        if self.is_moving:
            self.full_at = row_count + _ROWS_A_STEP

    def shrink(self, row_count: int, slot_count: int, keys: array[int]) -> None:
        """Take a step of about `slot_count` slots towards the size that these rows need, if much smaller."""
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
        """Compute all homes by this number of slots from now on."""
        self._low_slots = self._high_slots = slots
        self._frontier = _ALL
        self._is_shrinking = False
        self.full_at = _full_at(slots)

    def _move_up(self, count: int, keys: array[int]) -> None:
        """Move the rows in about `count` slots below the frontier to their new slots."""
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
        """Move the rows in about `count` slots from the frontier on to their new slots."""
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

    def _take_out(self, first: int, end: int) -> RowNumbers:
        """Free these slots and return their rows."""
        part = np.frombuffer(self._slots, np.uint32)[first:end]
        rows: RowNumbers = part[part != FREE].astype(np.int64)
        part[:] = FREE
        return rows

    def _put_in_order(self, rows: RowNumbers, homes: RowNumbers) -> None:
        """Put rows with ascending homes as `_put` does, but in one step for all rows without a conflict."""
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

    def _homes(self, keys: Keys) -> RowNumbers:
        hashes = (keys ^ (keys >> np.uint64(_HASH_SHIFT))) * np.uint64(_HASH_FACTOR) >> np.uint64(32)
        homes = hashes * np.uint64(self._low_slots) >> np.uint64(32)
        if self.is_moving:
            moved = hashes >= np.uint64(self._frontier)
            homes[moved] = hashes[moved] * np.uint64(self._high_slots) >> np.uint64(32)
        return homes.astype(np.int64)


def _full_at(slots: int) -> int:
    """Return the number of rows at which this number of slots is full."""
    return int(slots * _HIGHEST_LOAD)


def _by_home(rows: RowNumbers, homes: NDArray[Any]) -> tuple[RowNumbers, RowNumbers]:
    """Return rows and their homes, in the order of the homes."""
    # Home and row are packed into one number: sorting numbers is faster than an indirect sort.
    both = homes.astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    both.sort()
    return (both & np.uint64(FREE)).astype(np.int64), (both >> np.uint64(32)).astype(np.int64)


def _free(count: int) -> array[Any]:
    return array("I", (FREE,)) * max(count, 0)
