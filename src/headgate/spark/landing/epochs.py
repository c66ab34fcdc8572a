"""Check the batches of a range before it is landed: their leader epochs, and gaps between their records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.domain.ids import TopicPartition
from headgate.log.batch_scan import Batches, CorruptLog
from headgate.spark.landing.progress import LandingRefused
from headgate.spark.options import Options
from headgate.spark.source import plan


@dataclass(frozen=True, slots=True)
class Checked:
    """The leader epoch of the last batch, and whether records of the range are missing."""

    epoch: int
    has_gap: bool


def check_epochs(options: Options, where: TopicPartition, start: int, end: int, epoch: int) -> Checked:
    """Check a range. `epoch` is that of the last batch landed before `start`, -1 without one.

    The options read the range, and the offset before it if there is an epoch. The epochs of a log never
    decrease: a lower one, or another one at a landed offset, is that of a log that was truncated and written
    again. Raises LandingRefused, CorruptLog, MissingData.
    """
    first, present = epoch, 0
    for planned in plan(options):
        for _, scan in planned.scans():
            if scan.corruptions and options.fail_on_corrupt:
                raise CorruptLog(str(scan.corruptions[0]))
            epoch = _check(scan.batches, where, start, first, epoch)
            present += _records_between(scan.batches, start, end)
    return Checked(epoch, present < end - start)


def _check(batches: Batches, where: TopicPartition, start: int, first: int, epoch: int) -> int:
    found = batches.leader_epoch
    if not len(found):
        return epoch
    is_landed = batches.base_offset < start
    is_lower = found < np.maximum.accumulate(np.concatenate(([epoch], found[:-1])))
    is_other = is_landed & (found > first) & (first >= 0)
    if (is_lower | is_other).any():
        row = int(np.flatnonzero(is_lower | is_other)[0])
        before = first if is_other[row] else max([epoch, *found[:row].tolist()])
        raise LandingRefused(
            f"{where}, offsets {batches.base_offset[row]} to {batches.last_offset[row]}: leader epoch "
            f"{found[row]}, but what was landed before has {before}: the log was cut off and written anew "
            "since; land it elsewhere"
        )
    return max(epoch, int(found.max()))


def _records_between(batches: Batches, start: int, end: int) -> int:
    """Return how many records are in a range; of a batch that exceeds it, all if none of its are missing."""
    first, last = np.maximum(batches.base_offset, start), np.minimum(batches.last_offset + 1, end)
    room = np.maximum(last - first, 0)
    is_whole = batches.record_count == batches.last_offset - batches.base_offset + 1
    return int(np.where(is_whole, room, np.minimum(batches.record_count, np.maximum(room - 1, 0))).sum())
