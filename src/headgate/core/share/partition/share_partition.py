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
`expire`, `release` and `archive_exhausted` do a bounded part of their work in each call.

The parts: the window (`ranges`), what is acquired (`acquiring`), what no member gets (`undeliverable`), what
acknowledgements change (`acknowledging`), what is taken back (`taking_back`), whose dead letters are due
(`archiving`), and what administrators change (`administering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.core.share.partition.acknowledging import (
    acknowledged,
    rejected_by,
    settled,
    state_batches,
)
from headgate.core.share.partition.acquiring import Lock, Taking, room_for
from headgate.core.share.partition.administering import (
    archived,
    released,
    reopen,
    reopened,
    some_pieces,
)
from headgate.core.share.partition.archiving import Archiving
from headgate.core.share.partition.loading import load_steps
from headgate.core.share.partition.members import Members
from headgate.core.share.partition.model import (
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    Acquisition,
    DeliveryLimits,
    DeliveryView,
    StateChange,
)
from headgate.core.share.partition.ranges import (
    ACQUIRED,
    ARCHIVING,
    AVAILABLE,
    NOBODY,
    PENDING,
    Delivery,
    Piece,
    Ranges,
)
from headgate.core.share.partition.rejections import Cause, Rejection, Rejections
from headgate.core.share.partition.taking_back import MOST_AT_ONCE, Rest, TakingBack
from headgate.core.share.partition.undeliverable import skip_hole, without_undeliverable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import DeliveryState, StateBatch, StateBatches


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
        self._members = Members()
        self._writes: dict[int, list[tuple[int, int]]] = {}
        """The pending writes, with the first and last offsets that each changes; no offset is in two."""
        self._last_write = 0
        self.rejections = Rejections()
        self._taking_back = TakingBack(self._ranges, self._members, self.rejections)
        self._archiving = Archiving(self._ranges)

    def load(self, batches: StateBatches) -> Iterator[None]:
        """Take over the persisted state, before anything else, in steps. Raises InvalidState."""
        has_archiving = yield from load_steps(self._ranges, batches)
        self._ranges.drop_complete()
        if has_archiving:
            self._archiving.loaded()

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
        member_id = None if piece is None else self._members.id_of(piece.delivery.owner)
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
        if not skip_hole(self._ranges, wish.fetched):
            self._ranges.drop_complete()
            return []
        lock = Lock(self._members.number_of(wish.member_id), now + self.limits.lock_duration_ms, now)
        taking = Taking(wish, self._ranges, self.limits, lock)
        taking.run()
        kept = taking.taken
        if wish.fetched.undeliverable and kept:
            kept = without_undeliverable(self._ranges, kept, wish.fetched.undeliverable)
        self._ranges.drop_complete()
        return [AcquiredRecords(piece.first, piece.last, piece.delivery.delivery_count) for piece in kept]

    def acknowledge(
        self, member_id: MemberId, batches: Sequence[AcknowledgementBatch], now: Millis
    ) -> Acknowledged:
        """Acknowledge records that the member has acquired; all batches or, with an error, none.

        `batches` passed `checks.check_batches`. Offsets below the start are ignored. INVALID_RECORD_STATE: a
        record is not acquired by this member. INVALID_REQUEST: a batch goes beyond the end of the window.
        Persist the change, and call `finish_write`.
        """
        owner = self._members.known_number(member_id)
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
        owner = self._members.known_number(member_id)
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
        self._ranges.put_apart(changed)  # many small batches cost as much as one with many types
        batches = state_batches([piece for piece in changed if piece.delivery.state & PENDING])
        if not batches:
            return None
        self._last_write += 1
        self._writes[self._last_write] = _spans(batches)
        return self._change(batches, self._last_write)

    def _change(self, batches: Sequence[StateBatch], write: int = 0) -> StateChange:
        if self.limits.keeps_dead_letters:
            self._archiving.look_at(batches)
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
        return None if is_durable else self._final(self._taking_back.left_meanwhile(undone, self.limits, now))

    def next_deadline(self) -> Millis | None:
        """Return when to call `expire`: no lock ends before. None if nothing is acquired."""
        deadline = self._ranges.next_deadline()
        return None if deadline is None else Millis(deadline)

    def expire(self, now: Millis) -> StateChange | None:
        """Take back some of the records whose lock ended. Call it again while `next_deadline` has passed."""
        return self._final(self._taking_back.expired(self.limits, now))

    def forget_member(self, member_id: MemberId) -> Rest | None:
        """Part with a member that left, if it has acquired records: pass what is returned to `release`."""
        owner = self._members.leave(member_id)
        return None if owner == NOBODY else Rest(owner, 0)

    def release(self, rest: Rest, now: Millis) -> Released:
        """Take back some of the records of a member that left; the count stays (F12)."""
        taken_back, more = self._taking_back.left(rest, self.limits, now)
        return Released(self._final(taken_back), more)

    def archive_exhausted(self, from_offset: int, now: Millis) -> tuple[StateChange | None, int | None]:
        """Archive some available records that were delivered as often as the limit allows, which was lowered.

        Returns the change, and where to go on; None if nothing is left.
        """
        exhausted, offset = self._taking_back.exhausted(from_offset, self.limits, now)
        return self._final(exhausted), offset

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

    @property
    def may_have_dead_letters(self) -> bool:
        """Return whether records may wait for their dead letters."""
        return self._archiving.may_have_some

    def dead_letters(
        self, most_records: int, from_offset: int = 0, *, most_ranges: int = MOST_AT_ONCE
    ) -> list[DeliveryView]:
        """Return the first ranges from an offset on that wait for their dead letters, and no more records.

        Rejections that are not durable yet are not among them.
        """
        due = self._archiving.due(most_records, from_offset, most_ranges, is_all_durable=not self._writes)
        return list(map(self._view, due))

    def dead_letters_begin(self, letters: Iterable[DeliveryView]) -> StateChange:
        """Return what to persist before the dead letters of these ranges are written: that they are due."""
        return self._change(
            [StateBatch(one.first_offset, one.last_offset, ARCHIVING, one.delivery_count) for one in letters]
        )

    def dead_letter_copied(self, first_offset: int, last_offset: int) -> StateChange | None:
        """Archive those of these records that were waiting to be copied."""
        return self._final(self._archiving.archive(first_offset, last_offset))

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
        self._ranges.put_apart(changed)
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
            self._members.id_of(delivery.owner) if has_owner else None,
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
