"""What the offset table does to whole columns at once: placing all rows in an index, linking a group's rows.

Pure functions over numpy views of the table's arrays. They work in slices where they can: what a growing
table needs for a moment counts as memory too.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE = 0xFFFFFFFF
"""A slot of an index that holds no row."""

NONE = -1
"""The link that ends a chain."""

HASH_FACTOR = 0x9E3779B97F4A7C15
HASH_SHIFT = 20
"""A key's home slot among n: mix in its upper part, multiply, and scale the upper 32 bits to n. Without the
shift, keys that differ in the topic alone would come to lie in heaps.
"""

_TAIL = 64
_SLICE = 1 << 16
_PARTS = 16


def flip(link: Any) -> Any:
    """Mark or unmark a link (or many): -1 and up is unmarked, below is marked. Its own inverse."""
    return -3 - link


def column(typecode: str, values: NDArray[Any]) -> array[int]:
    """The values as a column of the table."""
    result: array[int] = array(typecode)
    result.frombytes(values.tobytes())
    return result


def _home_slots(keys: NDArray[np.uint64], slots: int) -> NDArray[np.uint32]:
    homes = np.empty(len(keys), np.uint32)
    for start in range(0, len(keys), _SLICE):
        part = keys[start : start + _SLICE]
        part = (part ^ (part >> np.uint64(HASH_SHIFT))) * np.uint64(HASH_FACTOR) >> np.uint64(32)
        homes[start : start + _SLICE] = part * np.uint64(slots) >> np.uint64(32)
    return homes


def build_index(keys: NDArray[np.uint64], slots: int) -> array[int]:
    """An index of all rows by their keys, with `slots` home slots and some behind the last.

    In the order of their home slots, each row goes to its home or, if that is taken, behind the row before
    it: the running maximum of (home - rank), plus rank. The last slot stays free, so that every probe ends.
    """
    homes = _home_slots(keys, slots)
    index: array[int] = array("I", (FREE,)) * (slots + _TAIL)
    behind_last = 0
    for part in range(_PARTS):
        low, high = slots * part // _PARTS, slots * (part + 1) // _PARTS
        rows = np.flatnonzero((homes >= low) & (homes < high)).astype(np.uint32)
        if not len(rows):
            continue
        rows = rows[np.argsort(homes[rows], kind="stable")]
        places = homes[rows].astype(np.int64)
        ranks = np.arange(len(rows))
        np.maximum.accumulate(np.maximum(places, behind_last) - ranks, out=places)
        places += ranks
        behind_last = int(places[-1]) + 1
        if behind_last >= len(index):
            index.extend(array("I", (FREE,)) * (behind_last + _TAIL - len(index)))
        np.frombuffer(index, np.uint32)[places] = rows
    return index


def chains(
    groups: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The head of every group and the link of every row, for rows that belong to these groups."""
    heads = np.full(len(is_known), NONE, np.int32)
    nexts = np.full(len(groups), NONE, np.int32)
    if len(groups):
        order = np.argsort(groups, kind="stable").astype(np.int32)
        ordered = groups[order]
        continues = ordered[1:] == ordered[:-1]
        nexts[order[:-1][continues]] = order[1:][continues]
        starts = np.concatenate((np.array([True]), ~continues))
        heads[ordered[starts]] = order[starts]
    heads[~is_known] = flip(heads[~is_known])
    return heads, nexts
