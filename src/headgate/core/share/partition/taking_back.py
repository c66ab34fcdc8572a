"""What is taken back from members: records whose lock ended, or whose member left; and available records that
were delivered as often as a lowered limit allows.

The records become available, or are archived if they were delivered as often as allowed (F8). Nobody waits
for an answer, so the change is final at once. Every method does a bounded part of its work in each call, and
returns the ranges that it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from headgate.core.share.partition.acknowledging import state_without_member, without_member
from headgate.core.share.partition.members import Members
from headgate.core.share.partition.model import DeliveryLimits
from headgate.core.share.partition.ranges import ACQUIRED, AVAILABLE, Piece, Ranges
from headgate.core.share.partition.rejections import Cause, Rejection, Rejections
from headgate.domain.ids import Millis

MOST_AT_ONCE: Final = 256
"""Most ranges that change in one call: half a chunk, so that a chunk takes two calls."""
MOST_CHUNKS: Final = 100
"""Chunks of ranges that are looked at in one call."""
_MOST_ONE_BY_ONE: Final = 20
"""If more ranges of a chunk change, all between the first and the last one are replaced."""


class Rest(NamedTuple):
    """What is left of the release of a member's records."""

    owner: int
    """The member's number. If it acquires records meanwhile, it has another one."""
    offset: int


class TakingBack:
    """Takes records of one share-partition back."""

    def __init__(self, ranges: Ranges, members: Members, rejections: Rejections) -> None:
        self._ranges = ranges
        self._members = members
        self._rejections = rejections

    def expired(self, limits: DeliveryLimits, now: Millis) -> list[Piece]:
        """Take back some of the records whose lock ended."""

        def lost(piece: Piece) -> bool:
            return piece.delivery.state == ACQUIRED and piece.delivery.deadline <= now

        ranges = self._ranges
        taken_back: list[Piece] = []
        index = ranges.first_expired(now, 0)
        for _ in range(MOST_CHUNKS):
            if index is None or len(taken_back) >= MOST_AT_ONCE:
                break
            if ranges.measure_deadline(index) <= now:
                room = MOST_AT_ONCE - len(taken_back)
                taken_back += self._from_chunk(index, lost, Cause.LOCK_ENDED, limits, now, room)
            index = ranges.first_expired(now, index)
        return taken_back

    def left(self, rest: Rest, limits: DeliveryLimits, now: Millis) -> tuple[list[Piece], Rest | None]:
        """Take back some of the records of a member that left. Return them, and what is left to do."""
        owner = rest.owner

        def lost(piece: Piece) -> bool:
            return piece.delivery.state == ACQUIRED and piece.delivery.owner == owner

        taken_back: list[Piece] = []
        next_offset = self._ranges.next_from(rest.offset)
        for _ in range(MOST_CHUNKS):
            if len(taken_back) >= MOST_AT_ONCE or next_offset is None:
                break
            index = self._ranges.chunk_from(next_offset)
            looked_at_up_to = self._ranges.chunk_last(index)
            if self._ranges.has_owner(index, owner):
                room = MOST_AT_ONCE - len(taken_back)
                taken_back += self._from_chunk(index, lost, Cause.MEMBER_LEFT, limits, now, room)
                if len(taken_back) >= MOST_AT_ONCE:
                    looked_at_up_to = taken_back[-1].last
            next_offset = self._ranges.next_from(looked_at_up_to + 1)
        if next_offset is None:
            self._members.forget(owner)
        return taken_back, None if next_offset is None else Rest(owner, next_offset)

    def left_meanwhile(self, pieces: Sequence[Piece], limits: DeliveryLimits, now: Millis) -> list[Piece]:
        """Take back those of these acquired ranges whose members have left."""
        lost = [
            self._without_member(piece, Cause.MEMBER_LEFT, limits, now)
            for piece in pieces
            if piece.delivery.state == ACQUIRED and not self._members.is_here(piece.delivery.owner)
        ]
        self._ranges.put_apart(lost)
        return lost

    def exhausted(
        self, from_offset: int, limits: DeliveryLimits, now: Millis
    ) -> tuple[list[Piece], int | None]:
        """Archive some available records that were delivered as often as the limit allows, which was lowered.

        Return them, and where to go on; None after the last chunk.
        """

        def is_exhausted(piece: Piece) -> bool:
            delivery = piece.delivery
            return delivery.state == AVAILABLE and delivery.delivery_count >= limits.delivery_count

        ranges = self._ranges
        exhausted: list[Piece] = []
        offset = ranges.next_from(from_offset)
        for _ in range(MOST_CHUNKS):
            if offset is None or len(exhausted) >= MOST_AT_ONCE:
                break
            index = ranges.chunk_from(offset)
            looked_at_up_to = ranges.chunk_last(index)
            if ranges.has_count(index, limits.delivery_count):
                room = MOST_AT_ONCE - len(exhausted)
                exhausted += self._from_chunk(index, is_exhausted, Cause.LIMIT_LOWERED, limits, now, room)
                if len(exhausted) >= MOST_AT_ONCE:
                    looked_at_up_to = exhausted[-1].last
            offset = ranges.next_from(looked_at_up_to + 1)
        return exhausted, offset

    def _from_chunk(
        self,
        index: int,
        lost: Callable[[Piece], bool],
        cause: Cause,
        limits: DeliveryLimits,
        now: Millis,
        most: int,
    ) -> list[Piece]:
        """Take back the first `most` ranges of a chunk for which `lost` is true; return those."""
        changed: list[Piece] = []
        pieces = self._ranges.chunk_pieces(index)
        first = end = 0
        for i, piece in enumerate(pieces):
            if lost(piece):
                first = i if not changed else first
                end = i + 1
                pieces[i] = self._without_member(piece, cause, limits, now)
                changed.append(pieces[i])
                if len(changed) >= most:
                    break
        if len(changed) > _MOST_ONE_BY_ONE:
            self._ranges.put(pieces[first:end])
        else:
            for piece in changed:
                self._ranges.put((piece,))
        return changed

    def _without_member(self, piece: Piece, cause: Cause, limits: DeliveryLimits, now: Millis) -> Piece:
        """Return an acquired range as its member gives it back or loses it."""
        delivery = piece.delivery
        state = state_without_member(delivery, limits)
        if state != AVAILABLE:
            member_id = self._members.id_of(delivery.owner)
            count = delivery.delivery_count
            self._rejections.note(Rejection(piece.first, piece.last, cause, member_id, now, count))
        return Piece(piece.first, piece.last, without_member(delivery, state))
