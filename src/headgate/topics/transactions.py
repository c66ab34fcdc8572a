"""The transactions of one partition: the open ones, and the last stable offset.

Rules, Kafka's:

1. A transactional batch opens a transaction of its producer, if none is open. A marker ends it; a marker
   without an open transaction changes nothing here.
2. The last stable offset is that of the first record that may be part of an undecided transaction: of one
   that is open, or whose marker is not below the high watermark yet. Without one it is the high watermark.
3. An aborted transaction is listed with the segment that has its marker (`log/transaction_index.py`).

All of it is derived from the log's batches, in their order. To find the last stable offset takes the same
time for one open transaction as for ten thousand.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple

from headgate.domain.ids import Millis
from headgate.log.header import BatchHeader, Buffer
from headgate.log.markers import EndMarker, read_marker
from headgate.log.transaction_index import AbortedTransaction


class Verification(Enum):
    """What is known of the transaction of a batch before its append."""

    NONE = "not verified"
    """Only a batch of a transaction that is open in the partition is accepted."""
    VERIFIED = "verified"
    """The transaction coordinator confirmed that the partition is part of the producer's transaction. A
    marker that was written since has ended this transaction: the next one may have the same epoch.
    """
    VERIFIED_VERSION_2 = "verified, transaction.version 2"
    """The same, for a client that gets a new epoch with every transaction: the first sequence of a producer
    without state is 0.
    """


class OpenTransaction(NamedTuple):
    """A producer's open transaction."""

    producer_id: int
    epoch: int
    first_offset: int
    since: Millis
    """The time of the append of the first batch, in ms; its largest timestamp if that time is not known."""


class TransactionMarker(NamedTuple):
    """The decision that a marker writes into a partition."""

    producer_id: int
    epoch: int
    is_committed: bool
    coordinator_epoch: int = 0
    transaction_version: int = 0
    """From 2 on, the epoch must be greater than that of the transaction's batches."""
    is_of_this_node: bool = False
    """Whether this node's coordinator decided it: no other one does, so nothing fences it. The marker of a
    client's request may have any epoch of a coordinator.
    """


class Transactions:
    """The transactions of one partition."""

    __slots__ = ("_ended", "_first_open", "_open", "stable_until")

    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        """By producer id, in the order of their first offsets."""
        self._first_open: int | None = None
        """The first offset of the first of them."""
        self._ended: deque[tuple[int, int]] = deque()
        """Offsets of the markers that may not be below the high watermark yet, each with the smallest first
        offset of the transactions that this marker and those before it ended and no later one did. Both grow.
        """
        self.stable_until: int | None = None
        """The offset of a damaged batch, if it may hide the beginning or the end of a transaction: nothing
        after it is known to be decided.
        """

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._open

    def open_of(self, producer_id: int) -> OpenTransaction | None:
        """Return the producer's open transaction."""
        return self._open.get(producer_id)

    def oldest(self) -> OpenTransaction | None:
        """Return the open transaction that began first."""
        return next(iter(self._open.values()), None)

    def all_open(self) -> list[OpenTransaction]:
        """Return the open transactions, in the order of their first offsets."""
        return list(self._open.values())

    def has(self, header: BatchHeader) -> bool:
        """Return whether the batch is of an open transaction, in its epoch."""
        known = self._open.get(header.producer_id)
        return known is not None and known.epoch == header.producer_epoch

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset, at most `high_watermark`, which never decreases."""
        stable = self.undecided_from(high_watermark)
        if self.stable_until is not None and self.stable_until < stable:
            stable = self.stable_until
        return stable

    def undecided_from(self, high_watermark: int) -> int:
        """Return the same without regard to damaged batches: where the first transaction begins that is open,
        or whose marker is not below the high watermark.
        """
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()
        stable = high_watermark
        if ended and ended[0][1] < stable:
            stable = ended[0][1]
        if self._first_open is not None and self._first_open < stable:
            stable = self._first_open
        return stable

    def restore(self, transaction: OpenTransaction) -> None:
        """Add an open transaction that began after all others: from a snapshot."""
        self._open[transaction.producer_id] = transaction
        if self._first_open is None:
            self._first_open = transaction.first_offset

    def take(
        self, header: BatchHeader, batch: Buffer, now: Millis | None = None
    ) -> AbortedTransaction | None:
        """Take the next batch of the log, of a producer; return the transaction that it aborts.

        `now` is the time of its append; None for a batch that was read from the log. Raises CorruptBatch.
        """
        if header.is_control:
            marker = read_marker(batch) if header.record_count else None
            return None if marker is None else self._end(header, marker)
        if header.is_transactional:
            self._continue(header, now)
        return None

    def _continue(self, header: BatchHeader, now: Millis | None) -> None:
        known = self._open.get(header.producer_id)
        if known is None:
            since = Millis(header.max_timestamp) if now is None else now
            self.restore(
                OpenTransaction(header.producer_id, header.producer_epoch, header.base_offset, since)
            )
        elif known.epoch != header.producer_epoch:
            self._open[header.producer_id] = known._replace(epoch=header.producer_epoch)

    def _end(self, header: BatchHeader, marker: EndMarker) -> AbortedTransaction | None:
        ended = self._open.pop(header.producer_id, None)
        if ended is None:
            return None
        if ended.first_offset == self._first_open:
            oldest = self.oldest()
            self._first_open = None if oldest is None else oldest.first_offset
        waiting = self._ended
        while waiting and waiting[-1][1] >= ended.first_offset:
            waiting.pop()
        waiting.append((header.base_offset, ended.first_offset))
        if marker.is_committed:
            return None
        stable = header.next_offset if self._first_open is None else self._first_open
        return AbortedTransaction(ended.producer_id, ended.first_offset, header.base_offset, stable)
