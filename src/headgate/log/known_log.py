"""What is known of a damaged log from other files than its segments, and which leader epochs are right.

No checksum covers the leader epoch of a batch, nor `leader-epoch-checkpoint`. Epochs rise along a log, so
batches that agree with each other are right against that file; a single batch that contradicts it is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from headgate.log.choosing import Link, heaviest_chain


@dataclass(slots=True, frozen=True)
class KnownLog:
    """What is known of a log from other files than its own."""

    starts: Sequence[tuple[int, int]] = ()
    """Epochs with their first offsets, in order."""
    newest: int | None = None
    end_offset: int = 0
    """An end that the log had at some time."""
    transactions_to: int = 0
    """The .txnindex files have all aborted transactions that ended below this offset."""
    misses_epochs: bool = False
    """Whether `leader-epoch-checkpoint` is missing or cannot be read: `starts` is then empty."""

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of an offset; None: it is not known."""
        at = bisect_right([first for _, first in self.starts], offset)
        return self.starts[at - 1][0] if at else None

    def is_right(self, epoch: int, offset: int) -> bool:
        """Return whether a batch at an offset may have an epoch."""
        known = self.epoch_of(offset)
        if self.newest is not None and epoch > self.newest:
            return False
        return known is None or epoch == known


class EpochOf(NamedTuple):
    """The epoch of batches that follow each other."""

    epoch: int
    first: int
    end: int
    batches: int


def agreed_starts(stretches: Sequence[EpochOf], known: KnownLog, start: int = 0) -> list[tuple[int, int]]:
    """Return the epochs of a log with their first offsets, as its batches and `leader-epoch-checkpoint` say.

    It is what that file says, unless batches that agree with each other contradict it. The log begins at
    `start`.
    """
    newest = known.newest
    said = [one for one in known.starts if newest is None or one[0] <= newest]
    trusted = KnownLog(said, newest)
    joined: list[EpochOf] = []
    for one in stretches:
        if joined and joined[-1].epoch == one.epoch:
            joined[-1] = joined[-1]._replace(end=one.end, batches=joined[-1].batches + one.batches)
        else:
            joined.append(one)
    likely = [
        one
        for one in joined
        if one.epoch >= 0
        and (newest is None or one.epoch <= newest)
        and (one.batches > 1 or trusted.is_right(one.epoch, one.first))
    ]
    links = [
        Link(one.epoch, one.epoch, 2 * one.batches + trusted.is_right(one.epoch, one.first)) for one in likely
    ]
    right = [likely[at] for at in heaviest_chain(links)]
    agrees = len(said) == len(known.starts) and all(
        not said or one.epoch == trusted.epoch_of(one.first) == trusted.epoch_of(one.end - 1) for one in right
    )
    if not right or (agrees and not (known.misses_epochs and right[-1].epoch)):
        return said
    first = right[0]
    starts = [one for one in said if one[0] < first.epoch and one[1] < first.first]
    own = next((start for epoch, start in said if epoch == first.epoch and start < first.first), None)
    starts.append((first.epoch, first.first if own is None else own))
    for before, one in pairwise(right):
        if one.epoch > before.epoch:
            between = [start for epoch, start in said if epoch == one.epoch]
            is_between = between and before.end <= between[0] <= one.first
            starts.append((one.epoch, between[0] if is_between else one.first))
    starts[0] = starts[0][0], min(starts[0][1], start)
    starts += [one for one in said if one[0] > right[-1].epoch and one[1] >= right[-1].end]
    return starts
