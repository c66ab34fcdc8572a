"""The share-partition: a partition's records as one share group delivers them (KIP-932).

Rules:

1. The window goes from the start offset (SPSO) to the end. The records below are complete, those from the end
   on were never delivered. Each record inside has a state: available, acquired by one member until its lock
   ends, acknowledged, archiving or archived.
2. The delivery count rises when a record is acquired, and never falls. A record that was delivered as often
   as the limit allows is archived instead of becoming available again (F8).
3. An acknowledgement is all or nothing (F7). It returns what to persist; until `finish_write` nobody else
   gets the records, and the start does not pass them. If the write fails the member has them as before (F17).
4. When a lock ends, or a member leaves, nobody waits for an answer: the change is final at once, and is
   persisted. If the node fails before that, the delivery is forgotten (R4.3).
5. The start moves over complete records (acknowledged, archived) without a pending change (F11).

Time is an argument, in ms of the steady clock. Every method is quick, whatever the size of the window;
`expire` and `release` do a bounded part of their work in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headgate.core.share.partition.acknowledging import (
    acknowledged,
    rejected_by,
    settled,
    state_batches,
    state_without_member,
    without_member,
)
from headgate.core.share.partition.acquiring import Lock, Taking, room_for
from headgate.core.share.partition.administering import (
    archived,
    released,
    reopen,
    reopened,
    some_pieces,
)
from headgate.core.share.partition.loading import load_steps
from headgate.core.share.partition.model import (
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    Acquisition,
    DeliveryLimits,
    DeliveryView,
    FetchedRecords,
    StateChange,
)
from headgate.core.share.partition.ranges import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NOBODY,
    PENDING,
    Delivery,
    Piece,
    Ranges,
)
from headgate.core.share.partition.rejections import Cause, Rejection, Rejections
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import DeliveryState, StateBatch, StateBatches

MOST_AT_ONCE: Final = 250
"""About how many ranges `expire` and `release` change in one call."""
MOST_ONE_BY_ONE: Final = 20
"""If more ranges of a chunk change, the whole chunk is replaced."""
MOST_SKIPPED: Final = 100
"""Ranges that `acquire` archives because the log no longer has them; a fetch reads again some times."""
MOST_CHUNKS: Final = 100
"""Chunks of ranges that they look at in one call."""


class Rest(NamedTuple):
    """What is left of the release of a member's records."""

    owner: int
    """The member's number. If it acquires records meanwhile, it has another one."""
    offset: int


class Released(NamedTuple):
    """A part of the release of a member's records."""

    change: StateChange | None
    rest: Rest | None
    """What to pass to `release` next; None after the last part."""


