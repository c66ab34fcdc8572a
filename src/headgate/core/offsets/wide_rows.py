"""Which rows of the offset table a wide commit went to: found once, used as long as the rows stay.

A bounded memory of a few commits: what does not fit is found anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import GroupId, TopicName

NARROWEST_WIDE = 8
"""Below this many partitions a loop is as quick."""
MOST_ROWS = 1 << 17
"""2 MiB of partitions and rows at most."""

Name = tuple[GroupId, TopicName]


class _Known(NamedTuple):
    partitions: NDArray[np.int64]
    rows: NDArray[np.int64]


class WideRows:
    """Rows by group, topic and the partitions of the commit.

    The members of a group have partitions of their own: of commits that begin with the same partition one is
    remembered.
    """

    __slots__ = ("_count", "_known")

    def __init__(self) -> None:
        self._known: dict[Name, dict[int, _Known]] = {}
        self._count = 0

    def get(self, name: Name, partitions: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The rows of exactly these partitions, or None. An array that was given before must not change."""
        of_name = self._known.get(name)
        if of_name is None or not len(partitions):
            return None
        known = of_name.get(int(partitions[0]))
        if known is None:
            return None
        if known.partitions is not partitions and known.partitions.tobytes() != partitions.tobytes():
            return None
        return known.rows

    def remember(self, name: Name, partitions: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """These are the rows, until `forget` or `clear`."""
        first = int(partitions[0])
        before = self._known.get(name, {}).pop(first, None)
        if before is not None:
            self._count -= len(before.rows)
        if len(rows) > MOST_ROWS:
            return
        if self._count + len(rows) > MOST_ROWS:
            self.clear()
        self._known.setdefault(name, {})[first] = _Known(partitions, rows)
        self._count += len(rows)

    def forget(self, name: Name) -> None:
        """One of the rows is gone."""
        for known in self._known.pop(name, {}).values():
            self._count -= len(known.rows)

    def clear(self) -> None:
        """All rows are new."""
        self._known.clear()
        self._count = 0
