"""The rows of the offset table: columns of numbers, an index from key to row, and a chain for each group.

A row takes 32 bytes: key, offset, commit timestamp, leader epoch, and the next row of the same group. Columns
are `array`s: access to one number takes half the time of numpy, and numpy uses the same memory for access to
many.

A row whose offset was removed is left behind, marked, and used again by the next commit of the same key; rows
left behind are dropped a few at a time (`reclaiming`). A mark on the head of a group means that the group is
unknown.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.core.offsets.columns import NONE, flip
from headgate.core.offsets.keys import GROUP_SHIFT, groups_of
from headgate.core.offsets.row_index import RowIndex

Keys = NDArray[np.uint64]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


_NOTHING: int = flip(NONE)
"""The head of an unknown group without rows."""


class Version:
    """Identifies a state: who holds the current object knows the current state. Compared by identity."""

    __slots__ = ()


class Rows:
    """Offsets by key, and the known groups."""

    __slots__ = (
        "departures",
        "epochs",
        "group_count",
        "heads",
        "index",
        "keys",
        "left_behind",
        "nexts",
        "numbering",
        "offsets",
        "timestamps",
    )

    def __init__(self) -> None:
        self.keys, self.offsets, self.timestamps = array("Q"), array("q"), array("q")
        self.epochs, self.nexts = array("i"), array("i")
        """`nexts` links the rows of a group; a marked link belongs to a row left behind."""
        self.heads = array("i")
        """The first row of each group; a marked link belongs to an unknown group."""
        self.index = RowIndex()
        self.left_behind = 0
        self.numbering = Version()
        """Replaced when remembered row numbers become invalid: a row changed its key, or a group was
        forgotten.
        """
        self.group_count = 0
        """Number of known groups."""
        self.departures = 0
        """Total number of removed offsets."""

    @property
    def arrivals(self) -> int:
        """Return the total number of added offsets, without overwrites."""
        return len(self) + self.departures

    def __len__(self) -> int:
        return len(self.keys) - self.left_behind

    # --- one row ---

    def find(self, key: int) -> int:
        """Return the row of a live offset, or NONE."""
        row = self.index.find(key, self.keys)
        return row if row >= 0 and self.nexts[row] >= NONE else NONE

    def put(self, key: int, offset: int, epoch: int, timestamp: int) -> int:
        """Add or overwrite the offset of a key; its group is known from now on. Return the row."""
        row = self.index.find(key, self.keys)
        if row < 0:
            row = self._add(key, offset, epoch, timestamp)
        else:
            self.offsets[row] = offset
            self.timestamps[row] = timestamp
            self.epochs[row] = epoch
            following = self.nexts[row]
            if following < NONE:
                self.nexts[row] = flip(following)
                self.left_behind -= 1
        group = key >> GROUP_SHIFT
        head = self.heads[group]
        if head < NONE:
            self.heads[group] = flip(head)
            self.group_count += 1
        return row

    def _add(self, key: int, offset: int, epoch: int, timestamp: int) -> int:
        row = len(self.keys)
        if row >= self.index.full_at:
            self.index.make_room(row + 1, self.keys)
        self.keys.append(key)
        self.offsets.append(offset)
        self.timestamps.append(timestamp)
        self.epochs.append(epoch)
        group = key >> GROUP_SHIFT
        head = self.heads[group]
        if head >= NONE:
            self.nexts.append(head)
            self.heads[group] = row
        else:
            self.nexts.append(flip(head))
            self.heads[group] = flip(row)
        self.index.add(row, key)
        return row

    def leave_behind(self, row: int) -> None:
        """Remove the offset of a live row."""
        self.nexts[row] = flip(self.nexts[row])
        self.left_behind += 1
        self.departures += 1
        self.numbering = Version()

    def of_group(self, group: int) -> Iterator[int]:
        """Yield the live rows of a group, in no order."""
        head = self.heads[group]
        row = head if head >= NONE else flip(head)
        nexts = self.nexts
        while row != NONE:
            following = nexts[row]
            if following >= NONE:
                yield row
                row = following
            else:
                row = flip(following)

    def walk(self, group: int) -> Iterator[int]:
        """Yield the live rows of a group, NONE for each row left behind. Meanwhile no row may be dropped."""
        head = self.heads[group]
        row = head if head >= NONE else flip(head)
        while row != NONE:
            following = self.nexts[row]
            if following >= NONE:
                yield row
            else:
                following = flip(following)
                yield NONE
            row = following

    def has_any(self, group: int) -> bool:
        """Return whether a group has a live row."""
        nexts, unmarked = self.nexts, flip(0)
        head = self.heads[group]
        row = head if head >= NONE else flip(head)
        while row != NONE:
            row = nexts[row]
            if row >= NONE:
                return True
            row = unmarked - row  # inlined `flip`: a call costs too much here
        return False

    # --- groups ---

    def add_group(self, group: int) -> None:
        """Add the group with this number, if it is the next one, as an unknown group."""
        if group == len(self.heads):
            self.heads.append(_NOTHING)

    def is_known(self, group: int) -> bool:
        """Return whether the group has committed and was not forgotten since."""
        return self.heads[group] >= NONE

    def know(self, group: int) -> None:
        """Make the group known."""
        if self.heads[group] < NONE:
            self.heads[group] = flip(self.heads[group])
            self.group_count += 1

    def forget(self, group: int) -> None:
        """Make the group unknown; keep its rows."""
        if self.heads[group] >= NONE:
            self.heads[group] = flip(self.heads[group])
            self.group_count -= 1
            self.numbering = Version()

    def forgotten_groups(self) -> list[int]:
        """Return the unknown groups with live rows."""
        heads = np.frombuffer(self.heads, np.int32)
        is_forgotten = (heads < NONE) & (heads != _NOTHING)
        if not is_forgotten.any():
            return []
        has_any = np.zeros(len(heads), np.bool_)
        has_any[groups_of(self.live_keys())] = True
        forgotten: list[int] = np.flatnonzero(is_forgotten & has_any).tolist()
        return forgotten

    def is_unused(self, group: int) -> bool:
        """Return whether the group is unknown and has no rows, neither live nor left behind."""
        return self.heads[group] == _NOTHING

    # --- many rows ---

    def find_each(self, keys: Keys) -> Int64s:
        """Return the rows of live offsets, NONE for keys without one."""
        rows = self.index.find_each(keys, self.keys)
        if self.left_behind:
            is_gone = np.frombuffer(self.nexts, np.int32)[rows] < NONE
            rows[is_gone] = NONE  # for a missing row, the last row was read: keep NONE
        return rows

    def read_each(self, keys: Keys, offsets: Int64s, epochs: Int64s) -> None:
        """Write offset and leader epoch of each live key to its position; leave the others unchanged."""
        rows = self.find_each(keys)
        has_any = rows >= 0
        found = rows[has_any]
        offsets[has_any] = np.frombuffer(self.offsets, np.int64)[found]
        epochs[has_any] = np.frombuffer(self.epochs, np.int32)[found]

    def all_of_group(self, group: int) -> Int64s:
        """Return the live rows of a group, by ascending key."""
        rows = np.fromiter(self.of_group(group), np.int64)
        ordered: Int64s = rows[np.argsort(np.frombuffer(self.keys, np.uint64)[rows], kind="stable")]
        return ordered

    def columns_of(self, rows: Int64s) -> tuple[Keys, Int64s, Int64s, Int64s]:
        """Return keys, offsets, leader epochs and commit timestamps of these rows, as copies."""
        return (
            np.frombuffer(self.keys, np.uint64)[rows],
            np.frombuffer(self.offsets, np.int64)[rows],
            np.frombuffer(self.epochs, np.int32)[rows].astype(np.int64),
            np.frombuffer(self.timestamps, np.int64)[rows],
        )

    def put_each(self, keys: Keys, offsets: Int64s, epochs: Int32s, timestamps: Int64s) -> Int64s:
        """Add or overwrite many offsets; of equal keys the last one is valid. Return their rows."""
        rows = self.index.find_each(keys, self.keys)
        is_new = rows < 0
        if is_new.any():
            new_keys, numbers = _ascending(keys[is_new])
            rows[is_new] = numbers + len(self.keys)
            nothing = np.zeros(len(new_keys), np.int64)
            self.append_each(new_keys, nothing, nothing.astype(np.int32), nothing)
        if self.left_behind:
            nexts = np.frombuffer(self.nexts, np.int32)
            revived = np.unique(rows[nexts[rows] < NONE])
            nexts[revived] = flip(nexts[revived])
            self.left_behind -= len(revived)
        # Assignment to an array is in order: the last value of a row is valid.
        np.frombuffer(self.offsets, np.int64)[rows] = offsets
        np.frombuffer(self.timestamps, np.int64)[rows] = timestamps
        np.frombuffer(self.epochs, np.int32)[rows] = epochs
        self.know_each(keys)
        return rows

    def know_each(self, keys: Keys) -> None:
        """Make the groups of these keys known."""
        groups = groups_of(keys)
        heads = np.frombuffer(self.heads, np.int32)
        is_marked = heads[groups] < NONE
        if is_marked.any():
            found = np.unique(groups[is_marked])
            heads[found] = flip(heads[found])
            self.group_count += len(found)

    def leave_each_behind(self, keys: Keys) -> None:
        """Remove the offsets of these keys, if they exist; the keys are distinct."""
        rows = self.index.find_each(keys, self.keys)
        rows = rows[rows >= 0]
        nexts = np.frombuffer(self.nexts, np.int32)
        rows = rows[nexts[rows] >= NONE]
        nexts[rows] = flip(nexts[rows])
        self.left_behind += len(rows)
        self.departures += len(rows)
        self.numbering = Version()

    def append_each(self, keys: Keys, offsets: Int64s, epochs: Int32s, timestamps: Int64s) -> None:
        """Add a row for each of these new keys; leave known and unknown groups as they are."""
        first, count = len(self.keys), len(keys)
        if first + count >= self.index.full_at:
            self.index.make_room(first + count, self.keys)
        rows = np.arange(first, first + count)
        nexts = self._chain(rows, groups_of(keys))
        self.keys.frombytes(keys.tobytes())
        self.offsets.frombytes(offsets.tobytes())
        self.timestamps.frombytes(timestamps.tobytes())
        self.epochs.frombytes(epochs.tobytes())
        self.nexts.frombytes(nexts.tobytes())
        self.index.add_each(rows, keys)

    def _chain(self, rows: Int64s, groups: Int64s) -> Int32s:
        """Put new rows of these groups at the heads of the groups' chains; return the link of each."""
        order: Any = slice(None)
        if (groups[1:] < groups[:-1]).any():
            order = np.argsort(groups, kind="stable")
            groups = groups[order]
        ordered = rows[order]
        is_last = np.append(groups[1:] != groups[:-1], True)
        is_first = np.concatenate((is_last[-1:], is_last[:-1]))
        heads = np.frombuffer(self.heads, np.int32)
        old = heads[groups[is_first]]
        is_marked = old < NONE
        links = np.empty(len(rows), np.int32)
        links[1:] = ordered[:-1]
        links[is_first] = np.where(is_marked, flip(old), old)
        last = ordered[is_last]
        heads[groups[is_last]] = np.where(is_marked, flip(last), last)
        nexts = np.empty(len(rows), np.int32)
        nexts[order] = links
        return nexts

    # --- all rows ---

    def is_live(self) -> NDArray[np.bool_]:
        """Return for each row whether its offset exists."""
        return np.frombuffer(self.nexts, np.int32) >= NONE

    def known_groups(self) -> NDArray[np.bool_]:
        """Return for each group whether it is known."""
        return np.frombuffer(self.heads, np.int32) >= NONE

    def live_keys(self) -> Keys:
        """Return the keys of all live rows."""
        keys = np.frombuffer(self.keys, np.uint64)
        return keys[self.is_live()] if self.left_behind else keys.copy()


def _ascending(keys: Keys) -> tuple[Keys, Any]:
    """Return the distinct keys in ascending order, and the position of each given key among them."""
    if (keys[1:] > keys[:-1]).all():
        return keys, np.arange(len(keys))
    return np.unique(keys, return_inverse=True)
