"""Find what cannot be read of a log that no server has open, and what its segments should be instead.

Every record that can be read keeps its offset. Offsets whose records are lost remain, in batches without
records. Rules:

1. A batch is sound if its checksum is right. Of the sound batches those count whose base offsets agree with
   most of the others (`pieces.py`). One between them whose place is known gets the base offset, length and
   leader epoch of that place: no checksum covers these. What is left between them is dropped.
2. Missing offsets are filled: behind the good batch before them, or at the start of the log. Gaps below
   `compacted_to` are those of compaction. Those between the segments of a log without our files may be, too.
3. At the end of a log those offsets are missing that were durable. After a clean stop so are those of a bad
   batch whose header fits. After a crash, whatever else is bad there was being written: recovery drops it.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.checkpoint import CHECKPOINT_NAME, Checkpoint
from headgate.log.damage import LogDamaged
from headgate.log.header import (
    CRC_END,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
    CorruptBatch,
    read_header,
)
from headgate.log.index import MOST_RELATIVE_OFFSET
from headgate.log.lost_markers import LostMarker, OpenTransactions
from headgate.log.pieces import Piece, chain_of, pieces_in
from headgate.log.recovery import base_offsets_in, read_whole
from headgate.log.rewriting import empty_batch, with_place
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.state_file import Bond, StateFileUnusable, open_state_file
from headgate.log.swap import COMPACTION_NAME, CompactionState, finish
from headgate.log.sync_mark import SYNC_MARK_NAME, SyncMark, load_sync_mark
from headgate.log.walking import is_whole_batch, walk_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem

_MOST_MISSING: Final = 1 << 36
"""Offsets between two segments: a name that says more is no segment's."""
_ALL_BITS: Final = (1 << 64) - 1
_MOST_ALIKE: Final = 8
"""Batches in a row that may have the same bit wrong."""
_LARGEST_MARKER_BYTES: Final = 1 << 10
_NO_MARKERS: Final[Mapping[int, LostMarker]] = {}


@dataclass(slots=True, frozen=True)
class Loss:
    """A place where something of a log is dropped or missing."""

    file: str
    """The name of a segment: if nothing is dropped, of the one that got the empty batch."""
    position: int
    dropped_bytes: int
    first_offset: int
    end_offset: int
    """The records from `first_offset` to `end_offset - 1` are lost: none, if they are equal."""
    what: str
    transactions: str = ""
    """What is decided about transactions that ended there, or may have."""


@dataclass(slots=True, frozen=True)
class Copied:
    """Good batches of a segment, from one position to another."""

    start: int
    end: int


@dataclass(slots=True)
class MendedSegment:
    """A segment as it should be."""

    base_offset: int
    source: int | None
    """Base offset of the segment that the copies are from; None: it has none."""
    parts: list[Copied | bytes] = field(default_factory=list)
    """Copies, and new batches."""
    is_changed: bool = False


@dataclass(slots=True)
class Losses:
    """All of one log's, and what is to be made of its files."""

    places: list[Loss]
    segments: list[MendedSegment]
    checkpoint: Checkpoint | None
    """The checkpoint, if it must be replaced."""
    mark: SyncMark
    bond: Bond | None
    """The bond of `shard.checkpoint`, if an empty batch is now where it ends."""
    compacted_to: int


