"""Which rows of the offset table a wide commit went to: found once, used as long as the rows stay.

A bounded memory of a few commits: what does not fit is found anew.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from headgate.core.offsets.rows import Rows
from headgate.domain.ids import GroupId, TopicName
from headgate.records.columns import Int64s, OffsetCommits

NARROWEST_WIDE: Final = 8
"""Below this many partitions a loop is as quick."""
MOST_ROWS: Final = 1 << 17
"""4 MiB of partitions, rows and leader epochs at most."""

Name = tuple[GroupId, TopicName]


class WideRow:
    """The rows of one wide commit."""

    __slots__ = ("_epochs", "_leader_epochs", "count", "partitions", "rows")

    def __init__(self, partitions: Int64s, rows: Int64s) -> None:
        self.partitions = partitions
        self.count = len(rows)
        self.rows: Int64s | slice = rows
        """Rows that follow each other, as those of one first commit do, are a slice."""
        if (np.diff(rows) == 1).all():
            self.rows = slice(int(rows[0]), int(rows[-1]) + 1)
        self._leader_epochs: Int64s | None = None
        self._epochs: array[int] = array("i")
        """The leader epochs of the last commit, and the same as the table keeps them."""

    def get(self, table: Rows) -> tuple[Int64s, Int64s]:
        """Offsets and leader epochs that stand there."""
        rows = self.rows
        offsets: Int64s = np.frombuffer(table.offsets, np.int64)[rows]
        if isinstance(rows, slice):
            offsets = offsets.copy()  # a slice is the table's own memory
        return offsets, np.frombuffer(table.epochs, np.int32)[rows].astype(np.int64)

    def put(self, table: Rows, commits: OffsetCommits) -> None:
        """Write the commit over what stands in its rows."""
        rows, leader_epochs = self.rows, commits.leader_epochs
        if leader_epochs is not self._leader_epochs:
            self._epochs = array("i", leader_epochs.astype(np.int32).tobytes())
            self._leader_epochs = leader_epochs
        if isinstance(rows, slice):  # arrays into arrays: a third of what numpy takes for a hundred rows
            table.offsets[rows] = array("q", commits.offsets.tobytes())
            table.timestamps[rows] = array("q", (commits.commit_timestamp,)) * self.count
            table.epochs[rows] = self._epochs
            return
        # Of a partition that stands twice the last value stays: arrays are assigned in order.
        np.frombuffer(table.offsets, np.int64)[rows] = commits.offsets
        np.frombuffer(table.timestamps, np.int64)[rows] = commits.commit_timestamp
        np.frombuffer(table.epochs, np.int32)[rows] = self._epochs


class WideRows:
    """Rows by group, topic and the partitions of the commit.

    The members of a group have partitions of their own: of commits that begin with the same partition one is
    remembered.
    """

    __slots__ = ("_count", "_known")

    def __init__(self) -> None:
        self._known: dict[Name, dict[int, WideRow]] = {}
        self._count = 0

    def get(self, name: Name, partitions: Int64s) -> WideRow | None:
        """The rows of exactly these partitions, or None. An array that was given before must not change."""
        of_name = self._known.get(name)
        if of_name is None or not len(partitions):
            return None
        known = of_name.get(int(partitions[0]))
        if known is None:
            return None
        if known.partitions is not partitions:
            if known.partitions.tobytes() != partitions.tobytes():
                return None
            known.partitions = partitions  # it is this array that comes again
        return known

    def remember(self, name: Name, partitions: Int64s, rows: Int64s) -> None:
        """These are the rows, until `forget` or `clear`."""
        first = int(partitions[0])
        before = self._known.get(name, {}).pop(first, None)
        if before is not None:
            self._count -= before.count
        if len(rows) > MOST_ROWS:
            return
        if self._count + len(rows) > MOST_ROWS:
            self.clear()
        self._known.setdefault(name, {})[first] = WideRow(partitions, rows)
        self._count += len(rows)

    def forget(self, name: Name) -> None:
        """One of the rows is gone."""
        for known in self._known.pop(name, {}).values():
            self._count -= known.count

    def clear(self) -> None:
        """All rows are new."""
        self._known.clear()
        self._count = 0
