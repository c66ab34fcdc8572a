"""What the offset table does to whole columns at once: pure functions over numpy views of its arrays."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""The link that ends a chain."""


def flip(link: Any) -> Any:
    """Mark or unmark a link (or many): -1 and up is unmarked, below is marked. Its own inverse."""
    return -3 - link


def column(typecode: str, values: NDArray[Any]) -> array[int]:
    """The values as a column of the table."""
    result: array[int] = array(typecode)
    result.frombytes(values.tobytes())
    return result


def chains(
    groups: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The head of every group and the link of every row, for rows that belong to these groups."""
    heads = np.full(len(is_known), NONE, np.int32)
    nexts = np.full(len(groups), NONE, np.int32)
    if len(groups):
        if (groups[1:] >= groups[:-1]).all():
            order, ordered = np.arange(len(groups), dtype=np.int32), groups
        else:
            # Group and row in one number: sorting numbers is quicker than sorting by them.
            both = groups << 32 | np.arange(len(groups))
            both.sort()
            order, ordered = (both & 0xFFFFFFFF).astype(np.int32), both >> 32
        continues = ordered[1:] == ordered[:-1]
        nexts[order[:-1][continues]] = order[1:][continues]
        starts = np.concatenate((np.array([True]), ~continues))
        heads[ordered[starts]] = order[starts]
    heads[~is_known] = flip(heads[~is_known])
    return heads, nexts