@dataclass(slots=True, frozen=True)
class KnownLog:
    """What is known of a log from other files than its own."""

    starts: Sequence[tuple[int, int]] = ()
    """Epochs with their first offsets, in order."""
    newest: int | None = None
    end_offset: int = 0
    """An end that the log had at some time."""
    transactions_to: int = 0
    """The .txnindex files have all aborted transactions that ended below this offset."""

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of an offset; None: it is not known."""
        return max((epoch for epoch, first in self.starts if first <= offset), default=None)

    def is_right(self, epoch: int, offset: int) -> bool:
        """Return whether a batch at an offset may have an epoch."""
        known = self.epoch_of(offset)
        if self.newest is not None and epoch > self.newest:
            return False
        return known is None or epoch == known or epoch > self.starts[-1][0]


def find_losses(
    files: FileSystem,
    directory: Path,
    *,
    clean: bool,
    known: KnownLog,
    on_progress: Callable[[int], None] = lambda size: None,
) -> Losses:
    """Read a whole log. `on_progress` is called with numbers of bytes as they are read.

    Finishes a compaction that was decided, and changes nothing else. Raises OSError; LogDamaged for a small
    file that cannot be read.
    """
    return _Search(files, directory, known, clean=clean).run(on_progress)


class _Search:
    def __init__(self, files: FileSystem, directory: Path, known: KnownLog, *, clean: bool) -> None:
        read_whole(files, directory, COMPACTION_NAME, CompactionState.from_bytes)
        self._checkpoint, self._why_no_checkpoint = _checkpoint_of(files, directory)
        self._files = files
        self._directory = directory
        self._clean = clean
        self._known = known
        self._compacted_to = finish(files, directory)
        self._mark = load_sync_mark(files, directory)
        self._knows_start = files.exists(directory / CHECKPOINT_NAME) or self._mark != SyncMark()
        self._durable_end = max(self._mark.end_offset, self._checkpoint.recovery_point)
        if clean:
            self._durable_end = max(self._durable_end, known.end_offset)
        self._bond = _bond_of(files, directory)
        self._places: list[Loss] = []
        self._segments: list[MendedSegment] = []
        self._expected = 0
        self._last: BatchHeader | None = None
        """The header before `_expected`."""
        self._ends: dict[int, BatchHeader] = {}
        """Batches by their ends, where the mark and the bond have theirs."""
        self._watched = {self._mark.end_offset, self._bond.end_offset if self._bond is not None else 0}
        self._start = 0
        """Start of the log."""
        self._claimed: list[tuple[int, int]] = []
        """The offsets of the trusted stretches of a segment, from and up to."""
        self._filled: set[int] = set()
        """Ends of empty batches."""
        self._transactions = OpenTransactions(files, directory, known.transactions_to)

    def run(self, on_progress: Callable[[int], None]) -> Losses:
        start = max(self._checkpoint.log_start_offset, self._mark.start_offset)
        bases = base_offsets_in(self._files, self._directory, start)
        why = self._why_no_checkpoint
        if why is not None and bases:
            start = max(start, bases[0])
        elif start > self._checkpoint.log_start_offset:
            why = "it is missing, or an old one"
        if why is not None:
            what = f"{why}: the log starts at {start}, and records that were deleted may appear again"
            self._places.append(Loss(CHECKPOINT_NAME, 0, 0, start, start, what))
        self._start = start
        self._expected = bases[0] if bases and (bases[0] < start or not self._knows_start) else start
        segments = sorted((self._start_of(one), one) for one in bases)
        for at, (first, base_offset) in enumerate(segments):
            following = segments[at + 1][0] if at + 1 < len(segments) else None
            on_progress(self._read_segment(base_offset, first, following))
        if self._expected < self._durable_end:
            self._lose(self._place(), self._durable_end, "the end of the log is missing")
        if self._mark == SyncMark() and self._files.exists(self._directory / SYNC_MARK_NAME):
            end = self._expected
            self._places.append(Loss(SYNC_MARK_NAME, 0, 0, end, end, "it cannot be read, and is not needed"))
        checkpoint = replace(self._checkpoint, log_start_offset=start, log=self._directory.name)
        return Losses(
            places=self._places,
            segments=self._segments,
            checkpoint=checkpoint if why is not None else None,
            mark=self._mended_mark(),
            bond=self._mended_bond(),
            compacted_to=self._compacted_to,
        )

    # Segments.

    def _start_of(self, base_offset: int) -> int:
        """Return where a segment begins: as its name says, unless its first two batches agree against it."""
        file = self._files.open(self._directory / _name(base_offset))
        try:
            size = file.size()
            if not is_whole_batch(file.pread, 0, size, 0):
                return base_offset
            header = read_header(file.pread(HEADER_BYTES, 0))
            if header.size < size and is_whole_batch(file.pread, header.size, size, header.next_offset):
                second = read_header(file.pread(HEADER_BYTES, header.size))
                agrees = second.base_offset == header.next_offset
            else:
                agrees = header.size == size
            agrees &= not _is_one_bit(header.base_offset, base_offset)
            is_lower = header.base_offset < base_offset
            is_compacted = header.base_offset <= self._compacted_to
            return header.base_offset if agrees and (is_lower or not is_compacted) else base_offset
        finally:
            file.close()

    def _read_segment(self, base_offset: int, start: int, following: int | None) -> int:
        """Read one segment that begins at an offset; return its size."""
        if start > self._expected and start > self._compacted_to:
            if start - self._expected > _MOST_MISSING:
                raise LogDamaged(
                    errno.EIO,
                    f"this segment begins at {start}, and {self._expected} is expected: it cannot be one of "
                    "this log; move it away",
                    str(self._directory / _name(base_offset)),
                )
            self._lose(self._place(), start, "no segment has these offsets")
        self._expected = max(self._expected, start)
        if self._expected != base_offset:
            end = self._expected
            what = f"its name is wrong: it begins at {end}"
            self._places.append(Loss(_name(base_offset), 0, 0, end, end, what))
        segment = MendedSegment(self._expected, base_offset, is_changed=self._expected != base_offset)
        self._segments.append(segment)
        file = self._files.open(self._directory / _name(base_offset))
        try:
            size = file.size()
            if self._is_in_order(file, size, following):
                for at, header, batch in walk_batches(file, 0, size):
                    self._keep(at, header, batch)
            else:
                self._read_damaged(file, size, following)
        finally:
            file.close()
        return size

    def _is_in_order(self, file: File, size: int, following: int | None) -> bool:
        """Return whether every batch of a file is good. Changes nothing."""
        expected = self._expected
        most = self._segments[-1].base_offset + MOST_RELATIVE_OFFSET + 1
        most = most if following is None else min(most, following)
        try:
            for _, header, batch in walk_batches(file, 0, size):
                is_gap = header.base_offset > max(expected, self._compacted_to)
                if header.magic != MAGIC or header.last_offset_delta < 0 or is_gap:
                    return False
                if header.base_offset < expected or header.next_offset > most:
                    return False
                if not self._known.is_right(header.leader_epoch, header.base_offset):
                    return False
                if crc32c(batch[CRC_END:]) != header.crc:
                    return False
                expected = header.next_offset
        except CorruptBatch:
            return False
        return True

    def _read_damaged(self, file: File, size: int, following: int | None) -> None:
        pieces = pieces_in(file, size, self._expected)
        trusted = self._trusted(pieces, following)
        placed = set(trusted)
        self._claimed = [(pieces[one].base_offset, pieces[one].next_offset) for one in trusted]
        if trusted != sorted(trusted):
            place = self._place(file, 0, 0)
            what = "batches are not in the order of their offsets, and are put into it"
            self._places.append(
                replace(place, first_offset=self._expected, end_offset=self._expected, what=what)
            )
            self._segments[-1].is_changed = True
        before = -1
        for number in trusted:
            run = [pieces[one] for one in range(before + 1, number) if one not in placed]
            self._settle_run(file, run, pieces[number].base_offset, pieces[number].header)
            self._take(file, pieces[number], pieces[number].base_offset)
            before = max(before, number)
        run = [pieces[one] for one in range(before + 1, len(pieces)) if one not in placed]
        self._settle_end(file, run, size, following)

    def _trusted(self, pieces: Sequence[Piece], following: int | None) -> list[int]:
        """Return the numbers of the stretches whose base offsets are trusted, in the order of these."""
        most = self._segments[-1].base_offset + MOST_RELATIVE_OFFSET + 1
        limit = most if following is None else min(most, following)
        # The mark may be older than the log's end: a disk that is full refuses a newer one.
        likely_end = self._durable_end if following is None else following
        chain = chain_of(pieces, self._expected, limit, likely_end)
        if following is None:
            chain = self._without_leaps(pieces, chain)
        # One that fits between two others is at its place, wherever it is in the file.
        trusted = set(chain)
        bases = [pieces[number].base_offset for number in chain]
        for number, one in enumerate(pieces):
            if not one.is_sound or number in trusted:
                continue
            after = bisect_right(bases, one.base_offset)
            if after == len(chain):
                continue
            least = pieces[chain[after - 1]].next_offset if after else self._expected
            if least <= one.base_offset and one.next_offset <= bases[after]:
                chain.insert(after, number)
                bases.insert(after, one.base_offset)
        return chain

    def _without_leaps(self, pieces: Sequence[Piece], chain: list[int]) -> list[int]:
        """Return a chain without what is behind the durable end and misses more offsets than bytes."""
        end = self._expected
        position = 0
        for at, number in enumerate(chain):
            one = pieces[number]
            is_gap = one.base_offset > max(end, self._compacted_to) and one.next_offset > self._durable_end
            if is_gap and one.base_offset - end > one.start - position:
                return chain[:at]
            end, position = one.next_offset, one.end
        return chain

    def _settle_run(
        self, file: File, run: Sequence[Piece], target: int, next_one: BatchHeader | None = None
    ) -> None:
        """Settle the pieces before an offset, whose base offsets are not trusted."""
        if not run:
            if target > max(self._expected, self._compacted_to):
                self._lose(self._place(), target, "no batch has these offsets")
            return
        gap = target - self._expected
        is_whole = all(one.is_sound for one in run)
        if is_whole and sum(one.offsets for one in run) != gap:
            self._drop(file, run, target, next_one)
            return
        if not is_whole and target <= self._compacted_to:
            self._lose_pieces(file, run, target, next_one)
            return
        left = list(run)
        while left and self._expected + left[0].offsets <= target:
            if not self._may_be_at(left[0], self._expected):
                break
            self._take(file, left.pop(0), self._expected)
        behind: list[Piece] = []
        end = target
        while left and end - left[-1].offsets >= self._expected:
            if not self._may_be_at(left[-1], end - left[-1].offsets):
                break
            behind.append(left.pop())
            end -= behind[-1].offsets
        if left or end > self._expected:
            self._lose_pieces(file, left, end, next_one)
        for one in reversed(behind):
            self._take(file, one, self._expected)

    def _may_be_at(self, piece: Piece, offset: int) -> bool:
        """Return whether a stretch may be that of an offset: one bit of its base offset may be wrong.

        Of several batches it may be the same bit, if they are no copy of others.
        """
        if not piece.is_sound or piece.batches > _MOST_ALIKE:
            return False
        if piece.base_offset == offset or not _is_one_bit(piece.base_offset, offset):
            return piece.base_offset == offset
        first, end = piece.base_offset, piece.next_offset
        return piece.batches == 1 or not any(one < end and first < other for one, other in self._claimed)

    def _settle_end(self, file: File, run: Sequence[Piece], size: int, following: int | None) -> None:
        """Settle the pieces behind the last trusted stretch of a segment."""
        if following is not None:
            if run:
                self._settle_run(file, run, following)
            return
        if not run:
            return
        end = max(self._durable_end, self._expected)
        if end == self._expected:
            if not self._clean:
                return  # it was being written: recovery drops it
            end = self._stated_next_offset(file, run[0].start, size)
        self._settle_run(file, run, end)

    def _stated_next_offset(self, file: File, position: int, size: int) -> int:
        """Return the end offset of the bad batch at the end of a log, if its header fits; else its first."""
        if _stated_end(file, position) == size:
            header = read_header(file.pread(HEADER_BYTES, position))
            if header.base_offset == self._expected and header.record_count == header.last_offset_delta + 1:
                return header.next_offset
        return self._expected

    # What is kept, and what is lost.

    def _take(self, file: File, piece: Piece, offset: int) -> None:
        """Keep a stretch at an offset; correct what no checksum covers."""
        header = piece.header
        assert header is not None
        is_placed = header.base_offset == offset and header.magic == MAGIC
        is_right = self._known.is_right(header.leader_epoch, offset)
        is_long = piece.batches > 1 or header.size == piece.end - piece.start
        if is_placed and is_right and is_long:
            for at, one, batch in walk_batches(file, piece.start, piece.end):
                self._keep(at, one, batch)
            return
        what = "a header is wrong where no checksum covers it, and is restored"
        place = self._place(file, piece.start, piece.end)
        if piece.batches > 1:
            moved = offset - piece.base_offset
            for _, one, batch in walk_batches(file, piece.start, piece.end):
                self._correct(place, what, bytes(batch), one.base_offset + moved, one.leader_epoch)
            return
        batch_bytes = file.pread(piece.end - piece.start, piece.start)
        self._correct(place, what, batch_bytes, offset, header.leader_epoch)

    def _correct(self, place: Loss, what: str, batch: bytes, offset: int, epoch: int) -> None:
        if not self._known.is_right(epoch, offset):
            known = self._known.epoch_of(offset)
            epoch = known if known is not None else self._last.leader_epoch if self._last is not None else 0
        restored = with_place(batch, offset, epoch)
        self._transactions.take(read_header(restored), restored)
        self._restore(place, what, restored)

    def _drop(self, file: File, run: Sequence[Piece], target: int, next_one: BatchHeader | None) -> None:
        place = self._place(file, run[0].start, run[-1].end)
        self._lose(place, target, "the offsets of the batch are not those expected here", next_one)

    def _lose_pieces(
        self, file: File, run: Sequence[Piece], target: int, next_one: BatchHeader | None
    ) -> None:
        """Lose pieces one by one, as long as their headers agree with their places; the others together."""
        for number, one in enumerate(run):
            header = one.header
            fits = (
                header is not None
                and header.base_offset == self._expected
                and header.base_offset < header.next_offset <= target
            )
            if header is None or not fits or (number == len(run) - 1 and header.next_offset < target):
                place = self._place(file, one.start, run[-1].end)
                self._lose_or_restore(file, one, place, target, next_one, is_alone=number == len(run) - 1)
                return
            place = self._place(file, one.start, one.end)
            self._lose_or_restore(file, one, place, header.next_offset, next_one, is_alone=True)
        if target > self._expected:
            self._lose(self._place(), target, "no batch has these offsets", next_one)

    def _lose_or_restore(
        self,
        file: File,
        piece: Piece,
        place: Loss,
        end_offset: int,
        next_one: BatchHeader | None,
        *,
        is_alone: bool,
    ) -> None:
        """Lose a piece, unless it is a marker that can be restored."""
        marker = None
        size = piece.end - piece.start
        if is_alone and HEADER_BYTES <= size <= _LARGEST_MARKER_BYTES:
            offset = self._expected
            if (
                end_offset <= self._compacted_to and piece.header is not None
            ):  # gaps around it are as they were
                offset = max(piece.header.base_offset, offset)
            if offset == self._expected == end_offset - 1 or offset < end_offset <= self._compacted_to:
                marker = self._transactions.marker_in(file.pread(size, piece.start), offset)
        if marker is not None and marker.is_exact:
            self._restore(place, "the marker of a transaction is wrong, and is restored", marker.batch)
            return
        markers = {read_header(marker.batch).base_offset: marker} if marker is not None else {}
        self._lose(place, end_offset, _why_bad(file, piece), next_one, markers)

    def _restore(self, place: Loss, what: str, batch: bytes) -> None:
        """Put a batch where it was."""
        first = self._expected
        self._places.append(replace(place, dropped_bytes=0, first_offset=first, end_offset=first, what=what))
        self._segments[-1].is_changed = True
        self._put(batch)

    def _put(self, batch: bytes) -> None:
        self._segments[-1].parts.append(batch)
        header = read_header(batch)
        self._filled.add(header.next_offset)
        self._pass(header)

    def _keep(self, position: int, header: BatchHeader, batch: Buffer) -> None:
        """Keep a batch as it is."""
        parts = self._segments[-1].parts
        last = parts[-1] if parts else None
        if isinstance(last, Copied) and last.end == position:
            parts[-1] = Copied(last.start, position + header.size)
        else:
            parts.append(Copied(position, position + header.size))
        self._transactions.take(header, batch)
        self._pass(header)

    def _pass(self, header: BatchHeader) -> None:
        self._last = header
        self._expected = header.next_offset
        if header.next_offset in self._watched:
            self._ends[header.next_offset] = header

    def _place(self, file: File | None = None, start: int = 0, end: int = 0) -> Loss:
        """Return the place of bytes in the segment that is read; without a file, the end of the last one."""
        if not self._segments:
            self._segments.append(MendedSegment(self._expected, None, is_changed=True))
        segment = self._segments[-1]
        name = _name(segment.base_offset if segment.source is None else segment.source)
        if file is None:
            start = end = self._files.size(self._directory / name) if segment.source is not None else 0
        return Loss(name, start, end - start, 0, 0, "")

    def _lose(
        self,
        place: Loss,
        end_offset: int,
        what: str,
        next_one: BatchHeader | None = None,
        markers: Mapping[int, LostMarker] = _NO_MARKERS,
    ) -> None:
        """Note a loss, and fill the offsets up to `end_offset` with these markers and empty batches."""
        neighbour = self._last or next_one
        if not markers:
            markers = self._transactions.ends_between(self._expected, end_offset, neighbour)
        first = min(max(self._expected, self._start), end_offset)
        transactions = self._told(markers) if end_offset > self._expected else ""
        self._places.append(
            replace(place, first_offset=first, end_offset=end_offset, what=what, transactions=transactions)
        )
        self._segments[-1].is_changed = True
        timestamp = -1 if neighbour is None else neighbour.max_timestamp
        stops = {end_offset, *self._watched, *markers, *(first for _, first in self._known.starts)}
        while self._expected < end_offset:
            if self._expected - self._segments[-1].base_offset > MOST_RELATIVE_OFFSET:
                self._segments.append(MendedSegment(self._expected, None, is_changed=True))
            if self._expected in markers:
                self._put(markers[self._expected].batch)
                continue
            last = self._segments[-1].base_offset + MOST_RELATIVE_OFFSET
            end = min(one for one in {*stops, last + 1} if one > self._expected)
            epoch = self._known.epoch_of(self._expected)
            if epoch is None:
                epoch = 0 if neighbour is None else neighbour.leader_epoch
            self._put(empty_batch(self._expected, end, epoch, timestamp))

    def _told(self, markers: Mapping[int, LostMarker]) -> str:
        """Return in words what is decided about transactions that may have ended in a lost part."""
        parts = [
            f"the transaction of producer {one.producer_id} that ended here was "
            f"{'committed' if one.is_committed else 'aborted'}"
            if one.is_known
            else f"how the transaction of producer {one.producer_id} ended is not known: it counts as aborted"
            for one in markers.values()
        ]
        if (still := self._transactions.producer_ids) and not markers:
            some = ", ".join(map(str, still[:5])) + (f" and {len(still) - 5} more" if len(still) > 5 else "")
            parts.append(f"if the transactions of producers {some} ended here, they are open again")
        return "; ".join(parts)

    def _mended_mark(self) -> SyncMark:
        """Return the mark for the mended log: it claims nothing more than the one that is there."""
        mark = self._mark
        if mark == SyncMark():
            return mark
        last = self._ends.get(mark.end_offset)
        crc = -1 if last is None else last.crc
        is_checked = mark.last_crc >= 0 and mark.end_offset > max(self._compacted_to, mark.start_offset)
        if is_checked and crc != mark.last_crc and mark.end_offset not in self._filled:
            what = f"another batch ends at {mark.end_offset} than what the disk had; it is kept"
            name = _name(self._segments[-1].source or self._segments[-1].base_offset)
            self._places.append(Loss(name, 0, 0, mark.end_offset, mark.end_offset, what))
        crc = crc if mark.last_crc >= 0 else -1
        there = [one for one in self._segments if one.parts or not one.is_changed]
        before = [one for one in there if one.base_offset <= mark.base_offset]
        if not before or (before[-1].base_offset == mark.base_offset and not before[-1].is_changed):
            return replace(mark, last_crc=crc)
        return replace(mark, base_offset=before[-1].base_offset, position=0, last_crc=crc)

    def _mended_bond(self) -> Bond | None:
        bond = self._bond
        if bond is None or bond.end_offset not in self._filled:
            return None
        last = self._ends[bond.end_offset]
        return replace(bond, last_batch=(last.base_offset, last.size, last.crc))


def _name(base_offset: int) -> str:
    return f"{base_offset:020d}{LOG_SUFFIX}"


def _checkpoint_of(files: FileSystem, directory: Path) -> tuple[Checkpoint, str | None]:
    """Return the checkpoint, and why it is another one than that in the file."""
    try:
        saved = read_whole(files, directory, CHECKPOINT_NAME, Checkpoint.from_bytes) or Checkpoint()
    except LogDamaged:
        return Checkpoint(), "it cannot be read"
    if saved.log not in ("", directory.name):
        return Checkpoint(), f"it is that of {saved.log}"
    return saved, None


def _bond_of(files: FileSystem, directory: Path) -> Bond | None:
    try:
        found = open_state_file(files, directory)
    except StateFileUnusable:
        return None
    if found is None:
        return None
    found.close()
    return found.bond


def _stated_end(file: File, position: int) -> int | None:
    """Return where the bad batch at a position ends by its own length; None if it has no such field."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return None
    size = read_header(head).size
    return position + size if size >= HEADER_BYTES else None


def _is_one_bit(one: int, other: int) -> bool:
    return ((one ^ other) & _ALL_BITS).bit_count() == 1


def _why_bad(file: File, piece: Piece) -> str:
    """Return why a piece is no good batch."""
    if piece.header is None or piece.header.magic != MAGIC:
        return "no batch begins here"
    if _stated_end(file, piece.start) != piece.end:
        return "a batch is cut off here, or its length is wrong"
    if not piece.is_sound:
        return "the checksum of the batch is wrong"
    return "the offsets of the batch are not those expected here"
