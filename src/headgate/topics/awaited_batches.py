"""Batches that producers will send again, because they were refused or lost with the end of the log.

A producer sends several batches without waiting. If the first one of a producer without a state cannot be
written, the one behind it must not be taken instead: a producer without a state may start at any sequence, so
the first one would be out of order when it comes again, and clients such as librdkafka take that for
acknowledged. Kafka has the same rule for batches that wait for the transaction coordinator.

This is kept in memory only: no batch is on its way after a restart, and producers send again in order. It is
forgotten after `producer.id.expiration.ms`: a producer that gave its batch up and goes on after it, in the
same epoch, is not refused for ever. The timestamps of its records do not count: they may be old.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.domain.ids import Millis
from headgate.topics.producers import Producers, SequencedBatch, sequence_after

_MOST_AWAITED = 1000
"""Per partition; beyond it the oldest one is forgotten."""
_HALF_OF_ALL_SEQUENCES = 1 << 30


class _Awaited(NamedTuple):
    epoch: int
    sequence: int
    since: Millis | None = None
    """When `expire` first saw it, in ms; None before."""


_NOTHING = _Awaited(-1, 0)


class AwaitedBatches:
    """The batch from which each such producer of a partition continues."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[int, _Awaited] = {}
        """By producer id, the oldest one first."""

    def __len__(self) -> int:
        return len(self._next)

    def refused(self, batch: SequencedBatch) -> None:
        """Note a batch that was refused, and that its producer may send again unchanged."""
        if batch.producer_id >= 0 and batch.base_sequence >= 0 and not self.is_ahead(batch):
            self._await(batch.producer_id, batch.producer_epoch, batch.base_sequence)

    def truncated(self, producers: Producers, end_offset: int) -> None:
        """Note the batches from `end_offset` on, which are no longer in the log."""
        for producer_id, state in producers.items():
            lost = next((one for one in state.batches if one.last_offset >= end_offset), None)
            if lost is not None:
                self._await(producer_id, state.epoch, lost.first_sequence)

    def _await(self, producer_id: int, epoch: int, sequence: int) -> None:
        if self._next.get(producer_id, _NOTHING).epoch > epoch:
            return  # a batch of a producer that was fenced
        self._next.pop(producer_id, None)
        self._next[producer_id] = _Awaited(epoch, sequence)
        if len(self._next) > _MOST_AWAITED:
            del self._next[next(iter(self._next))]

    def is_ahead(self, batch: SequencedBatch) -> bool:
        """Return whether another batch of this producer and epoch must come before this one."""
        awaited = self._next.get(batch.producer_id, _NOTHING)
        steps = sequence_after(batch.base_sequence, -awaited.sequence)
        return awaited.epoch == batch.producer_epoch and 0 < steps < _HALF_OF_ALL_SEQUENCES

    def taken(self, producer_id: int) -> None:
        """Note that a batch of the producer is in the log: its state tells what comes next."""
        self._next.pop(producer_id, None)

    def expire(self, before: Millis, now: Millis) -> None:
        """Forget batches that an earlier call saw before `before`, in ms."""
        for producer_id, awaited in list(self._next.items()):
            if awaited.since is None:
                self._next[producer_id] = awaited._replace(since=now)
            elif awaited.since < before:
                del self._next[producer_id]
