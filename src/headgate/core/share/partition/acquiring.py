"""Which records of a read a member acquires: the choice, as a function of the window and the limits.

1. Available records inside the window come first, in the order of their offsets, then new ones.
2. Records that were delivered before keep the batch they were first delivered in. From the isolation
   threshold on they are acquired in shrinking parts of it, and nothing else in the same fetch; for their last
   delivery one by one (F15). So a record that nobody can process does not use up the deliveries of others.
3. Records never delivered before are acquired in whole batches of the log, in ranges of about `batch_size`;
   in record-limit mode exactly as many as asked for.
4. A window at its limit takes no new records, but its available ones (F10).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from headgate.core.share.partition.model import (
    AcquireMode,
    Acquisition,
    DeliveryLimits,
    FetchedRecords,
)
from headgate.core.share.partition.ranges import ACQUIRED, AVAILABLE, Delivery, Piece, Ranges

MOST_RANGES: Final = 300
"""A fetch acquires no more ranges; each takes some microseconds."""


class Lock(NamedTuple):
    """Who acquires, until when, and since when, in ms."""

    owner: int
    deadline: int
    since: int


class _Room(NamedTuple):
    """How much may be acquired: the last offset, and the number of records."""

    last: int
    records: int


def room_for(wish: Acquisition, ranges: Ranges, limits: DeliveryLimits) -> _Room:
    """Return how much the window lets a member acquire (rule 4)."""
    fetched = wish.fetched
    free = limits.records - ranges.limited_size
    if free > 0:
        return _Room(fetched.last_offset, min(wish.max_records, free))
    inside = max(0, ranges.end - fetched.fetch_offset)
    return _Room(min(fetched.last_offset, ranges.end - 1), min(wish.max_records, inside))


class Taking:
    """One acquisition, which changes the window as it goes."""

    def __init__(self, wish: Acquisition, ranges: Ranges, limits: DeliveryLimits, lock: Lock) -> None:
        self._wish = wish
        self._ranges = ranges
        self._limits = limits
        self._lock = lock
        self._room = room_for(wish, ranges, limits)
        self._count = 0
        self.taken: list[Piece] = []

    @property
    def _left(self) -> int:
        return self._room.records - self._count

    def run(self) -> None:
        """Acquire what the limits allow; `taken` has it afterwards."""
        position = self._wish.fetched.fetch_offset
        while self._left > 0 and len(self.taken) < MOST_RANGES:
            piece = self._ranges.find(AVAILABLE, position, self._room.last)
            if piece is None:
                self._take_new()
                return
            if piece.delivery.delivery_count == 0:
                position = self._take_first(piece)
            elif piece.delivery.delivery_count < self._limits.isolation_threshold:
                position = self._take_again(piece)
            else:
                self._take_isolated(piece)
                return

    def _take_new(self) -> None:
        """Acquire records after the window (rule 3)."""
        first = self._ranges.end
        if first > self._room.last:
            return
        for begin, end in self._divided(first, self._room.last):
            delivery = self._first_delivery(begin, end)
            self._ranges.extend(end, delivery)
            self._note(Piece(begin, end, delivery))

    def _take_first(self, piece: Piece) -> int:
        """Acquire records of the window that were never delivered (rule 3); return the offset after them."""
        position = piece.first
        for begin, end in self._divided(piece.first, piece.last):
            self._put(Piece(begin, end, self._first_delivery(begin, end)))
            position = end + 1
        return position

    def _divided(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges in which the records from `first` on are acquired for the first time."""
        wanted = first + self._left - 1
        if self._wish.mode == AcquireMode.RECORD_LIMIT:
            yield first, min(wanted, last)
            return
        fetched = self._wish.fetched
        end = last if wanted >= last else min(last, fetched.end_of_batch(wanted))
        begin = first
        if end - first + 1 > self._wish.batch_size:
            for base in _bases(fetched, first, end):
                if base - begin >= self._wish.batch_size:
                    yield begin, base - 1
                    begin = base
                    if len(self.taken) >= MOST_RANGES:
                        return
        yield begin, end

    def _first_delivery(self, first: int, last: int) -> Delivery:
        owner, deadline, since = self._lock
        return Delivery(ACQUIRED, 1, owner, deadline, first, last - first + 1, since)

    def _take_again(self, piece: Piece) -> int:
        """Acquire records that were delivered before; return the offset after them."""
        last = piece.last
        if self._wish.mode == AcquireMode.RECORD_LIMIT:
            last = min(last, piece.first + self._left - 1)
        self._put(Piece(piece.first, last, self._next_delivery(piece.delivery)))
        return last + 1

    def _take_isolated(self, piece: Piece) -> None:
        """Acquire a small part of records that were delivered often, if it is all of this fetch (rule 2)."""
        if self.taken:
            return
        delivery, limits = piece.delivery, self._limits
        if limits.delivery_count > 2 and delivery.delivery_count >= limits.delivery_count - 1:
            most = 1
        else:
            most = max(1, delivery.batch_size >> (delivery.delivery_count - limits.isolation_threshold + 1))
        if self._wish.mode == AcquireMode.RECORD_LIMIT:
            most = min(most, self._left)
        last = min(piece.last, piece.first + most - 1)
        self._put(Piece(piece.first, last, self._next_delivery(delivery)))

    def _next_delivery(self, delivery: Delivery) -> Delivery:
        return delivery._replace(
            state=ACQUIRED,
            delivery_count=delivery.delivery_count + 1,
            owner=self._lock.owner,
            deadline=self._lock.deadline,
            acquired_at=self._lock.since,
        )

    def _put(self, piece: Piece) -> None:
        self._ranges.put((piece,))
        self._note(piece)

    def _note(self, piece: Piece) -> None:
        self.taken.append(piece)
        self._count += piece.last - piece.first + 1


def _bases(fetched: FetchedRecords, first: int, last: int) -> Iterator[int]:
    """Yield the base offsets of the batches that begin after `first` and not after `last`."""
    for i in range(bisect_left(fetched.batches, (first + 1, 0)), len(fetched.batches)):
        base = fetched.batches[i][0]
        if base > last:
            return
        yield base
