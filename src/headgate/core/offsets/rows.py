"""The rows of the offset table: columns of numbers, an index that finds a row by its key, a chain a group.

A row takes 32 bytes: key, offset, commit timestamp, leader epoch, and the next row of the same group.
Columns are `array`s: reading and writing one number takes half of what numpy takes, and numpy works on the
same memory where many are touched at once.

A row whose offset is gone is left behind, marked, to be revived by the next commit of the same key; what was
left behind is dropped a little at a time (`reclaiming`). A mark on the head of a group says that the group is
not known (any more).
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
"""The head of a group that is not known and has no rows."""


class Version:
    """Stands for a state: whoever has the same object knows the current state. Compared by identity."""

    __slots__ = ()


class Rows:
    """Offsets by key, and which groups are known."""

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
        """`nexts` links the rows of a group; a marked link is that of a row left behind."""
        self.heads = array("i")
        """A group's first row; a marked link is that of a group that is not known."""
        self.index = RowIndex()
        self.left_behind = 0
        self.numbering = Version()
        """Another one whenever a row may have become another key's or no key's, or a group was forgotten: who
        remembers rows asks anew."""
        self.group_count = 0
        """How many groups are known."""
        self.departures = 0
        """How many offsets are gone, ever."""

    @property
    def arrivals(self) -> int:
        """How many offsets came, ever: not those that were put over others."""
        return len(self) + self.departures

    def __len__(self) -> int:
        return len(self.keys) - self.left_behind

    # --- one row ---

    def find(self, key: int) -> int:
        """The row of a live offset, or NONE."""
        row = self.index.find(key, self.keys)
        return row if row >= 0 and self.nexts[row] >= NONE else NONE

    def put(self, key: int, offset: int, epoch: int, timestamp: int) -> int:
        """Take an offset in, over the previous one of its key; its group is known from here on. Its row."""
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
        """The offset of a live row is gone."""
        self.nexts[row] = flip(self.nexts[row])
        self.left_behind += 1
        self.departures += 1
        self.numbering = Version()

    def of_group(self, group: int) -> Iterator[int]:
        """The live rows of a group, in no order."""
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
        """The same, and NONE for each row that was left behind. Rows may come and go on the way, as long as
        none is dropped.
        """
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
        """Whether a group has a live row."""
        nexts, unmarked = self.nexts, flip(0)
        head = self.heads[group]
        row = head if head >= NONE else flip(head)
        while row != NONE:
            row = nexts[row]
            if row >= NONE:
                return True
            row = unmarked - row  # this is `flip`: a call costs too much here
        return False

    # --- groups ---

    def add_group(self, group: int) -> None:
        """A group with this number there is, if it is the next one: not known so far."""
        if group == len(self.heads):
            self.heads.append(_NOTHING)

    def is_known(self, group: int) -> bool:
        """Whether the group committed and was not forgotten since."""
        return self.heads[group] >= NONE

    def forget(self, group: int) -> None:
        """The group is no longer known; its rows stay."""
        if self.heads[group] >= NONE:
            self.heads[group] = flip(self.heads[group])
            self.group_count -= 1
            self.numbering = Version()

    def forgotten_groups(self) -> list[int]:
        """The groups that are not known and have live rows."""
        heads = np.frombuffer(self.heads, np.int32)
        is_forgotten = (heads < NONE) & (heads != _NOTHING)
        if not is_forgotten.any():
            return []
        has_any = np.zeros(len(heads), np.bool_)
        has_any[groups_of(self.live_keys())] = True
        forgotten: list[int] = np.flatnonzero(is_forgotten & has_any).tolist()
        return forgotten

    def is_unused(self, group: int) -> bool:
        """Whether the group is not known and has no rows, not even such as are left behind."""
        return self.heads[group] == _NOTHING

    # --- many rows ---

    def find_each(self, keys: Keys) -> Int64s:
        """The rows of live offsets, NONE where there is none."""
        rows = self.index.find_each(keys, self.keys)
        if self.left_behind:
            is_gone = np.frombuffer(self.nexts, np.int32)[rows] < NONE
            rows[is_gone] = NONE  # the last row stands in for one that is not there: NONE it stays
        return rows

    def read_each(self, keys: Keys, offsets: Int64s, epochs: Int64s) -> None:
        """Put offset and leader epoch of each live key into its place; the others are left as they are."""
        rows = self.find_each(keys)
        has_any = rows >= 0
        found = rows[has_any]
        offsets[has_any] = np.frombuffer(self.offsets, np.int64)[found]
        epochs[has_any] = np.frombuffer(self.epochs, np.int32)[found]

    def all_of_group(self, group: int) -> Int64s:
        """The live rows of a group, by ascending key."""
        rows = np.fromiter(self.of_group(group), np.int64)
        ordered: Int64s = rows[np.argsort(np.frombuffer(self.keys, np.uint64)[rows], kind="stable")]
        return ordered

    def columns_of(self, rows: Int64s) -> tuple[Keys, Int64s, Int64s, Int64s]:
        """Keys, offsets, leader epochs and commit timestamps of these rows; copies."""
        return (
            np.frombuffer(self.keys, np.uint64)[rows],
            np.frombuffer(self.offsets, np.int64)[rows],
            np.frombuffer(self.epochs, np.int32)[rows].astype(np.int64),
            np.frombuffer(self.timestamps, np.int64)[rows],
        )

    def put_each(self, keys: Keys, offsets: Int64s, epochs: Int32s, timestamps: Int64s) -> Int64s:
        """Take many offsets in, of those with one key the last one stays; the rows they went to."""
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
        # Arrays are assigned in order: the last value of a row stays.
        np.frombuffer(self.offsets, np.int64)[rows] = offsets
        np.frombuffer(self.timestamps, np.int64)[rows] = timestamps
        np.frombuffer(self.epochs, np.int32)[rows] = epochs
        self.know_each(keys)
        return rows

    def know_each(self, keys: Keys) -> None:
        """The groups of these keys are known from here on."""
        groups = groups_of(keys)
        heads = np.frombuffer(self.heads, np.int32)
        is_marked = heads[groups] < NONE
        if is_marked.any():
            found = np.unique(groups[is_marked])
            heads[found] = flip(heads[found])
            self.group_count += len(found)

    def leave_each_behind(self, keys: Keys) -> None:
        """The offsets of these keys are gone, those there are; no key stands twice."""
        rows = self.index.find_each(keys, self.keys)
        rows = rows[rows >= 0]
        nexts = np.frombuffer(self.nexts, np.int32)
        rows = rows[nexts[rows] >= NONE]
        nexts[rows] = flip(nexts[rows])
        self.left_behind += len(rows)
        self.departures += len(rows)
        self.numbering = Version()

    def append_each(self, keys: Keys, offsets: Int64s, epochs: Int32s, timestamps: Int64s) -> None:
        """Add a row for each of these keys, none of which is there; groups are as known as before."""
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
        """Put new rows, of these groups, before the rows their groups have; the link of each."""
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
        """For every row whether its offset is there."""
        return np.frombuffer(self.nexts, np.int32) >= NONE

    def known_groups(self) -> NDArray[np.bool_]:
        """For every group whether it is known."""
        return np.frombuffer(self.heads, np.int32) >= NONE

    def live_keys(self) -> Keys:
        """The keys of all live rows."""
        keys = np.frombuffer(self.keys, np.uint64)
        return keys[self.is_live()] if self.left_behind else keys.copy()


def _ascending(keys: Keys) -> tuple[Keys, Any]:
    """The keys in ascending order, each once, and where each of those given stands among them."""
    if (keys[1:] > keys[:-1]).all():
        return keys, np.arange(len(keys))
    return np.unique(keys, return_inverse=True)
