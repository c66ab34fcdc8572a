"""Settle the pieces of one segment: keep what counts, restore what no checksum covers, lose the rest.

A batch that does not count is restored if, by its position in the file, it is between two that count, and if
one of the free offsets there differs from its base offset in one bit. It never goes to another place. A copy
of a batch that counts is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.log.header import HEADER_BYTES, MAGIC, BatchHeader, read_header
from headgate.log.rewriting import with_place
from headgate.log.walking import walk_batches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headgate.log.choosing import SegmentPieces
    from headgate.log.filesystem import File
    from headgate.log.filling import Filling, Loss
    from headgate.log.pieces import Piece

_MOST_ALIKE: Final = 8
"""Batches in a row that may have the same bit wrong."""
_LARGEST_MARKER_BYTES: Final = 1 << 10
_RESTORED: Final = "a header is wrong where no checksum covers it, and is restored"
_DISPLACED: Final = "batches are not in the order of their offsets, and are put into it"


class Settlement:
    """One segment, of which the batches that count are chosen."""

    def __init__(
        self,
        filling: Filling,
        file: File,
        segment: SegmentPieces,
        compacted_to: int,
        originals: Collection[tuple[int, int]],
    ) -> None:
        """`originals`: base offset and checksum of the batches of the log that count, as far as batches that
        do not count say the same of themselves: these are copies, and go nowhere.
        """
        self._filling = filling
        self._file = file
        self._segment = segment
        self._compacted_to = compacted_to
        self._originals = originals
        self._spans = [(one.base_offset, one.next_offset) for one in segment.trusted]

    def run(self) -> list[Piece]:
        """Settle all but the pieces behind the last one that counts; return these."""
        pieces, chosen = self._segment.pieces, self._segment.chosen
        filling = self._filling
        placed = set(chosen)
        if chosen != sorted(chosen):
            filling.note(filling.place_of(0, 0).file, filling.expected, _DISPLACED)
            filling.segments[-1].is_changed = True
        before = -1
        for number in chosen:
            run = [pieces[one] for one in range(before + 1, number) if one not in placed]
            self.settle(run, pieces[number].base_offset, pieces[number].header)
            self._take(pieces[number], pieces[number].base_offset)
            before = max(before, number)
        return [pieces[one] for one in range(before + 1, len(pieces)) if one not in placed]

    def settle(self, run: Sequence[Piece], target: int, next_one: BatchHeader | None = None) -> None:
        """Settle the pieces before an offset, none of which count."""
        filling = self._filling
        if not run:
            if target > max(filling.expected, self._compacted_to):
                filling.lose(filling.place_at_end(), target, "no batch has these offsets", next_one)
            return
        has_gaps = target <= self._compacted_to
        is_whole = all(one.is_sound for one in run)
        if is_whole and not has_gaps and sum(one.offsets for one in run) != target - filling.expected:
            place = filling.place_of(run[0].start, run[-1].end)
            filling.lose(place, target, "the offsets of the batch are not those expected here", next_one)
            return
        left = list(run)
        while left:
            last = target - sum(one.offsets for one in left) if has_gaps else filling.expected
            offset = self._place_in(left[0], filling.expected, last, target)
            if offset is None:
                break
            self._take(left.pop(0), offset)
        behind: list[tuple[Piece, int]] = []
        end = target
        while left:
            last = end - left[-1].offsets
            offset = self._place_in(left[-1], filling.expected if has_gaps else last, last, end)
            if offset is None:
                break
            behind.append((left.pop(), offset))
            end = offset
        if left or (end > filling.expected and not has_gaps):
            self._lose_pieces(left, end, next_one)
        for one, offset in reversed(behind):
            self._take(one, offset)

    def _place_in(self, piece: Piece, first: int, last: int, end: int) -> int | None:
        """Return the offset from `first` to `last` that is that of a stretch; None if none is, or several.

        One bit of its base offset may be wrong. Of several batches it may be the same bit, if others of the
        segment count. The place ends before the offset `end`.
        """
        header = piece.header
        last = min(last, end - piece.offsets)
        if header is None or not piece.is_sound or last < max(first, self._filling.expected):
            return None
        stated = header.base_offset
        if (stated, header.crc) in self._originals:
            return None  # a copy
        if first <= stated <= last:
            return stated
        name = self._filling.segments[-1].base_offset
        if piece.batches == 1 and piece.start == 0 and name + piece.offsets == end and first <= name <= last:
            return name if _is_one_byte(stated, name) else None
        if piece.batches > 1 and (
            piece.batches > _MOST_ALIKE
            or not self._spans
            or any(stated < until and since < piece.next_offset for since, until in self._spans)
        ):
            return None
        found = [one for bit in range(63) if first <= (one := stated ^ (1 << bit)) <= last]
        found += [one for one in (stated + (1 << 63),) if first <= one <= last]
        if len(found) > 1 and header.is_control:
            # Rather somewhere in the gap than lost: only a .txnindex file has the offset of a marker.
            aborted = self._filling.transactions.is_aborted
            return min(found, key=lambda one: (not aborted(header.producer_id, one), one))
        return found[0] if len(found) == 1 else None

    # What is kept, and what is lost.

    def _take(self, piece: Piece, offset: int) -> None:
        """Keep a stretch at an offset; correct what no checksum covers."""
        header = piece.header
        assert header is not None
        filling = self._filling
        filling.pass_gap(offset)
        is_placed = header.base_offset == offset and header.magic == MAGIC
        is_right = filling.known.is_right(header.leader_epoch, offset)
        is_long = piece.batches > 1 or header.size == piece.end - piece.start
        if is_placed and is_right and is_long:
            for at, one, batch in walk_batches(self._file, piece.start, piece.end):
                filling.keep(at, one, batch)
            return
        place = filling.place_of(piece.start, piece.end)
        if piece.batches > 1:
            moved = offset - piece.base_offset
            for _, one, batch in walk_batches(self._file, piece.start, piece.end):
                self._correct(place, bytes(batch), one.base_offset + moved, one.leader_epoch)
            return
        batch_bytes = self._file.pread(piece.end - piece.start, piece.start)
        self._correct(place, batch_bytes, offset, header.leader_epoch)

    def _correct(self, place: Loss, batch: bytes, offset: int, epoch: int) -> None:
        filling = self._filling
        if not filling.known.is_right(epoch, offset):
            known = filling.known.epoch_of(offset)
            epoch = (
                known if known is not None else filling.last.leader_epoch if filling.last is not None else 0
            )
        restored = with_place(batch, offset, epoch)
        filling.transactions.take(read_header(restored), restored)
        filling.restore(place, _RESTORED, restored)

    def _lose_pieces(self, run: Sequence[Piece], target: int, next_one: BatchHeader | None) -> None:
        """Lose pieces one by one, as long as their headers agree with their places; the others together."""
        filling = self._filling
        for number, one in enumerate(run):
            header = one.header
            is_last = number == len(run) - 1
            fits = (
                header is not None
                and header.base_offset == filling.expected
                and header.base_offset < header.next_offset <= target
            )
            if header is None or not fits or (is_last and header.next_offset < target):
                place = filling.place_of(one.start, run[-1].end)
                self._lose_or_restore(one, place, target, next_one, is_alone=is_last)
                return
            place = filling.place_of(one.start, one.end)
            self._lose_or_restore(one, place, header.next_offset, next_one, is_alone=True)
        if target > filling.expected:
            filling.lose(filling.place_at_end(), target, "no batch has these offsets", next_one)

    def _lose_or_restore(
        self, piece: Piece, place: Loss, end_offset: int, next_one: BatchHeader | None, *, is_alone: bool
    ) -> None:
        """Lose a piece, unless it is a marker that can be restored."""
        filling = self._filling
        marker = None
        size = piece.end - piece.start
        if is_alone and HEADER_BYTES <= size <= _LARGEST_MARKER_BYTES:
            offset = filling.expected
            if end_offset <= self._compacted_to and piece.header is not None:
                offset = max(piece.header.base_offset, offset)  # gaps around it are as they were
            if offset == filling.expected == end_offset - 1 or offset < end_offset <= self._compacted_to:
                marker = filling.transactions.marker_in(self._file.pread(size, piece.start), offset)
        if marker is not None and marker.is_exact:
            filling.restore(place, "the marker of a transaction is wrong, and is restored", marker.batch)
            return
        markers = {read_header(marker.batch).base_offset: marker} if marker is not None else {}
        filling.lose(place, end_offset, _why_bad(self._file, piece), next_one, markers)


def stated_end(file: File, position: int) -> int | None:
    """Return where the bad batch at a position ends by its own length; None if it has no such field."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return None
    size = read_header(head).size
    return position + size if size >= HEADER_BYTES else None


def _is_one_byte(one: int, other: int) -> bool:
    """Return whether two base offsets differ in one byte."""
    pairs = zip(one.to_bytes(8, "big", signed=True), other.to_bytes(8, "big", signed=True), strict=True)
    return sum(a != b for a, b in pairs) <= 1


def _why_bad(file: File, piece: Piece) -> str:
    """Return why a piece is no good batch."""
    if piece.header is None or piece.header.magic != MAGIC:
        return "no batch begins here"
    if stated_end(file, piece.start) != piece.end:
        return "a batch is cut off here, or its length is wrong"
    if not piece.is_sound:
        return "the checksum of the batch is wrong"
    return "the offsets of the batch are not those expected here"
