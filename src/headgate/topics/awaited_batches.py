"""Batches that producers will send again, because they were refused or lost with the end of the log.

A producer sends several batches without waiting. If the first one of a producer without a state cannot be
written, the one behind it must not be taken instead: a producer without a state may start at any sequence, so
the first one would be out of order when it comes again, and clients such as librdkafka take that for
acknowledged. Kafka has the same rule for batches that wait for the transaction coordinator.

This is kept in memory only: no batch is on its way after a restart, and producers send again in order. It is
forgotten like the state of a producer without a batch for `producer.id.expiration.ms`: one that gave its
batch up and goes on after it, in the same epoch, is not refused for ever.
"""

from __future__ import annotations

from headgate.domain.ids import Millis
from headgate.topics.producers import Producers, SequencedBatch, sequence_after

_MOST_AWAITED = 1000
"""Per partition; beyond it the oldest one is forgotten."""
_HALF_OF_ALL_SEQUENCES = 1 << 30


class AwaitedBatches:
    """The batch from which each such producer of a partition continues."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int, int]] = {}
        """Epoch, sequence and timestamp in ms by producer id, the oldest one first."""

    def __len__(self) -> int:
        return len(self._next)

    def refused(self, batch: SequencedBatch) -> None:
        """Note a batch that was refused, and that its producer may send again unchanged."""
        if batch.producer_id >= 0 and batch.base_sequence >= 0 and not self.is_ahead(batch):
            self._await(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.max_timestamp)

    def truncated(self, producers: Producers, end_offset: int) -> None:
        """Note the batches from `end_offset` on, which are no longer in the log."""
        for producer_id, state in producers.items():
            lost = next((one for one in state.batches if one.last_offset >= end_offset), None)
            if lost is not None:
                self._await(producer_id, state.epoch, lost.first_sequence, lost.timestamp)

    def _await(self, producer_id: int, epoch: int, sequence: int, timestamp: int) -> None:
        known = self._next.get(producer_id)
        if known is not None and known[0] > epoch:
            return  # a batch of a producer that was fenced
        self._next.pop(producer_id, None)
        self._next[producer_id] = (epoch, sequence, timestamp)
        if len(self._next) > _MOST_AWAITED:
            del self._next[next(iter(self._next))]

    def is_ahead(self, batch: SequencedBatch) -> bool:
        """Return whether another batch of this producer and epoch must come before this one."""
        epoch, sequence, _ = self._next.get(batch.producer_id, (-1, 0, 0))
        steps = sequence_after(batch.base_sequence, -sequence)
        return epoch == batch.producer_epoch and 0 < steps < _HALF_OF_ALL_SEQUENCES

    def taken(self, producer_id: int) -> None:
        """Note that a batch of the producer is in the log: its state tells what comes next."""
        self._next.pop(producer_id, None)

    def expire(self, before: Millis) -> None:
        """Forget batches that are older than `before`, in ms."""
        self._next = {key: awaited for key, awaited in self._next.items() if awaited[2] >= before}
