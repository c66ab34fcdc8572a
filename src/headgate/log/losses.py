"""Find what cannot be read of a log that no server has open, and what its segments should be instead.

Every record that can be read keeps its offset. Offsets whose records are lost remain, in batches without
records. Rules:

1. A batch is sound if its checksum is right (`pieces.py`). Of the sound batches those count that agree with
   their segments and with most of the others (`choosing.py`). One between them whose place is known gets the
   base offset, length and leader epoch of that place: no checksum covers these (`settling.py`). What is left
   between them is dropped.
2. Missing offsets are filled (`filling.py`): behind the good batch before them, or at the start of the log.
   Gaps below `compacted_to` are those of compaction. Those between the segments of a log without our files
   may be, too.
3. At the end of a log those offsets are missing that were durable. After a clean stop so are those of a bad
   batch whose header fits. After a crash, whatever else is bad there was being written: recovery drops it.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, replace
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from headgate.log.checkpoint import CHECKPOINT_NAME, Checkpoint
from headgate.log.choosing import Bounds, SegmentPieces, choose, is_one_bit, originals_of_copies
from headgate.log.damage import LogDamaged
from headgate.log.filesystem import read_file
from headgate.log.filling import Filling, Loss, MendedSegment, name_of, segment_name
from headgate.log.header import HEADER_BYTES, read_header
from headgate.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from headgate.log.known_log import EpochOf, KnownLog, agreed_starts
from headgate.log.lost_markers import OpenTransactions
from headgate.log.pieces import Piece, pieces_in
from headgate.log.recovery import base_offsets_in, read_whole
from headgate.log.segment_file import DERIVED_SUFFIXES, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from headgate.log.settling import Settlement, stated_end
from headgate.log.state_file import Bond, StateFileUnusable, open_state_file
from headgate.log.swap import COMPACTION_NAME, CompactionState, finish
from headgate.log.sync_mark import SYNC_MARK_NAME, SyncMark, load_sync_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem

_MOST_MISSING: Final = 1 << 36
"""Offsets between two segments: a name that says more is no segment's."""
_RELATIVE_OFFSET: Final = Struct(">i")
_TIME_BYTES: Final = 8
"""Before the relative offset of an entry of a time index."""
_DIGITS: Final = re.compile(r"[0-9]{20}")


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
    epochs: list[tuple[int, int]] | None
    """The leader epochs with their first offsets, if the file of these must be replaced."""


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
        self._notes: list[Loss] = []

    def run(self, on_progress: Callable[[int], None]) -> Losses:
        start = max(self._checkpoint.log_start_offset, self._mark.start_offset)
        bases = base_offsets_in(self._files, self._directory, start)
        self._durable_end = max(self._durable_end, self._end_of_lone_indexes(bases))
        why = self._why_no_checkpoint
        lost_from = start
        if why is not None and bases:
            start = max(start, bases[0])
        elif start > self._checkpoint.log_start_offset:
            why = "it is missing, or an old one"
            lost_from = start
        if why is not None:
            what = f"{why}: the log starts at {start}, and records that were deleted may appear again"
            if lost_from < start and self._mark != SyncMark():
                what = f"{why}: the log starts at {start}, and the records before were deleted, or are lost"
            else:
                lost_from = start
            self._notes.append(Loss(CHECKPOINT_NAME, 0, 0, lost_from, start, what))
        expected = bases[0] if bases and (bases[0] < start or not self._knows_start) else start
        segments = self._chosen(bases, expected, on_progress)
        if segments:
            expected = min(expected, segments[0].start)
        known = replace(self._known, starts=self._epochs_of(segments, expected))
        transactions = OpenTransactions(self._files, self._directory, known.transactions_to)
        bond_end = self._bond.end_offset if self._bond is not None else 0
        filling = Filling(known, transactions, start, expected, (self._mark.end_offset, bond_end))
        filling.places += self._notes
        originals = originals_of_copies(segments)
        for at, segment in enumerate(segments):
            following = segments[at + 1].start if at + 1 < len(segments) else None
            self._settle(filling, segment, following, originals)
            on_progress(segment.size - segment.size // 2)
        if filling.expected < self._durable_end:
            filling.lose(filling.place_at_end(), self._durable_end, "the end of the log is missing")
        if self._mark == SyncMark() and self._files.exists(self._directory / SYNC_MARK_NAME):
            filling.note(SYNC_MARK_NAME, filling.expected, "it cannot be read, and is not needed")
        for name in [] if filling.places else self._lone_indexes(bases):
            filling.note(name, filling.expected, "its segment has another name or is missing; it is removed")
        checkpoint = replace(self._checkpoint, log_start_offset=start, log=self._directory.name)
        epochs = list(known.starts) if list(known.starts) != list(self._known.starts) else None
        return Losses(
            places=filling.places,
            segments=filling.segments,
            checkpoint=checkpoint if why is not None else None,
            mark=self._mended_mark(filling),
            bond=self._mended_bond(filling),
            compacted_to=self._compacted_to,
            epochs=epochs,
        )

    def _lone_indexes(self, bases: Sequence[int]) -> list[str]:
        """Return the names of the indexes of missing segments."""
        if not self._files.exists(self._directory):
            return []
        segments = {f"{one:020d}" for one in bases}
        pairs = [(name, name.partition(".")) for name in sorted(self._files.listdir(self._directory))]
        return [
            name
            for name, (base, dot, suffix) in pairs
            if dot + suffix in DERIVED_SUFFIXES and _DIGITS.fullmatch(base) and base not in segments
        ]

    def _end_of_lone_indexes(self, bases: Sequence[int]) -> int:
        """Return the end of the log that the indexes of missing segments say."""
        end = 0
        for name in self._lone_indexes(bases):
            base, _, suffix = name.partition(".")
            is_of_times = "." + suffix == TIME_INDEX_SUFFIX
            if not is_of_times and "." + suffix != INDEX_SUFFIX:
                continue
            entry = TIME_ENTRY_BYTES if is_of_times else OFFSET_ENTRY_BYTES
            data = read_file(self._files, self._directory / name)
            at = len(data) // entry * entry - entry + (_TIME_BYTES if is_of_times else 0)
            last = _RELATIVE_OFFSET.unpack_from(data, at)[0] if len(data) >= entry else -1
            end = max(end, int(base) + last + 1)
        return end

    # Segments.

    def _chosen(
        self, bases: Sequence[int], expected: int, on_progress: Callable[[int], None]
    ) -> list[SegmentPieces]:
        """Read all segments and choose the batches that count; return the segments in their right order."""
        segments = []
        for base_offset in bases:
            file = self._open(base_offset)
            try:
                size = file.size()
                pieces = pieces_in(file, size, base_offset, self._compacted_to)
            finally:
                file.close()
            segments.append(SegmentPieces(base_offset, size, partial(self._open, base_offset), pieces))
            on_progress(size // 2)
        end = None
        if self._clean and self._known.end_offset == self._durable_end > 0:
            end = self._durable_end
            if self._mark.end_offset != end and any(_crosses(one, end) for one in segments):
                end = None  # a newer snapshot was not saved
        return choose(segments, Bounds(expected, end, self._durable_end, self._compacted_to))

    def _open(self, base_offset: int) -> File:
        return self._files.open(self._directory / segment_name(base_offset))

    def _epochs_of(self, segments: Sequence[SegmentPieces], start: int) -> Sequence[tuple[int, int]]:
        stretches = [
            EpochOf(one.header.leader_epoch, one.base_offset, one.next_offset, one.batches)
            for segment in segments
            for one in segment.trusted
            if one.header is not None
        ]
        return agreed_starts(stretches, self._known, start)

    def _settle(
        self,
        filling: Filling,
        segment: SegmentPieces,
        following: int | None,
        originals: Collection[tuple[int, int]],
    ) -> None:
        """Settle one segment, before the offset where the next one begins."""
        start = segment.start
        gaps_to = self._compacted_to if filling.segments else 0
        if start > max(filling.expected, gaps_to):
            if start - filling.expected > _MOST_MISSING:
                raise LogDamaged(
                    errno.EIO,
                    f"this segment begins at {start}, and {filling.expected} is expected: it cannot be one "
                    "of this log; move it away",
                    str(self._directory / segment_name(segment.base_offset)),
                )
            filling.lose(filling.place_at_end(), start, "no segment has these offsets")
        filling.pass_gap(start)
        is_renamed = filling.expected != segment.base_offset
        if is_renamed:
            what = f"its name is wrong: it begins at {filling.expected}"
            filling.note(segment_name(segment.base_offset), filling.expected, what)
        filling.segments.append(
            MendedSegment(filling.expected, segment.base_offset, is_changed=is_renamed, size=segment.size)
        )
        end = segment.pieces[-1].end if segment.pieces else 0
        if following is not None and end < segment.size:  # space is reserved in the last segment only
            segment.pieces.append(Piece(end, segment.size, None, 0, 0))
        file = self._open(segment.base_offset)
        try:
            settlement = Settlement(filling, file, segment, self._compacted_to, originals)
            left = settlement.run()
            if left:
                target = self._target(filling, file, left, segment.size) if following is None else following
                if target is not None:
                    settlement.settle(left, target)
        finally:
            file.close()

    def _target(self, filling: Filling, file: File, left: Sequence[Piece], size: int) -> int | None:
        """Return the end of what is missing at the end of the log; None: nothing is."""
        first = left[0]
        if self._durable_end > filling.expected:
            return self._durable_end
        if not self._clean:
            if len(left) == 1 and first.batches == 1 and is_one_bit(first.base_offset, filling.expected):
                return filling.expected + first.offsets
            return None  # it was being written: recovery drops it
        if stated_end(file, first.start) == size:
            header = read_header(file.pread(HEADER_BYTES, first.start))
            if header.base_offset == filling.expected and header.record_count == header.last_offset_delta + 1:
                return header.next_offset
        return filling.expected

    def _mended_mark(self, filling: Filling) -> SyncMark:
        """Return the mark for the mended log: it claims nothing more than the one that is there."""
        mark = self._mark
        if mark == SyncMark():
            return mark
        last = filling.ends.get(mark.end_offset)
        crc = -1 if last is None else last.crc
        is_checked = mark.last_crc >= 0 and mark.end_offset > max(self._compacted_to, mark.start_offset)
        if is_checked and crc != mark.last_crc and mark.end_offset not in filling.filled:
            what = f"another batch ends at {mark.end_offset} than what the disk had; it is kept"
            name = name_of(filling.segments[-1])
            filling.places.append(Loss(name, 0, 0, mark.end_offset, mark.end_offset, what))
        crc = crc if mark.last_crc >= 0 else -1
        there = [one for one in filling.segments if one.parts or not one.is_changed]
        before = [one for one in there if one.base_offset <= mark.base_offset]
        if not before or (before[-1].base_offset == mark.base_offset and not before[-1].is_changed):
            return replace(mark, last_crc=crc)
        return replace(mark, base_offset=before[-1].base_offset, position=0, last_crc=crc)

    def _mended_bond(self, filling: Filling) -> Bond | None:
        bond = self._bond
        if bond is None or bond.end_offset not in filling.filled:
            return None
        last = filling.ends[bond.end_offset]
        return replace(bond, last_batch=(last.base_offset, last.size, last.crc))


def _crosses(segment: SegmentPieces, offset: int) -> bool:
    return any(
        one.is_sound and one.base_offset < offset < one.next_offset and not one.has_gaps
        for one in segment.pieces
    )


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
