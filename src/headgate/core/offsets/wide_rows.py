"""The rows of many partitions of a topic: searched once, valid as long as the rows keep their numbers."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from headgate.core.offsets.rows import Rows, Version
from headgate.records import ColumnBatch
from headgate.records.columns import Int64s

NARROWEST_WIDE: Final = 8
"""For fewer partitions a loop is as fast."""


class WideRow:
    """The rows of many partitions, kept for repeated commits or fetches of them."""

    __slots__ = ("_epochs", "as_of", "count", "rows")

    def __init__(self, rows: Int64s, as_of: Version) -> None:
        self.as_of = as_of
        """The version of the table's row numbers."""
        self.count = len(rows)
        self.rows: Int64s | slice = rows
        """Consecutive rows, as after one first commit, are a slice."""
        if (np.diff(rows) == 1).all():
            self.rows = slice(int(rows[0]), int(rows[-1]) + 1)
        self._epochs: array[int] | None = None
        """The leader epochs of the shape, in the type of the table."""

    def get(self, table: Rows) -> tuple[Int64s, Int64s]:
        """Return current offsets and leader epochs."""
        rows = self.rows
        offsets: Int64s = np.frombuffer(table.offsets, np.int64)[rows]
        if isinstance(rows, slice):
            offsets = offsets.copy()  # a slice is a view of the table's memory
        return offsets, np.frombuffer(table.epochs, np.int32)[rows].astype(np.int64)

    def put(self, table: Rows, batch: ColumnBatch) -> None:
        """Write a commit of these partitions to their rows."""
        rows, epochs = self.rows, self._epochs
        if epochs is None:
            epochs = self._epochs = array("i", batch.shape.leader_epochs.astype(np.int32).tobytes())
        if isinstance(rows, slice):  # assignment between arrays: a third of numpy's time for a hundred rows
            table.offsets[rows] = array("q", batch.offsets.tobytes())
            table.timestamps[rows] = array("q", (batch.commit_timestamp,)) * self.count
            table.epochs[rows] = epochs
            return
        # Assignment to an array is in order: for a partition named twice, the last value is valid.
        np.frombuffer(table.offsets, np.int64)[rows] = batch.offsets
        np.frombuffer(table.timestamps, np.int64)[rows] = batch.commit_timestamp
        np.frombuffer(table.epochs, np.int32)[rows] = epochs
