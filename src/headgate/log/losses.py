"""Find what cannot be read of a log that no server has open, and what its segments should be instead.

Every record that can be read keeps its offset. Offsets whose records are lost remain, in batches without
records. Rules:

1. A batch is good if it is whole, its checksum is right, and its offsets follow those before it. What is
   between two good batches is dropped. A bad one ends where its length says, if a good one begins there, and
   else where the next good one does. If only its base offset, its length or its leader epoch is wrong, which
   no checksum covers, it gets the right one.
2. Missing offsets are filled: behind the good batch before them, or at the start of the log. Gaps below
   `compacted_to` are those of compaction. Those between the segments of a log without our files may be, too.
3. At the end of a log those offsets are missing that were durable. After a clean stop so are those of a bad
   batch whose header fits. After a crash, whatever else is bad there was being written: recovery drops it.
"""

from __future__ import annotations

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
from headgate.log.recovery import base_offsets_in, read_whole
from headgate.log.rewriting import empty_batch, with_place
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.state_file import Bond, StateFileUnusable, open_state_file
from headgate.log.swap import COMPACTION_NAME, CompactionState, finish
from headgate.log.sync_mark import SYNC_MARK_NAME, SyncMark, load_sync_mark
from headgate.log.walking import find_whole_batch, is_whole_batch, walk_batches, written_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem

