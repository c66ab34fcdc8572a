"""Which rows of the offset table a wide commit went to: found once, used as long as the rows stay.

A bounded memory of a few commits: what does not fit is found anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import GroupId, TopicName

NARROWEST_WIDE = 8
"""Below this many partitions a loop is as quick."""
MOST_ROWS = 1 << 17
"""2 MiB of partitions and rows at most."""

Name = tuple[GroupId, TopicName]


class WideRows:
    """Rows by group, topic and the partitions of the commit."""

    __slots__ = ("_count", "_known")

    def __init__(self) -> None:
        self._known: dict[Name, tuple[bytes, NDArray[np.int64]]] = {}
        self._count = 0

    def get(self, name: Name, partitions: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The rows of exactly these partitions, or None."""
        known = self._known.get(name)
        if known is None or known[0] != partitions.tobytes():
            return None
        return known[1]

    def remember(self, name: Name, partitions: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """These are the rows, until `forget` or `clear`."""
        self.forget(name)
        if len(rows) > MOST_ROWS:
            return
        if self._count + len(rows) > MOST_ROWS:
            self.clear()
        self._known[name] = partitions.tobytes(), rows
        self._count += len(rows)

    def forget(self, name: Name) -> None:
        """One of the rows is gone."""
        known = self._known.pop(name, None)
        if known is not None:
            self._count -= len(known[1])

    def clear(self) -> None:
        """All rows are new."""
        self._known.clear()
        self._count = 0
