"""Release and archival of ranges of a share-partition by an administrator, in steps."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from headgate.api.contract import RequestSteps
from headgate.core.share.deliveries import (
    MOST_RANGES,
    Alteration,
    AlterationResult,
    AlteredRange,
    OffsetRange,
)
from headgate.core.share.partition.administering import archived, released
from headgate.core.share.partition.model import StateChange
from headgate.core.share.partition.ranges import ACQUIRED, ARCHIVING, PENDING, Piece
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.records.share_batches import DeliveryState
from headgate.server.shares.partition import SharedPartition
from headgate.server.shares.surroundings import Surroundings

_AT_ONCE: Final = 100
"""Ranges that one step changes."""
_BELOW: Final = "below the start offset: its delivery is complete"
_BEYOND: Final = "it was never delivered"


class Alterations:
    """One request that releases or archives."""

    def __init__(
        self, node: Surroundings, shared: SharedPartition, alteration: Alteration, *, is_dry_run: bool
    ) -> None:
        self._node = node
        self._shared = shared
        self._alteration = alteration
        self._is_dry_run = is_dry_run
        self._found: list[AlteredRange] = []
        self._writes: list[Future[ErrorCode]] = []

    def run(self, ranges: Sequence[OffsetRange]) -> RequestSteps[AlterationResult]:
        """Return what happened to each range, or would happen, when that is durable."""
        next_offset = -1
        for first, last in ranges:
            offset = first
            while offset <= last and next_offset < 0:
                machine = self._shared.machine
                if self._shared.error or machine is None:
                    return AlterationResult(error=self._shared.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
                offset = self._some(machine, offset, last)
                yield None
                if len(self._found) >= MOST_RANGES:
                    next_offset = offset
        error = yield from self._durable()
        return AlterationResult(error=error, ranges=self._found, next_offset=next_offset)

    def _durable(self) -> RequestSteps[ErrorCode]:
        """Wait for all writes; return the first error."""
        first_error = ErrorCode.NONE
        for write in self._writes:
            yield write
            first_error = first_error or write.result()
        return first_error

    def _some(self, machine: SharePartition, first: int, last: int) -> int:
        """Alter some ranges; return the offset after them."""
        if first < machine.start_offset:
            end = min(last, machine.start_offset - 1)
            self._found.append(AlteredRange(first, end, None, 0, None, _BELOW))
            return end + 1
        pieces = machine.pieces(first, last, _AT_ONCE)
        if not pieces:
            self._found.append(AlteredRange(first, last, None, 0, None, _BEYOND))
            return last + 1
        alter = released if self._alteration == Alteration.RELEASE else archived
        after = {piece.first: piece.delivery.state for piece in alter(pieces, machine.limits)}
        self._found += [self._row(piece, after.get(piece.first)) for piece in pieces]
        if not self._is_dry_run:
            self._change(machine, pieces)
        return pieces[-1].last + 1

    def _change(self, machine: SharePartition, pieces: Sequence[Piece]) -> None:
        now = self._node.steady_time()
        change: StateChange | None
        if self._alteration == Alteration.RELEASE:
            change = machine.release_range(pieces, now)
        else:
            change = machine.archive_range(pieces, now)
        if change is not None:
            done: Future[ErrorCode] = Future()
            self._writes.append(done)
            self._shared.persist(change, done.set_result)
            self._shared.wake()

    def _row(self, piece: Piece, after: int | None) -> AlteredRange:
        state, count = piece.delivery.state, piece.delivery.delivery_count
        before = DeliveryState(state & ~PENDING)
        if after is not None:
            return AlteredRange(piece.first, piece.last, before, count, DeliveryState(after))
        return AlteredRange(piece.first, piece.last, before, count, None, self._why_not(state))

    def _why_not(self, state: int) -> str:
        if state & PENDING:
            return "an acknowledgement of it is being written"
        if self._alteration == Alteration.RELEASE and state != ACQUIRED:
            return "no member has it"
        return "it waits for its dead letter" if state == ARCHIVING else "its delivery is complete"