_STEP_BYTES: Final = 32 << 20
"""Less than `find_whole_batch` searches."""
_LARGEST_RESTORED_BYTES: Final = 1 << 28
_LARGEST_MARKER_BYTES: Final = 1 << 10
NO_MARKERS: Final[Mapping[int, LostMarker]] = {}


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
    transactions_to: int = 0
    """The .txnindex files have all aborted transactions that ended below this offset."""

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of an offset; None: it is not known."""
        return max((epoch for epoch, first in self.starts if first <= offset), default=None)

    def allow(self, epoch: int, offset: int, before: BatchHeader | None) -> bool:
        """Return whether a batch behind another may have an epoch. It may if none is known for its offset."""
        if self.epoch_of(offset) is None:
            return True
        least = self.starts[0][0] if before is None else before.leader_epoch
        return least <= epoch and (self.newest is None or epoch <= self.newest)


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
        self._is_ours = files.exists(directory / CHECKPOINT_NAME) or self._mark != SyncMark()
        self._durable_end = max(self._mark.end_offset, self._checkpoint.recovery_point)
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
        self._expected = bases[0] if bases and (bases[0] < start or not self._is_ours) else start
        for at, base_offset in enumerate(bases):
            following = bases[at + 1] if at + 1 < len(bases) else None
            on_progress(self._read_segment(base_offset, following))
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

    def _read_segment(self, base_offset: int, following: int | None) -> int:
        """Read one segment; return its size."""
        if base_offset > self._expected and self._is_ours and base_offset > self._compacted_to:
            self._lose(self._place(), base_offset, "no segment has these offsets")
        self._expected = max(self._expected, base_offset)
        segment = MendedSegment(self._expected, base_offset, is_changed=self._expected > base_offset)
        self._segments.append(segment)
        file = self._files.open(self._directory / _name(base_offset))
        try:
            size = file.size()
            self._read_batches(file, size, following)
        finally:
            file.close()
        return size

    def _read_batches(self, file: File, size: int, following: int | None) -> None:
        position = self._pass_good(file, 0, size, following)
        while position < size:
            found = self._next_good(file, position, size, following)
            if found is None:
                self._read_bad_end(file, position, size, following)
                return
            self._settle(file, (position, found.position, size), found.header.base_offset, found.header)
            position = self._pass_good(file, found.position, size, following)

    def _pass_good(self, file: File, position: int, size: int, following: int | None) -> int:
        """Keep good batches from `position` on; return where a bad one begins, or `size`."""
        try:
            for at, header, batch in walk_batches(file, position, size):
                if not self._fits(header, following) or crc32c(batch[CRC_END:]) != header.crc:
                    return at
                if not self._known.allow(header.leader_epoch, header.base_offset, self._last):
                    return at
                if header.base_offset > self._expected and not self._is_followed(
                    file, at + header.size, size, header, following
                ):
                    return at
                if header.base_offset > max(self._expected, self._compacted_to) and self._is_ours:
                    self._lose(self._place(file, at, at), header.base_offset, "no batch has these offsets")
                self._keep(at, header)
                self._transactions.take(header, batch)
                position = at + header.size
        except CorruptBatch:
            return position
        return size

    def _fits(self, header: BatchHeader, following: int | None) -> bool:
        """Return whether a batch may be the next one."""
        return (
            header.magic == MAGIC
            and self._expected <= header.base_offset <= header.last_offset
            and header.last_offset - self._segments[-1].base_offset <= MOST_RELATIVE_OFFSET
            and (following is None or header.last_offset < following)
        )

    def _is_followed(
        self, file: File, end: int, size: int, header: BatchHeader, following: int | None
    ) -> bool:
        """Return whether the offset of a batch behind a gap agrees with what comes after it."""
        if end < size and len(head := file.pread(HEADER_BYTES, end)) == HEADER_BYTES:
            return read_header(head).base_offset >= header.next_offset
        return following is not None or header.next_offset <= self._durable_end or not self._is_ours

    def _next_good(self, file: File, position: int, size: int, following: int | None) -> _Found | None:
        """Return the next good batch behind a bad one; None: there is none in the segment."""
        stated = _stated_end(file, position)
        if stated == size:
            return None
        if stated is not None and is_whole_batch(file.pread, stated, size, self._expected):
            header = read_header(file.pread(HEADER_BYTES, stated))
            if self._fits(header, following):
                return _Found(stated, header)
        start = position + 1
        while start < size:
            at = find_whole_batch(file.pread, start, size, self._expected)
            if at is None:
                start += _STEP_BYTES
                continue
            header = read_header(file.pread(HEADER_BYTES, at))
            # A record of the bad batch may have a batch in it.
            if self._fits(header, following) and self._goes_on(file, at + header.size, size, header):
                return _Found(at, header)
            start = at + 1
        return None

    @staticmethod
    def _goes_on(file: File, position: int, size: int, header: BatchHeader) -> bool:
        if is_whole_batch(file.pread, position, size, header.next_offset):
            return True
        return written_end(file.pread, position, size) == position

    def _read_bad_end(self, file: File, position: int, size: int, following: int | None) -> None:
        """Decide about the bytes of a segment behind its last good batch."""
        end = following if following is not None else max(self._durable_end, self._expected)
        if end == self._expected and following is None:
            if not self._clean:
                return
            end = self._stated_next_offset(file, position, size)
        self._settle(file, (position, size, size), end)

    def _stated_next_offset(self, file: File, position: int, size: int) -> int:
        """Return the end offset of the bad batch at the end of a log, if its header fits; else its first."""
        if _stated_end(file, position) == size:
            header = read_header(file.pread(HEADER_BYTES, position))
            if header.base_offset == self._expected and header.record_count == header.last_offset_delta + 1:
                return header.next_offset
        return self._expected

    # What is kept, and what is lost.

    def _settle(
        self, file: File, span: tuple[int, int, int], end_offset: int, next_one: BatchHeader | None = None
    ) -> None:
        """Settle the bytes between two positions, where no good batch is; the third is the file's size."""
        start, end, size = span
        place = self._place(file, start, end)
        restored = self._restored(file, start, end, end_offset)
        if restored is not None:
            what = "a header is wrong where no checksum covers it, and is restored"
            self._transactions.take(read_header(restored), restored)
            self._restore(place, what, restored)
            return
        marker = None
        if end_offset == self._expected + 1 and HEADER_BYTES <= end - start <= _LARGEST_MARKER_BYTES:
            marker = self._transactions.marker_in(file.pread(end - start, start), self._expected)
        if marker is not None and marker.is_exact:
            self._restore(place, "the marker of a transaction is wrong, and is restored", marker.batch)
            return
        markers = {self._expected: marker} if marker is not None else {}
        self._lose(place, end_offset, _why_bad(file, start, size), next_one, markers)

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

    def _restored(self, file: File, start: int, end: int, end_offset: int) -> bytes | None:
        """Return the one batch that these bytes are if the fields without checksum are corrected."""
        if not HEADER_BYTES <= end - start <= _LARGEST_RESTORED_BYTES:
            return None
        data = file.pread(end - start, start)
        header = read_header(data)
        is_it = header.last_offset_delta == end_offset - self._expected - 1 and header.last_offset_delta >= 0
        if not is_it or crc32c(memoryview(data)[CRC_END:]) != header.crc:
            return None
        epoch = self._known.epoch_of(self._expected)
        return with_place(data, self._expected, header.leader_epoch if epoch is None else epoch)

    def _keep(self, position: int, header: BatchHeader) -> None:
        parts = self._segments[-1].parts
        last = parts[-1] if parts else None
        if isinstance(last, Copied) and last.end == position:
            parts[-1] = Copied(last.start, position + header.size)
        else:
            parts.append(Copied(position, position + header.size))
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
        markers: Mapping[int, LostMarker] = NO_MARKERS,
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


@dataclass(slots=True, frozen=True)
class _Found:
    position: int
    header: BatchHeader


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


def _why_bad(file: File, position: int, size: int) -> str:
    """Return why no good batch is at a position."""
    head: Buffer = file.pread(HEADER_BYTES, position)
    end = _stated_end(file, position)
    if end is None or (len(head) == HEADER_BYTES and read_header(head).magic != MAGIC):
        return "no batch begins here"
    if end > size:
        return "a batch is cut off here, or its length is wrong"
    if not is_whole_batch(file.pread, position, size, 0):
        return "the checksum of the batch is wrong"
    return "the offsets of the batch are not those expected here"
