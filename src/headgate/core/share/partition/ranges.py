"""The window of a share-partition as ranges of offsets: columns in chunks, sorted, without holes.

Rules:

1. The ranges tile the window: each ends before the next one begins, the last one at the window's end.
2. Neighbours with equal deliveries are one range, except at the border of two chunks.
3. A chunk has at most `MOST` ranges. So finding an offset takes two binary searches, and a change of one
   range moves some kilobytes, however many ranges there are. A range costs 43 bytes.
4. Each chunk counts its available and its incomplete ranges, and knows a lower bound of its lock deadlines.
   So searches skip chunks without what they look for, and a window of a million complete ranges goes in some
   thousand steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.records.share_batches import DeliveryState

MOST: Final = 512
"""Most ranges of a chunk."""
NO_DEADLINE: Final = 1 << 62
NO_BATCH: Final = -1
NOBODY: Final = 0

AVAILABLE: Final = int(DeliveryState.AVAILABLE)
ACQUIRED: Final = int(DeliveryState.ACQUIRED)
ACKNOWLEDGED: Final = int(DeliveryState.ACKNOWLEDGED)
ARCHIVING: Final = int(DeliveryState.ARCHIVING)
ARCHIVED: Final = int(DeliveryState.ARCHIVED)
PENDING: Final = 8
"""Added to a state that becomes final when a write is durable; until then nobody else gets the records."""
COMPLETE: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
_COUNTED: Final = frozenset({ACKNOWLEDGED, ARCHIVED, ACKNOWLEDGED | PENDING, ARCHIVED | PENDING})
"""States that count as complete deliveries."""


class Delivery(NamedTuple):
    """The delivery of every offset of a range."""

    state: int
    """A `DeliveryState`, or one with `PENDING`."""
    delivery_count: int = 0
    """How often the records were delivered, this time included."""
    owner: int = NOBODY
    """Number of the member that acquired them; kept while a change is pending."""
    deadline: int = 0
    """Time at which their lock ends, in ms; kept while a change is pending."""
    batch_first: int = NO_BATCH
    """First offset of the range with which they were first delivered, for isolation (F15)."""
    batch_size: int = 0
    acquired_at: int = 0
    """Time at which they were acquired, in ms; kept while a change is pending."""


class Piece(NamedTuple):
    """A range, or a part of one: first and last offset."""

    first: int
    last: int
    delivery: Delivery


class Chunk:
    """Some consecutive ranges. Only this module changes one."""

    __slots__ = (
        "acquired_ats",
        "available",
        "batch_firsts",
        "batch_sizes",
        "complete_records",
        "counts",
        "deadlines",
        "earliest",
        "firsts",
        "incomplete",
        "owners",
        "states",
    )

    def __init__(self) -> None:
        self.firsts = array("q")
        self.states = array("b")
        self.counts = array("h")
        self.owners = array("i")
        self.deadlines = array("q")
        self.batch_firsts = array("q")
        self.batch_sizes = array("i")
        self.acquired_ats = array("q")
        self.available = 0
        """Number of available ranges."""
        self.incomplete = 0
        """Number of ranges that are not complete, or pending."""
        self.complete_records = 0
        """Number of offsets in complete ranges, pending ones included."""
        self.earliest = NO_DEADLINE
        """No lock of the chunk ends before."""

    def __len__(self) -> int:
        return len(self.firsts)

    def columns(self) -> tuple[array[int], ...]:
        """Return the columns: the first offset, then in the order of the fields of `Delivery`."""
        return (
            self.firsts,
            self.states,
            self.counts,
            self.owners,
            self.deadlines,
            self.batch_firsts,
            self.batch_sizes,
            self.acquired_ats,
        )

    def delivery(self, i: int) -> Delivery:
        """Return the delivery of range `i`."""
        return Delivery(
            self.states[i],
            self.counts[i],
            self.owners[i],
            self.deadlines[i],
            self.batch_firsts[i],
            self.batch_sizes[i],
            self.acquired_ats[i],
        )

    def find(self, state: int, begin: int) -> int:
        """Return the index of the first range from `begin` on in this state; -1 if there is none."""
        if state not in COMPLETE:
            count = self.available if state == AVAILABLE else self.incomplete - self.available
            if not count:
                return -1
        return self.states.tobytes().find(state, begin)

    def _count(self, pieces: Sequence[Piece], sign: int) -> None:
        for first, last, delivery in pieces:
            self._count_one(delivery.state, last - first + 1, sign)
            if delivery.state == ACQUIRED and sign > 0:
                self.earliest = min(self.earliest, delivery.deadline)

    def pieces(self, start: int, end: int, chunk_end: int) -> list[Piece]:
        """Return the ranges from index `start` to `end` (exclusive); the chunk ends before `chunk_end`."""
        firsts = self.firsts
        lasts = [first - 1 for first in firsts[start + 1 : end + 1]]
        if end == len(firsts) and start < end:
            lasts.append(chunk_end - 1)
        deliveries = map(
            Delivery._make,
            zip(*(column[start:end] for column in self.columns()[1:]), strict=True),
        )
        return list(map(Piece._make, zip(firsts[start:end], lasts, deliveries, strict=True)))

    def replace(self, start: int, end: int, old: Sequence[Piece], new: Sequence[Piece]) -> None:
        """Replace the ranges from index `start` to `end`, which are `old`, with `new`."""
        self._count(old, -1)
        self._count(new, 1)
        rows = [(piece.first, *piece.delivery) for piece in new]
        for column, values in zip(self.columns(), zip(*rows, strict=True), strict=True):
            column[start:end] = array(column.typecode, values)

    def drop(self, end: int, old: Sequence[Piece]) -> None:
        """Remove the first ranges, up to index `end` (exclusive), which are `old`."""
        self._count(old, -1)
        for column in self.columns():
            del column[:end]

    def set(self, i: int, length: int, delivery: Delivery) -> None:
        """Change the delivery of range `i`, which has `length` offsets."""
        self._count_one(self.states[i], length, -1)
        self._count_one(delivery.state, length, 1)
        self.states[i] = delivery.state
        self.counts[i] = delivery.delivery_count
        self.owners[i] = delivery.owner
        self.deadlines[i] = delivery.deadline
        self.batch_firsts[i] = delivery.batch_first
        self.batch_sizes[i] = delivery.batch_size
        self.acquired_ats[i] = delivery.acquired_at
        if delivery.state == ACQUIRED:
            self.earliest = min(self.earliest, delivery.deadline)

    def _count_one(self, state: int, length: int, sign: int) -> None:
        if state in _COUNTED:
            self.complete_records += sign * length
        if state not in COMPLETE:
            self.incomplete += sign
            if state == AVAILABLE:
                self.available += sign

    def divided(self, chunk_end: int) -> list[Chunk]:
        """Return chunks with the same ranges, of about half the size that one may have."""
        size = MOST // 2
        parts = []
        for begin in range(0, len(self), size):
            part = Chunk()
            for column, own in zip(part.columns(), self.columns(), strict=True):
                column.extend(own[begin : begin + size])
            end = begin + len(part)
            part.recount(self.firsts[end] if end < len(self) else chunk_end)
            parts.append(part)
        return parts

    def recount(self, chunk_end: int) -> None:
        """Compute the totals of a chunk that was made column by column."""
        states = np.frombuffer(self.states, np.int8)
        lengths = np.diff(np.frombuffer(self.firsts, np.int64), append=chunk_end)
        final = states & ~PENDING
        is_counted = (final == ACKNOWLEDGED) | (final == ARCHIVED)
        self.available = int(np.count_nonzero(states == AVAILABLE))
        self.incomplete = len(states) - int(np.count_nonzero(is_counted & (states == final)))
        self.complete_records = int(lengths[is_counted].sum())
        self.measure_deadline()

    def measure_deadline(self) -> None:
        """Make `earliest` the deadline of the lock that ends first."""
        locked = np.frombuffer(self.deadlines, np.int64)[np.frombuffer(self.states, np.int8) == ACQUIRED]
        self.earliest = int(locked.min()) if len(locked) else NO_DEADLINE


class Ranges:
    """The ranges of a window; changed by `put`, `put_apart`, `extend`, `trim` and `drop_complete` only."""

    __slots__ = ("_chunks", "_firsts", "_limited_from", "available", "complete_records", "end", "start")

    def __init__(self, start: int) -> None:
        """An empty window at offset `start`."""
        self.start = start
        self.end = start
        """The offset after the window."""
        self._limited_from = start
        self.available = 0
        """Number of available ranges."""
        self.complete_records = 0
        """Number of offsets whose delivery is complete, pending ones included."""
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        """The first offset of each chunk."""

    @property
    def limited_size(self) -> int:
        """Number of offsets that the window's limit counts: those below that were opened again do not."""
        return self.end - max(self.start, self._limited_from)

    def __len__(self) -> int:
        """Number of ranges."""
        return sum(map(len, self._chunks))

    @property
    def in_flight(self) -> int:
        """Number of ranges that are neither available nor complete: a member has them, or a write decides."""
        return sum(chunk.incomplete for chunk in self._chunks) - self.available

    def _chunk_end(self, index: int) -> int:
        return self._firsts[index + 1] if index + 1 < len(self._firsts) else self.end

    def _chunk_at(self, offset: int) -> int:
        return bisect_right(self._firsts, offset) - 1

    def chunk_pieces(self, index: int) -> list[Piece]:
        """Return all ranges of one chunk."""
        chunk = self._chunks[index]
        return chunk.pieces(0, len(chunk), self._chunk_end(index))

    def chunk_from(self, offset: int) -> int:
        """Return the index of the chunk with `offset`, or of the first one after it."""
        return max(0, self._chunk_at(offset))

    def next_from(self, offset: int) -> int | None:
        """Return the first offset of the window from `offset` on, if there is one."""
        return max(offset, self.start) if offset < self.end and self.start < self.end else None

    def chunk_last(self, index: int) -> int:
        """Return the last offset of a chunk."""
        return self._chunk_end(index) - 1

    def has_owner(self, index: int, owner: int) -> bool:
        """Return whether a range of this chunk is, or was until a pending change, acquired by this member."""
        return owner in self._chunks[index].owners

    def has_count(self, index: int, delivery_count: int) -> bool:
        """Return whether a chunk has an available range, and one that was delivered at least as often."""
        chunk = self._chunks[index]
        return chunk.available > 0 and max(chunk.counts) >= delivery_count

    def first_expired(self, now: int, index: int) -> int | None:
        """Return the first chunk from `index` on that may have a lock which ends at `now` or before."""
        for i in range(index, len(self._chunks)):
            if self._chunks[i].earliest <= now:
                return i
        return None

    def measure_deadline(self, index: int) -> int:
        """Compute the bound of a chunk's lock deadlines again, and return it: the earliest deadline."""
        chunk = self._chunks[index]
        chunk.measure_deadline()
        return chunk.earliest

    def next_deadline(self) -> int | None:
        """Return a time before which no lock ends; None if nothing is locked."""
        earliest = min((chunk.earliest for chunk in self._chunks), default=NO_DEADLINE)
        return None if earliest == NO_DEADLINE else earliest

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """Yield the ranges from `first` to `last`, cut to these offsets; nothing may change meanwhile."""
        if first >= self.end or last < first or last < self.start:
            return
        index = self.chunk_from(first)
        while index < len(self._chunks) and self._firsts[index] <= last:
            chunk = self._chunks[index]
            begin = max(0, bisect_right(chunk.firsts, first) - 1)
            for piece in chunk.pieces(begin, bisect_right(chunk.firsts, last), self._chunk_end(index)):
                if piece.first >= first and piece.last <= last:
                    yield piece
                else:
                    yield Piece(max(piece.first, first), min(piece.last, last), piece.delivery)
            index += 1

    def find(self, state: int, first: int, last: int) -> Piece | None:
        """Return the first range from `first` to `last` in this state, cut to these offsets."""
        first = max(first, self.start)
        if first >= self.end or last < first or (state == AVAILABLE and not self.available):
            return None
        index = self._chunk_at(first)
        begin = bisect_right(self._chunks[index].firsts, first) - 1
        while index < len(self._chunks) and self._firsts[index] <= last:
            found = self._chunks[index].find(state, begin)
            if found >= 0:
                return self._cut(index, found, first, last)
            index, begin = index + 1, 0
        return None

    def _cut(self, index: int, i: int, first: int, last: int) -> Piece | None:
        chunk = self._chunks[index]
        begin = chunk.firsts[i]
        if begin > last:
            return None
        end = chunk.firsts[i + 1] if i + 1 < len(chunk) else self._chunk_end(index)
        return Piece(max(begin, first), min(end - 1, last), chunk.delivery(i))

    def put(self, pieces: Sequence[Piece]) -> None:
        """Replace the offsets of `pieces`, which follow each other inside the window."""
        position = 0
        rest = pieces[0] if pieces else None
        while rest is not None:
            index = self._chunk_at(rest.first)
            chunk_last = self._chunk_end(index) - 1
            here: list[Piece] = []
            while rest is not None and rest.last <= chunk_last:
                here.append(rest)
                position += 1
                rest = pieces[position] if position < len(pieces) else None
            if rest is not None and rest.first <= chunk_last:
                here.append(Piece(rest.first, chunk_last, rest.delivery))
                rest = Piece(chunk_last + 1, rest.last, rest.delivery)
            self._put_in_chunk(index, here)

    def put_apart(self, pieces: Sequence[Piece]) -> None:
        """Do the same for ascending pieces with holes between them."""
        begin = 0
        for end in range(1, len(pieces) + 1):
            if end == len(pieces) or pieces[end - 1].last + 1 != pieces[end].first:
                self.put(pieces[begin:end])
                begin = end

    def _put_in_chunk(self, index: int, pieces: list[Piece]) -> None:
        chunk = self._chunks[index]
        begin = bisect_right(chunk.firsts, pieces[0].first) - 1
        end = bisect_right(chunk.firsts, pieces[-1].last)
        if len(pieces) == 1 and end - begin == 1 and self._set(index, begin, pieces[0]):
            return
        # The neighbours may become part of the first and the last piece.
        wide_begin, wide_end = max(0, begin - 1), min(len(chunk), end + 1)
        old = chunk.pieces(wide_begin, wide_end, self._chunk_end(index))
        head, tail = pieces[0].first, pieces[-1].last
        new = [*_before(old, head), *pieces, *_after(old, tail)]
        self._replace(index, wide_begin, wide_end, old, _joined(new))
        self._balance(index)

    def _set(self, index: int, i: int, piece: Piece) -> bool:
        """Change one range in place, if `piece` is all of it and differs from its neighbours."""
        chunk = self._chunks[index]
        state, size = piece.delivery.state, len(chunk)
        end = chunk.firsts[i + 1] if i + 1 < size else self._chunk_end(index)
        if chunk.firsts[i] != piece.first or end != piece.last + 1:
            return False
        for beside in (i - 1, i + 1):
            is_near = 0 <= beside < size and chunk.states[beside] == state
            if is_near and chunk.delivery(beside) == piece.delivery:
                return False
        available, complete = chunk.available, chunk.complete_records
        chunk.set(i, piece.last - piece.first + 1, piece.delivery)
        self.available += chunk.available - available
        self.complete_records += chunk.complete_records - complete
        return True

    def _replace(self, index: int, begin: int, end: int, old: Sequence[Piece], new: Sequence[Piece]) -> None:
        chunk = self._chunks[index]
        available, complete = chunk.available, chunk.complete_records
        chunk.replace(begin, end, old, new)
        self.available += chunk.available - available
        self.complete_records += chunk.complete_records - complete

    def _balance(self, index: int) -> None:
        """Divide a chunk that is too large; join a small one with the next one."""
        chunk = self._chunks[index]
        if len(chunk) > MOST:
            parts = chunk.divided(self._chunk_end(index))
            self._chunks[index : index + 1] = parts
            self._firsts[index : index + 1] = [part.firsts[0] for part in parts]
        elif index + 1 < len(self._chunks) and len(chunk) + len(self._chunks[index + 1]) <= MOST // 2:
            joined = _joined([*self.chunk_pieces(index), *self.chunk_pieces(index + 1)])
            # The totals of the window stay the same.
            chunk.replace(0, len(chunk), self.chunk_pieces(index), joined)
            del self._chunks[index + 1], self._firsts[index + 1]

    def extend(self, last: int, delivery: Delivery) -> None:
        """Add the offsets from the end of the window to `last`."""
        piece = Piece(self.end, last, delivery)
        if not self._chunks or len(self._chunks[-1]) >= MOST:
            self._chunks.append(Chunk())
            self._firsts.append(self.end)
        index = len(self._chunks) - 1
        chunk = self._chunks[index]
        begin = max(0, len(chunk) - 1)
        old = chunk.pieces(begin, len(chunk), self.end)
        self._replace(index, begin, len(chunk), old, _joined([*old, piece]))
        self.end = last + 1

    def prepend(self, start: int, delivery: Delivery) -> None:
        """Add the offsets from `start` up to the window."""
        chunk = Chunk()
        chunk.replace(0, 0, (), (Piece(start, self.start - 1, delivery),))
        self._limited_from = max(self._limited_from, self.start)
        self._chunks.insert(0, chunk)
        self._firsts.insert(0, start)
        self.available += chunk.available
        self.complete_records += chunk.complete_records
        self.start = start

    def add_chunk(self, columns: Sequence[array[int]], end: int) -> None:
        """Add at most `MOST` ranges up to the offset `end` (exclusive); the columns are those of a chunk."""
        chunk = Chunk()
        for column, values in zip(chunk.columns(), columns, strict=True):
            column.extend(values)
        chunk.recount(end)
        self.end = end
        self._chunks.append(chunk)
        self._firsts.append(chunk.firsts[0])
        self.available += chunk.available
        self.complete_records += chunk.complete_records

    def trim(self, start: int) -> None:
        """Remove all offsets below `start` from the window; an empty window moves there."""
        dropped = 0
        while dropped < len(self._chunks) and self._chunk_end(dropped) <= start:
            dropped += 1
        self._drop_chunks(dropped)
        self.start = max(self.start, start)
        if not self._chunks:
            self.end = max(self.end, self.start)
        elif self._firsts[0] < start:
            self._trim_chunk(start)

    def _trim_chunk(self, start: int) -> None:
        chunk = self._chunks[0]
        end = bisect_right(chunk.firsts, start)
        old = chunk.pieces(0, end, self._chunk_end(0))
        self._replace(0, 0, end, old, [Piece(start, old[-1].last, old[-1].delivery)])
        self._firsts[0] = start

    def _drop_chunks(self, count: int) -> None:
        for chunk in self._chunks[:count]:
            self.available -= chunk.available
            self.complete_records -= chunk.complete_records
        del self._chunks[:count], self._firsts[:count]

    def drop_complete(self) -> None:
        """Move the start over all complete ranges at the beginning (F11)."""
        dropped = 0
        while dropped < len(self._chunks) and not self._chunks[dropped].incomplete:
            dropped += 1
        self._drop_chunks(dropped)
        if not self._chunks:
            self.start = self.end
            return
        chunk = self._chunks[0]
        end = next(i for i, state in enumerate(chunk.states) if state not in COMPLETE)
        if end:
            old = chunk.pieces(0, end, self._chunk_end(0))
            complete = chunk.complete_records
            chunk.drop(end, old)
            self.complete_records += chunk.complete_records - complete
            self._firsts[0] = chunk.firsts[0]
        self.start = self._firsts[0]


def _before(old: Sequence[Piece], first: int) -> Iterator[Piece]:
    """Yield what `old` has before the offset `first`."""
    for piece in old:
        if piece.first >= first:
            return
        yield piece if piece.last < first else Piece(piece.first, first - 1, piece.delivery)


def _after(old: Sequence[Piece], last: int) -> Iterator[Piece]:
    """Yield what `old` has after the offset `last`."""
    for piece in old:
        if piece.last > last:
            yield piece if piece.first > last else Piece(last + 1, piece.last, piece.delivery)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the same offsets with equal neighbours joined."""
    joined: list[Piece] = []
    first, last, delivery = pieces[0]
    for piece in pieces[1:]:
        if piece.delivery is delivery or piece.delivery == delivery:
            last = piece.last
        else:
            joined.append(Piece(first, last, delivery))
            first, last, delivery = piece
    joined.append(Piece(first, last, delivery))
    return joined
