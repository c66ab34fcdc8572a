"""How the transactions ended whose batches compaction reads, in the order of the log.

Compaction does not pass an open transaction, so all whose batches it reads have ended. Those that
were aborted are listed with the segments. The rules are Kafka's:

1. The records of an aborted transaction are removed.
2. A marker remains while any batch of its transaction does. From the compaction that finds none of them, it
   remains for delete.retention.ms.
3. An aborted transaction remains in the index as long as rule 2 finds a batch of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.log.header import BatchHeader
    from headgate.log.segments import Segments
    from headgate.log.transaction_index import AbortedTransaction


class TransactionFates:
    """Follows the transactions of a log from its start; call it for each batch of a producer, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda one: one.first_offset)
        self._next = 0
        self._aborted_now: dict[int, AbortedTransaction] = {}
        """By producer: the aborted transactions that begin before the current batch and end after it."""
        self._with_batches: set[int] = set()
        """The producers with a batch of the transaction that their next marker ends."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take a batch of records; return whether they are part of an aborted transaction."""
        if not header.is_transactional or header.producer_id < 0:
            return False
        self._go_to(header.last_offset)
        self._with_batches.add(header.producer_id)
        return header.producer_id in self._aborted_now

    def end(self, header: BatchHeader) -> tuple[bool, AbortedTransaction | None]:
        """Take a marker; return whether a batch of its transaction was read, and the transaction if it was
        aborted.
        """
        self._go_to(header.last_offset)
        has_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        return has_batches, self._aborted_now.pop(header.producer_id, None)

    def _go_to(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            one = self._aborted[self._next]
            self._aborted_now[one.producer_id] = one
            self._next += 1


def fates_of(segments: Segments) -> TransactionFates:
    """Return the fates of the transactions in a log, as the segments list them now."""
    return TransactionFates(one for segment in segments for one in segment.aborted or ())
