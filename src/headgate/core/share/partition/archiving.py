"""The records whose delivery ended and that wait for their dead letters (KIP-1191)."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.share.partition.acknowledging import without_member
from headgate.core.share.partition.ranges import ARCHIVED, ARCHIVING, Piece, Ranges
from headgate.records.share_batches import StateBatch


class Archiving:
    """Finds the records that wait for their dead letters."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._from: int | None = None
        """No record below it waits for its dead letter; None: no record does."""

    @property
    def may_have_some(self) -> bool:
        """Return whether records may wait for their dead letters."""
        return self._from is not None

    def loaded(self) -> None:
        """Note that some records wait, anywhere in the window."""
        self._from = self._ranges.start

    def look_at(self, batches: Sequence[StateBatch]) -> None:
        """Note the first of these changed ranges that waits for its dead letter."""
        for batch in batches:
            if batch.delivery_state == ARCHIVING:
                self._from = batch.first_offset if self._from is None else min(self._from, batch.first_offset)
                return

    def due(
        self, most_records: int, from_offset: int, most_ranges: int, *, is_all_durable: bool
    ) -> list[Piece]:
        """Return the first ranges from an offset on that wait for their dead letters, and no more records.

        Rejections that are not durable yet are not among them; `is_all_durable`: there are none.
        """
        found: list[Piece] = []
        offset = max(from_offset, self._from or 0)
        while self._from is not None and most_records > 0 and len(found) < most_ranges:
            piece = self._ranges.find(ARCHIVING, offset, self._ranges.end)
            if piece is None:
                if not found and is_all_durable and offset <= self._from:
                    self._from = None
                break
            piece = piece._replace(last=min(piece.last, piece.first + most_records - 1))
            found.append(piece)
            most_records -= piece.last - piece.first + 1
            offset = piece.last + 1
        return found

    def archive(self, first_offset: int, last_offset: int) -> list[Piece]:
        """Archive those of these records that were waiting; return the ranges that changed."""
        copied = [
            piece._replace(delivery=without_member(piece.delivery, ARCHIVED))
            for piece in self._ranges.pieces(first_offset, last_offset)
            if piece.delivery.state == ARCHIVING
        ]
        self._ranges.put_apart(copied)
        return copied