class SharePartition:
    """The deliveries of one partition to one group."""

    def __init__(self, start_offset: int, limits: DeliveryLimits) -> None:
        """A share-partition of which nothing was delivered from `start_offset` on."""
        self.limits = limits
        """May be replaced at any time."""
        self._ranges = Ranges(start_offset)
        self._numbers: dict[MemberId, int] = {}
        self._members: dict[int, MemberId] = {}
        self._last_number = NOBODY
        self._writes: dict[int, list[tuple[int, int]]] = {}
        """The pending writes, with the first and last offsets that each changes; no offset is in two."""
        self._last_write = 0
        self.rejections = Rejections()
        self._archiving_from: int | None = None
        """No record below it waits for its dead letter; None: no record does."""

    def load(self, batches: StateBatches) -> Iterator[None]:
        """Take over the persisted state, before anything else, in steps. Raises InvalidState."""
        yield from load_steps(self._ranges, batches)
        self._ranges.drop_complete()
        if batches.has_state(DeliveryState.ARCHIVING):
            self._archiving_from = self._ranges.start

    @property
    def start_offset(self) -> int:
        """Return the share-partition start offset (SPSO)."""
        return self._ranges.start

    @property
    def end_offset(self) -> int:
        """Return the offset of the first record that was never delivered."""
        return self._ranges.end

    @property
    def delivery_complete_count(self) -> int:
        """Return how many records of the window are complete, pending ones included."""
        return self._ranges.complete_records

    @property
    def range_count(self) -> int:
        """Return the number of ranges that the window is made of."""
        return len(self._ranges)

    @property
    def is_any_in_flight(self) -> bool:
        """Return whether a member has records, or a write decides what becomes of some."""
        return self._ranges.in_flight > 0

    def first_holder(self) -> tuple[MemberId, Millis] | None:
        """Return who has the first acquired record, and until when; None if nobody has any."""
        piece = self._ranges.find(ACQUIRED, self._ranges.start, self._ranges.end)
        member_id = None if piece is None else self._members.get(piece.delivery.owner)
        if piece is None or member_id is None:
            return None
        return member_id, Millis(piece.delivery.deadline)

    def next_offset(self) -> int:
        """Return the offset at which to read the log for the next acquisition: the first available record."""
        piece = self._ranges.find(AVAILABLE, self._ranges.start, self._ranges.end)
        return self._ranges.end if piece is None else piece.first

    def can_acquire(self) -> bool:
        """Return whether a fetch could acquire records, if the log has some."""
        return self._ranges.available > 0 or self._ranges.limited_size < self.limits.records

    def acquire(self, wish: Acquisition, now: Millis) -> list[AcquiredRecords]:
        """Acquire records for a member, and lock them until now plus the lock duration.

        Returns the acquired ranges in order. If there are none although the log returned records, compare
        `next_offset` with what it was: undeliverable and compacted records are skipped.
        """
        if wish.max_records <= 0 or room_for(wish, self._ranges, self.limits).records <= 0:
            return []
        if not self._skip_hole(wish.fetched):
            self._ranges.drop_complete()
            return []
        lock = Lock(self._number_of(wish.member_id), now + self.limits.lock_duration_ms, now)
        taking = Taking(wish, self._ranges, self.limits, lock)
        taking.run()
        kept = taking.taken
        if wish.fetched.undeliverable and kept:
            kept = self._without(kept, wish.fetched.undeliverable)
        self._ranges.drop_complete()
        return [AcquiredRecords(piece.first, piece.last, piece.delivery.delivery_count) for piece in kept]

    def _number_of(self, member_id: MemberId) -> int:
        number = self._numbers.get(member_id)
        if number is None:
            number = self._last_number = self._last_number + 1
            self._numbers[member_id] = number
            self._members[number] = member_id
        return number

    def _skip_hole(self, fetched: FetchedRecords) -> bool:
        """Archive what the log no longer has before the first batch it returned (F14); some of it in each
        call. Return whether that is all.
        """
        first, end = fetched.fetch_offset, fetched.first_offset
        for _ in range(MOST_SKIPPED):
            piece = self._ranges.find(AVAILABLE, first, end - 1)
            if piece is None:
                break
            self._archive(piece)
            first = piece.last + 1
        if self._ranges.find(AVAILABLE, first, end - 1) is not None:
            return False
        if self._ranges.end < end:
            self._ranges.extend(end - 1, Delivery(ARCHIVED))
        return True

    def _archive(self, piece: Piece) -> None:
        self._ranges.put((Piece(piece.first, piece.last, without_member(piece.delivery, ARCHIVED)),))

    def _without(self, taken: list[Piece], undeliverable: Sequence[tuple[int, int]]) -> list[Piece]:
        """Archive what no member gets (F16), and return the other records. Both ascend."""
        kept: list[Piece] = []
        changed: list[Piece] = []
        holes = iter(undeliverable)
        hole = next(holes, None)
        for piece in taken:
            position = piece.first
            while position <= piece.last:
                while hole is not None and hole[1] < position:
                    hole = next(holes, None)
                end = piece.last if hole is None else min(piece.last, hole[0] - 1)
                if position <= end:
                    kept.append(piece._replace(first=position, last=end))
                    changed.append(kept[-1])
                    position = end + 1
                elif hole is not None:
                    end = min(piece.last, hole[1])
                    changed.append(Piece(position, end, without_member(piece.delivery, ARCHIVED)))
                    position = end + 1
        for run in _runs(changed):
            self._ranges.put(run)
        return kept

    def acknowledge(
        self, member_id: MemberId, batches: Sequence[AcknowledgementBatch], now: Millis
    ) -> Acknowledged:
        """Acknowledge records that the member has acquired; all batches or, with an error, none.

        `batches` passed `checks.check_batches`. Offsets below the start are ignored. INVALID_RECORD_STATE: a
        record is not acquired by this member. INVALID_REQUEST: a batch goes beyond the end of the window.
        Persist the change, and call `finish_write`.
        """
        owner = self._numbers.get(member_id, NOBODY)
        renewed_until = now + self.limits.lock_duration_ms
        new: list[list[Piece]] = []
        rejected: list[Rejection] = []
        changed_up_to = -1
        for batch in batches:
            if batch.last_offset < self._ranges.start:
                continue
            pieces = self._acquired(batch, owner)
            if isinstance(pieces, ErrorCode):
                return Acknowledged(pieces)
            if pieces[0].first <= changed_up_to:
                return Acknowledged(ErrorCode.INVALID_RECORD_STATE)
            new.append(acknowledged(pieces, batch, self.limits, renewed_until))
            if max(batch.types) > AcknowledgeType.ACCEPT:
                rejected += rejected_by(member_id, batch, new[-1], now)
            if batch.types[-1] != AcknowledgeType.RENEW:
                changed_up_to = batch.last_offset
        for one in rejected:
            self.rejections.note(one)
        return Acknowledged(ErrorCode.NONE, self._pending(new))

    def refusal(self, member_id: MemberId, batches: Sequence[AcknowledgementBatch]) -> ErrorCode:
        """Return the error with which `acknowledge` refuses one of these batches; NONE if it takes each."""
        owner = self._numbers.get(member_id, NOBODY)
        for batch in batches:
            if batch.last_offset >= self._ranges.start:
                pieces = self._acquired(batch, owner)
                if isinstance(pieces, ErrorCode):
                    return pieces
        return ErrorCode.NONE

    def _acquired(self, batch: AcknowledgementBatch, owner: int) -> list[Piece] | ErrorCode:
        """Return the ranges of a batch from the start offset on, if the member has acquired all of them."""
        ranges = self._ranges
        if ranges.start == ranges.end:
            return ErrorCode.INVALID_RECORD_STATE
        if batch.last_offset >= ranges.end:
            return ErrorCode.INVALID_REQUEST
        pieces = list(ranges.pieces(max(batch.first_offset, ranges.start), batch.last_offset))
        for piece in pieces:
            if piece.delivery.state != ACQUIRED or piece.delivery.owner != owner:
                return ErrorCode.INVALID_RECORD_STATE
        return pieces

    def _pending(self, new: list[list[Piece]]) -> StateChange | None:
        """Apply an acknowledgement, and return the write it waits for, if it changes more than locks."""
        changed = [piece for pieces in new for piece in pieces]
        for run in _runs(changed):  # many small batches cost as much as one with many types
            self._ranges.put(run)
        batches = state_batches(piece for piece in changed if piece.delivery.state & PENDING)
        if not batches:
            return None
        self._last_write += 1
        self._writes[self._last_write] = _spans(batches)
        return self._change(batches, self._last_write)

    def _change(self, batches: Sequence[StateBatch], write: int = 0) -> StateChange:
        if self.limits.keeps_dead_letters:
            self._look_for_archiving(batches)
        return StateChange(
            write=write,
            start_offset=self._ranges.start,
            delivery_complete_count=self._ranges.complete_records,
            batches=batches,
        )

    def finish_write(self, write: int, *, is_durable: bool, now: Millis) -> StateChange | None:
        """Make a pending change final, or undo it: the member then has the records until its lock ends.

        If the member has left meanwhile they are taken back: returns what to persist of that.
        """
        known: dict[Delivery, Delivery] = {}
        undone: list[Piece] = []
        for first, last in self._writes.pop(write):
            if not is_durable:
                self.rejections.forget(first, last)
            pieces: list[Piece] = []
            for piece in self._ranges.pieces(first, last):
                delivery = known.get(piece.delivery)
                if delivery is None:
                    delivery = known[piece.delivery] = settled(piece.delivery, is_durable=is_durable)
                pieces.append(Piece(piece.first, piece.last, delivery))
            self._ranges.put(pieces)
            undone += pieces
        self._ranges.drop_complete()
        return None if is_durable else self._take_back_lost(undone, now)

    def _take_back_lost(self, pieces: Sequence[Piece], now: Millis) -> StateChange | None:
        """Take back those of these acquired ranges whose members have left."""
        lost = [
            self._without_member(piece, Cause.MEMBER_LEFT, now)
            for piece in pieces
            if piece.delivery.state == ACQUIRED and not self._is_here(piece.delivery.owner)
        ]
        for run in _runs(lost):
            self._ranges.put(run)
        return self._final(lost)

    def _is_here(self, owner: int) -> bool:
        member_id = self._members.get(owner)
        return member_id is not None and self._numbers.get(member_id) == owner

    def _without_member(self, piece: Piece, cause: Cause, now: Millis) -> Piece:
        """Return an acquired range as its member gives it back or loses it."""
        delivery = piece.delivery
        state = state_without_member(delivery, self.limits)
        if state != AVAILABLE:
            member_id = self._members.get(delivery.owner)
            count = delivery.delivery_count
            self.rejections.note(Rejection(piece.first, piece.last, cause, member_id, now, count))
        return Piece(piece.first, piece.last, without_member(delivery, state))

    def next_deadline(self) -> Millis | None:
        """Return when to call `expire`: no lock ends before. None if nothing is acquired."""
        deadline = self._ranges.next_deadline()
        return None if deadline is None else Millis(deadline)

    def expire(self, now: Millis) -> StateChange | None:
        """Take back some of the records whose lock ended. Call it again while `next_deadline` has passed."""

        def lost(piece: Piece) -> bool:
            return piece.delivery.state == ACQUIRED and piece.delivery.deadline <= now

        ranges = self._ranges
        taken_back: list[Piece] = []
        index = ranges.first_expired(now, 0)
        for _ in range(MOST_CHUNKS):
            if index is None or len(taken_back) >= MOST_AT_ONCE:
                break
            if ranges.measure_deadline(index) <= now:
                taken_back += self._take_back(index, lost, Cause.LOCK_ENDED, now)
            index = ranges.first_expired(now, index)
        return self._final(taken_back)

    def forget_member(self, member_id: MemberId) -> Rest | None:
        """Part with a member that left, if it has acquired records: pass what is returned to `release`."""
        owner = self._numbers.pop(member_id, None)
        return None if owner is None else Rest(owner, 0)

    def release(self, rest: Rest, now: Millis) -> Released:
        """Take back some of the records of a member that left; the count stays (F12)."""
        owner = rest.owner

        def lost(piece: Piece) -> bool:
            return piece.delivery.state == ACQUIRED and piece.delivery.owner == owner

        taken_back: list[Piece] = []
        next_offset = self._ranges.next_from(rest.offset)
        for _ in range(MOST_CHUNKS):
            if len(taken_back) >= MOST_AT_ONCE or next_offset is None:
                break
            index = self._ranges.chunk_from(next_offset)
            chunk_last = self._ranges.chunk_last(index)
            if self._ranges.has_owner(index, owner):
                taken_back += self._take_back(index, lost, Cause.MEMBER_LEFT, now)
            next_offset = self._ranges.next_from(chunk_last + 1)
        if next_offset is None:
            del self._members[owner]
        return Released(self._final(taken_back), None if next_offset is None else Rest(owner, next_offset))

    def _take_back(self, index: int, lost: Callable[[Piece], bool], cause: Cause, now: Millis) -> list[Piece]:
        """Make the ranges of a chunk for which `lost` is true available, or archive them; return those."""
        changed: list[Piece] = []
        pieces = self._ranges.chunk_pieces(index)
        for i, piece in enumerate(pieces):
            if lost(piece):
                pieces[i] = self._without_member(piece, cause, now)
                changed.append(pieces[i])
        if len(changed) > MOST_ONE_BY_ONE:
            self._ranges.put(pieces)
        else:
            for piece in changed:
                self._ranges.put((piece,))
        return changed

    def _final(self, changed: list[Piece]) -> StateChange | None:
        if not changed:
            return None
        change = self._change(state_batches(changed))
        self._ranges.drop_complete()
        return change

    def log_start_moved(self, offset: int) -> None:
        """Forget the records below the log start offset; the next change persists the start (F13)."""
        if offset > self._ranges.start:
            self._ranges.trim(offset)
            self._ranges.drop_complete()

    # --- dead letters (KIP-1191) ---

    def _look_for_archiving(self, batches: Sequence[StateBatch]) -> None:
        for batch in batches:
            if batch.delivery_state == ARCHIVING:
                known = self._archiving_from
                self._archiving_from = batch.first_offset if known is None else min(known, batch.first_offset)
                return

    @property
    def may_have_dead_letters(self) -> bool:
        """Return whether records may wait for their dead letters."""
        return self._archiving_from is not None

    def dead_letters(self, most_records: int, from_offset: int = 0) -> list[DeliveryView]:
        """Return the first ranges from an offset on that wait for their dead letters, and no more records.

        Rejections that are not durable yet are not among them.
        """
        found: list[DeliveryView] = []
        offset = max(from_offset, self._archiving_from or 0)
        while self._archiving_from is not None and most_records > 0:
            piece = self._ranges.find(ARCHIVING, offset, self._ranges.end)
            if piece is None:
                if not found and not self._writes and offset <= self._archiving_from:
                    self._archiving_from = None
                break
            piece = piece._replace(last=min(piece.last, piece.first + most_records - 1))
            found.append(self._view(piece))
            most_records -= piece.last - piece.first + 1
            offset = piece.last + 1
        return found

    def dead_letters_begin(self, letters: Iterable[DeliveryView]) -> StateChange:
        """Return what to persist before the dead letters of these ranges are written: that they are due."""
        return self._change(
            [StateBatch(one.first_offset, one.last_offset, ARCHIVING, one.delivery_count) for one in letters]
        )

    def dead_letter_copied(self, first_offset: int, last_offset: int) -> StateChange | None:
        """Archive those of these records that were waiting to be copied."""
        copied = [
            piece._replace(delivery=without_member(piece.delivery, ARCHIVED))
            for piece in self._ranges.pieces(first_offset, last_offset)
            if piece.delivery.state == ARCHIVING
        ]
        for run in _runs(copied):
            self._ranges.put(run)
        return self._final(copied)

    def archive_exhausted(self, from_offset: int, now: Millis) -> tuple[StateChange | None, int | None]:
        """Archive available records that were delivered as often as the limit allows, which was lowered.

        Looks at some chunks. Returns the change, and where to go on; None after the last chunk.
        """
        limits, ranges = self.limits, self._ranges
        exhausted: list[Piece] = []
        offset = ranges.next_from(from_offset)
        for _ in range(MOST_CHUNKS):
            if offset is None or len(exhausted) >= MOST_AT_ONCE:
                break
            index = ranges.chunk_from(offset)
            if ranges.has_count(index, limits.delivery_count):
                exhausted += [
                    self._without_member(piece, Cause.LIMIT_LOWERED, now)
                    for piece in ranges.chunk_pieces(index)
                    if piece.delivery.state == AVAILABLE
                    and piece.delivery.delivery_count >= limits.delivery_count
                ]
            offset = ranges.next_from(ranges.chunk_last(index) + 1)
        for run in _runs(exhausted):
            ranges.put(run)
        return self._final(exhausted), offset

    # --- administration ---

    def release_range(self, ranges: Sequence[Piece], now: Millis) -> StateChange | None:
        """Take back those of these ranges that members have."""
        return self._administered(released(ranges, self.limits), Cause.RELEASED, now)

    def archive_range(self, ranges: Sequence[Piece], now: Millis) -> StateChange | None:
        """Deliver those of these ranges no more that are not complete."""
        return self._administered(archived(ranges, self.limits), Cause.ARCHIVED, now)

    def _administered(self, changed: list[Piece], cause: Cause, now: Millis) -> StateChange | None:
        for first, last, delivery in changed:
            if delivery.state != AVAILABLE:
                self.rejections.note(Rejection(first, last, cause, None, now, delivery.delivery_count))
        for run in _runs(changed):
            self._ranges.put(run)
        return self._final(changed)

    def pieces(self, first_offset: int, last_offset: int, most: int) -> list[Piece]:
        """Return at most so many ranges between two offsets, to be administered before anything changes."""
        return some_pieces(self._ranges, first_offset, last_offset, most)

    def reopen(self, offsets: Sequence[tuple[int, int]]) -> StateChange:
        """Open complete ranges again, ascending; return the start and the count to persist.

        Call `reopened` when that is durable, or failed. Until then nobody gets the records.
        """
        for first, last in offsets:
            self.rejections.forget(first, last)
        reopen(self._ranges, offsets)
        return self._change(())

    def reopened(self, offsets: Sequence[tuple[int, int]], *, is_durable: bool) -> None:
        """Make what was opened again available, or complete as before."""
        reopened(self._ranges, offsets, is_durable=is_durable)

    def deliveries(self, first_offset: int, last_offset: int) -> Iterator[DeliveryView]:
        """Yield what is known of these offsets, as ranges; nothing may change meanwhile."""
        return map(self._view, self._ranges.pieces(first_offset, last_offset))

    def _view(self, piece: Piece) -> DeliveryView:
        delivery = piece.delivery
        has_owner = delivery.owner != NOBODY
        return DeliveryView(
            piece.first,
            piece.last,
            DeliveryState(delivery.state & ~PENDING),
            delivery.delivery_count,
            self._members.get(delivery.owner) if has_owner else None,
            Millis(delivery.acquired_at) if has_owner else None,
            Millis(delivery.deadline) if has_owner else None,
            bool(delivery.state & PENDING),
        )


def _spans(batches: Sequence[StateBatch]) -> list[tuple[int, int]]:
    """Return the offsets of the batches, as few first and last ones as possible."""
    spans: list[tuple[int, int]] = []
    for batch in batches:
        if spans and spans[-1][1] + 1 == batch.first_offset:
            spans[-1] = (spans[-1][0], batch.last_offset)
        else:
            spans.append((batch.first_offset, batch.last_offset))
    return spans


def _runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces in runs without holes between them."""
    run: list[Piece] = []
    for piece in pieces:
        if run and run[-1].last + 1 != piece.first:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run
