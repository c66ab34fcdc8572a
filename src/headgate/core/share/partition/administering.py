"""What an administrator does with ranges of a window: releases, archives and opens them again.

All functions change the window at once and return what changed. Records with a pending change are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from headgate.core.share.partition.acknowledging import rejected_state, state_without_member, without_member
from headgate.core.share.partition.model import DeliveryLimits
from headgate.core.share.partition.ranges import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    PENDING,
    Delivery,
    Piece,
    Ranges,
)

_REOPENING: Final = Delivery(AVAILABLE | PENDING)


def released(pieces: Sequence[Piece], limits: DeliveryLimits) -> list[Piece]:
    """Return what becomes of the pieces that members have, if these release them."""
    return [
        piece._replace(delivery=without_member(piece.delivery, state_without_member(piece.delivery, limits)))
        for piece in pieces
        if piece.delivery.state == ACQUIRED
    ]


def archived(pieces: Sequence[Piece], limits: DeliveryLimits) -> list[Piece]:
    """Return what becomes of the pieces that are or may be delivered, if they are not delivered any more."""
    return [
        piece._replace(delivery=without_member(piece.delivery, rejected_state(limits)))
        for piece in pieces
        if piece.delivery.state in (AVAILABLE, ACQUIRED)
    ]


def some_pieces(ranges: Ranges, first: int, last: int, most: int) -> list[Piece]:
    """Return the first `most` ranges between two offsets."""
    return list(islice(ranges.pieces(first, last), most))


def reopen(ranges: Ranges, offsets: Sequence[tuple[int, int]]) -> None:
    """Open complete ranges again, in ascending order; nobody gets them before `reopened`.

    Below the window, the offsets between them and the window are acknowledged.
    """
    first = offsets[0][0]
    if first < ranges.start:
        ranges.prepend(first, Delivery(ACKNOWLEDGED))
    for begin, end in offsets:
        ranges.put((Piece(begin, end, _REOPENING),))


def reopened(ranges: Ranges, offsets: Sequence[tuple[int, int]], *, is_durable: bool) -> None:
    """Make the ranges that were opened again available; archive them again if that could not be persisted."""
    state = AVAILABLE if is_durable else ARCHIVED
    for begin, end in offsets:
        for piece in list(ranges.pieces(begin, end)):
            if piece.delivery == _REOPENING:
                ranges.put((piece._replace(delivery=Delivery(state)),))
    ranges.drop_complete()
