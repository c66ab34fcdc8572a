"""Records that no member gets: the log has them no longer, or they are markers and aborted transactions.

They are archived when a read shows it. All functions change the window at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.core.share.partition.acknowledging import without_member
from headgate.core.share.partition.model import FetchedRecords
from headgate.core.share.partition.ranges import ARCHIVED, AVAILABLE, Delivery, Piece, Ranges

MOST_SKIPPED: Final = 100
"""Ranges that one call archives because the log no longer has them; a fetch reads again some times."""


def skip_hole(ranges: Ranges, fetched: FetchedRecords) -> bool:
    """Archive what the log no longer has before the first batch it returned (F14); some of it in each call.

    Return whether that is all.
    """
    first, end = fetched.fetch_offset, fetched.first_offset
    for _ in range(MOST_SKIPPED):
        piece = ranges.find(AVAILABLE, first, end - 1)
        if piece is None:
            break
        ranges.put((Piece(piece.first, piece.last, without_member(piece.delivery, ARCHIVED)),))
        first = piece.last + 1
    if ranges.find(AVAILABLE, first, end - 1) is not None:
        return False
    if ranges.end < end:
        ranges.extend(end - 1, Delivery(ARCHIVED))
    return True


def without_undeliverable(
    ranges: Ranges, taken: Sequence[Piece], undeliverable: Sequence[tuple[int, int]]
) -> list[Piece]:
    """Archive what no member gets of acquired ranges (F16), and return the rest. Both ascend."""
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
    ranges.put_apart(changed)
    return kept
