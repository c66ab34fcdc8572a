"""Check the batches of a range before it is landed: their leader epochs, and gaps between their records."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from headgate.domain.ids import TopicPartition
from headgate.log.batch_scan import Batches
from headgate.spark.landing.progress import LandingRefused


class Epochs:
    """Checks the batches of a range, and of the offset before it, in the order of the log.

    The epochs of a log never decrease: a lower one, or another one at a landed offset, is that of a log that
    was truncated and written again.
    """

    def __init__(self, where: TopicPartition, start: int, end: int, epoch: int) -> None:
        """`epoch` is that of the last batch landed before `start`, -1 without one."""
        self.where = where
        self.start = start
        self.end = end
        self.landed = epoch
        self.last = epoch
        """The leader epoch of the last batch checked."""
        self._present = 0
        self.seen = 0
        """A checksum of which batches there were, with how many records."""

    @property
    def has_gap(self) -> bool:
        """Whether records of the range are missing in the batches."""
        return self._present < self.end - self.start

    def check(self, batches: Batches) -> None:
        """Check the next batches. Raises LandingRefused."""
        self._present += _records_between(batches, self.start, self.end)
        self.seen = what_is_in(batches, self.seen)
        found = batches.leader_epoch
        if not len(found):
            return
        is_lower = found < np.maximum.accumulate(np.concatenate(([self.last], found[:-1])))
        is_other = (batches.base_offset < self.start) & (found > self.landed) & (self.landed >= 0)
        if (is_lower | is_other).any():
            row = int(np.flatnonzero(is_lower | is_other)[0])
            before = self.landed if is_other[row] else max([self.last, *found[:row].tolist()])
            raise LandingRefused(
                f"{self.where}, offsets {batches.base_offset[row]} to {batches.last_offset[row]}: leader "
                f"epoch {found[row]}, but what was landed before has {before}: the log was cut off and "
                "written anew since; land it elsewhere"
            )
        self.last = max(self.last, int(found.max()))


def what_is_in(batches: Batches, before: int = 0) -> int:
    """Return a checksum of these batches, after those with the checksum `before`."""
    columns = (batches.base_offset.astype(np.int64), batches.record_count.astype(np.int64))
    return crc32(np.stack(columns, axis=1).tobytes(), before)


def _records_between(batches: Batches, start: int, end: int) -> int:
    """Return how many records are in a range; of a batch that exceeds it, all if none of its are missing."""
    first, last = np.maximum(batches.base_offset, start), np.minimum(batches.last_offset + 1, end)
    room = np.maximum(last - first, 0)
    is_whole = batches.record_count == batches.last_offset - batches.base_offset + 1
    return int(np.where(is_whole, room, np.minimum(batches.record_count, np.maximum(room - 1, 0))).sum())
