"""Load the segments of a log from its files, when it is opened and after a failure.

Rules:
1. After a clean stop nothing is scanned; the last segment is walked from its last index entry.
2. After any other stop every segment from the recovery point on is read whole: sizes, magic, CRC, offsets
   that only grow (without gaps above `compacted_to`).
3. At the first bad batch the log ends: its file is cut there, later segments are removed, and the loss is
   reported. Preallocated zeros at the end are no bad batch. Only what a crash may have left unsynced is
   dropped: a bad batch below what the mark and the recovery point say is durable is damage (rule 5).
4. A good batch may still be in the page cache only: it is synced before it counts as durable. After a failed
   sync it may be in pages that the system considers clean, and that no sync writes: bytes not known to be
   synced are therefore written again first.
5. Lost durable records are reported: if a whole segment is missing, or the end of one, or a durable batch is
   bad, nothing is changed and the log does not open. Gaps below `compacted_to` are those of compaction. A
   small file that is only replaced atomically and cannot be read is damage too.
6. A decided compaction is carried out before anything is read; files of an undecided one are removed.
Recovery is idempotent.
"""

from __future__ import annotations

import errno
import itertools
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from headgate.log.checkpoint import CHECKPOINT_NAME, Checkpoint, save_checkpoint
from headgate.log.damage import WHAT_NEXT, LogDamaged, missing, out_of_order
from headgate.log.filesystem import read_file
from headgate.log.segment import Segment
from headgate.log.segment_file import DERIVED_SUFFIXES, LOG_SUFFIX
from headgate.log.segment_scan import end_of_saved, reopen, scan, walk_tail
from headgate.log.segments import Segments, last_crc
from headgate.log.swap import (
    CLEANED_SUFFIX,
    COMPACTION_NAME,
    CompactionState,
    finish,
    save_compacted_to,
)
from headgate.log.sync_mark import SyncMark, load_sync_mark, remove_sync_mark, save_sync_mark
from headgate.log.walking import find_whole_batch, written_end

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headgate.log.filesystem import FileSystem

_NAME_DIGITS: Final = 20
_LARGEST_OFFSET: Final = (1 << 63) - 1
_REWRITE_BYTES: Final = 1 << 20


@dataclass(slots=True, frozen=True)
class Recovery:
    """What recovery dropped from a log, and why. `end_offset` is the log end offset now."""

    directory: Path
    dropped_bytes: int
    dropped_segments: int
    end_offset: int
    reason: str


@dataclass(slots=True, frozen=True)
class Loading:
    """Parameters of a load.

    `synced_before` has the number of synced bytes of each segment, where it is known better than by the mark.
    """

    files: FileSystem
    directory: Path
    index_interval_bytes: int
    clean: bool
    synced_before: Mapping[int, int] | None
    recovery_point: int = 0
    """Below this offset everything is durable; the log's own, from its checkpoint."""
    compacted_to: int = 0
    """Below this offset compaction may have removed records."""
    has_room: bool = False
    """Whether zeros at the log's end may be preallocated space."""
    keeps_all: bool = False
    """Whether a bad batch followed by whole ones is damage, wherever it is."""


@dataclass(slots=True, frozen=True)
class Loaded:
    """A log loaded and made durable; `is_durable` tells that its directory's name is durable too."""

    checkpoint: Checkpoint
    segments: list[Segment]
    recovery: Recovery | None
    is_durable: bool
    compacted_to: int = 0


@dataclass(slots=True, frozen=True)
class _Torn:
    """The end of the good part of a log: in the last segment read, before `size` bytes of it."""

    reason: str
    size: int
    later: list[int]
    """The base offsets of the segments after it."""


@dataclass(slots=True)
class _Found:
    """A log as read from its files; nothing is changed yet."""

    segments: list[Segment]
    torn: _Torn | None = None
    has_room_left: bool = False
    """Whether only preallocated zeros follow the last batch."""

    @property
    def end_offset(self) -> int:
        """The log end offset after recovery."""
        segments = self.segments
        if not segments:
            return 0
        if self.torn is not None and len(segments) > 1 and _is_within(segments[-1], segments[-2]):
            return segments[-2].next_offset
        return segments[-1].next_offset


def load(loading: Loading) -> Loaded:
    """Load a log and make all of it durable. Raises OSError, LogDamaged among them."""
    files, directory = loading.files, loading.directory
    if not files.exists(directory):
        return Loaded(Checkpoint(), [], None, is_durable=False)
    checkpoint = read_whole(files, directory, CHECKPOINT_NAME, Checkpoint.from_bytes) or Checkpoint()
    if checkpoint.log not in ("", directory.name):
        raise LogDamaged(
            errno.EIO,
            f"{CHECKPOINT_NAME} is that of {checkpoint.log}; restore it from a copy",
            str(directory),
        )
    read_whole(files, directory, COMPACTION_NAME, CompactionState.from_bytes)
    loading = replace(loading, compacted_to=finish(files, directory))
    mark = load_sync_mark(files, directory)
    loading = replace(loading, recovery_point=checkpoint.recovery_point)
    is_ours = files.exists(directory / CHECKPOINT_NAME) or mark != SyncMark()
    holes = _find_holes(loading, checkpoint, mark, is_ours=is_ours)
    if holes:
        # The origin of this log is unknown: accept it with its gaps.
        loading = replace(loading, compacted_to=holes[-1])
    found = _read_segments(loading, checkpoint.log_start_offset, mark)
    _check_end(loading, checkpoint, mark, found)
    # All durable records are present. From here on files are changed.
    if holes:
        save_compacted_to(files, directory, holes[-1])
    first = found.segments[0].base_offset if found.segments else 0
    if not is_ours and first > checkpoint.log_start_offset:
        checkpoint = replace(checkpoint, log_start_offset=first, log=directory.name)
        save_checkpoint(files, directory, checkpoint)
    _tidy(loading, checkpoint.log_start_offset)
    segments, recovery = found.segments, None
    if found.has_room_left:
        segments[-1].cut_back()
    if found.torn is not None:
        segments, recovery = _drop_after(loading, segments, found.torn)
    scanned = [segment for segment in segments if not segment.is_loaded_as_saved]
    _sync_segments(scanned, mark, loading.synced_before)
    if scanned or recovery is not None:
        files.sync_directory(directory)
        files.sync_directory(directory.parent)
    if segments and segments[-1].next_offset < checkpoint.log_start_offset:
        # DeleteRecords moved the start past the surviving records: the log is empty, and continues at
        # its start.
        for segment in segments:
            segment.remove()
        segments = []
    _settle_indexes(loading, [segment for segment in segments[:-1] if not segment.is_loaded_as_saved])
    _settle_mark(loading, checkpoint, mark, segments)
    end_offset = segments[-1].next_offset if segments else 0
    if loading.compacted_to > end_offset:
        # Reset it before the log grows past it again with records that were not compacted.
        loading = replace(loading, compacted_to=end_offset)
        save_compacted_to(files, directory, end_offset)
    return Loaded(checkpoint, segments, recovery, bool(segments), loading.compacted_to)


ValueT = TypeVar("ValueT")


def read_whole(
    files: FileSystem, directory: Path, name: str, from_bytes: Callable[[bytes], ValueT | None]
) -> ValueT | None:
    """Return the contents of a small file, None if it is missing. Raises LogDamaged if it cannot be decoded.

    No crash damages such a file: it is written under another name and renamed when it is durable.
    """
    try:
        data = read_file(files, directory / name)
    except FileNotFoundError:
        return None
    value = from_bytes(data)
    if value is None:
        raise LogDamaged(
            errno.EIO,
            f"{name} cannot be read; restore it from a copy (`headgate log verify` tells what it is for)",
            str(directory),
        )
    return value


def _read_segments(loading: Loading, start_offset: int, mark: SyncMark) -> _Found:
    """Read the segments in order up to the first bad batch; the last one is ready for appends."""
    found = _Found([])
    segments = found.segments
    base_offsets = base_offsets_in(loading.files, loading.directory, start_offset)
    for at, base_offset in enumerate(base_offsets):
        segment = Segment(loading.files, loading.directory, base_offset, loading.index_interval_bytes)
        following = base_offsets[at + 1] if at + 1 < len(base_offsets) else None
        size = loading.files.size(segment.path())
        segments.append(segment)
        if following is not None and (loading.clean or following <= loading.recovery_point):
            segment.use_saved(size, following)
            continue
        if following is None and loading.clean and walk_tail(segment, size):
            continue
        gaps_to = loading.compacted_to if following is None else None
        reason = scan(segment, size, segments[-2].next_offset if at else None, gaps_to)
        if reason is not None and following is None and loading.has_room and not loading.clean:
            written = written_end(segment.file().pread, segment.size, size)
            size = max(written, mark.bytes_of(base_offset, size))
            if segment.size == size:
                found.has_room_left = True
                reason = None
        is_next = following is None or following <= max(segment.next_offset, loading.compacted_to)
        if reason is None and not is_next:
            reason = f"it ends at {segment.next_offset}, the segment after it begins at {following}"
        if reason is not None:
            found.torn = _Torn(f"{segment.path().name}: {reason}", size, base_offsets[at + 1 :])
            break
    return found


def _check_end(loading: Loading, checkpoint: Checkpoint, mark: SyncMark, found: _Found) -> None:
    """Raise LogDamaged for a log that lacks durable records at its end."""
    end_offset = found.end_offset
    durable_to = max(mark.end_offset, loading.recovery_point)
    # Deleted records may never have been durable: those below the log's start are not missed.
    if max(end_offset, checkpoint.log_start_offset) < durable_to:
        reason = f" ({found.torn.reason})" if found.torn is not None else ""
        raise missing(
            loading.directory, max(end_offset, checkpoint.log_start_offset), durable_to, reason=reason
        )
    if mark.last_crc >= 0 and mark.end_offset > max(loading.compacted_to, checkpoint.log_start_offset):
        # Damage after the mark is dropped below; up to it the log must be unchanged.
        crc = last_crc(Segments(found.segments), mark.end_offset)
        if crc != mark.last_crc:
            raise LogDamaged(
                errno.EIO,
                f"another batch ends at {mark.end_offset} than what the disk had; {WHAT_NEXT}",
                str(loading.directory),
            )
    if found.torn is not None and (what := _why_no_tail(loading, found, found.torn)):
        raise LogDamaged(
            errno.EIO,
            f"{found.torn.reason}, and {what}; {WHAT_NEXT}",
            str(loading.directory),
        )


def _why_no_tail(loading: Loading, found: _Found, torn: _Torn) -> str | None:
    """Return why the bad end of a log cannot be the remains of the last write; None if it can."""
    if loading.clean:
        return "the log was closed cleanly"
    if loading.keeps_all:
        segment = found.segments[-1]
        least = found.end_offset
        if (
            torn.later
            or find_whole_batch(segment.file().pread, segment.size + 1, torn.size, least) is not None
        ):
            return "whole batches follow it"
    return None


def _find_holes(loading: Loading, checkpoint: Checkpoint, mark: SyncMark, *, is_ours: bool) -> list[int]:
    """Return the offsets after gaps in a log without files of ours. Raises RecordsMissing for other logs."""
    files, directory = loading.files, loading.directory
    bases = base_offsets_in(files, directory, checkpoint.log_start_offset)
    if checkpoint.log_start_offset < mark.start_offset:
        raise LogDamaged(
            errno.EIO,
            f"{CHECKPOINT_NAME} is missing or an old one: the log starts at {mark.start_offset}; {WHAT_NEXT}",
            str(directory),
        )
    if is_ours and bases and bases[0] > checkpoint.log_start_offset:
        raise missing(directory, checkpoint.log_start_offset, bases[0])
    holes = []
    for base_offset, following in itertools.pairwise(bases):
        is_durable = loading.clean or following <= max(loading.recovery_point, mark.end_offset)
        if following <= loading.compacted_to or not is_durable:
            continue
        segment = Segment(files, directory, base_offset, loading.index_interval_bytes)
        end = end_of_saved(segment, files.size(segment.path()))
        if end < following:
            if is_ours:
                raise missing(directory, end, following)
            holes.append(following)
        elif end > following and is_ours:
            raise out_of_order(Segment(files, directory, following, 0).path(), following, end)
    return holes


def _sync_segments(segments: list[Segment], mark: SyncMark, synced_before: Mapping[int, int] | None) -> None:
    for segment in segments:
        if synced_before is None:
            _rewrite(segment, mark.bytes_of(segment.base_offset, segment.size))
        else:
            _rewrite(segment, synced_before.get(segment.base_offset, 0))
        segment.file().datasync()
        segment.synced_bytes = segment.size
        segment.was_cut = False


def _settle_indexes(loading: Loading, rebuilt: list[Segment]) -> None:
    """Save the indexes that a scan rebuilt for closed segments, so that the next start need not scan them."""
    # Indexes are derived: without disk space for them the log works, and the next start is slower.
    with suppress(OSError):
        for segment in rebuilt:
            segment.save_indexes()
            segment.sync_indexes()
            segment.unload_indexes()
            segment.close_file()
        if rebuilt:
            loading.files.sync_directory(loading.directory)
        for segment in rebuilt:
            segment.indexes_synced = True


def _settle_mark(loading: Loading, checkpoint: Checkpoint, mark: SyncMark, segments: list[Segment]) -> None:
    """Write a mark for the log, all of which is durable; remove one that claims more."""
    true = SyncMark()
    if segments:
        last = segments[-1]
        true = SyncMark(
            last.base_offset,
            last.size,
            last.next_offset,
            checkpoint.log_start_offset,
            last_crc(Segments(segments), last.next_offset),
        )
    if mark > true:
        remove_sync_mark(loading.files, loading.directory)
    if segments and mark != true and not loading.clean:
        save_sync_mark(loading.files, loading.directory, true)


def _rewrite(segment: Segment, position: int) -> None:
    file = segment.file()
    while position < segment.size:
        chunk = file.pread(min(_REWRITE_BYTES, segment.size - position), position)
        position += file.pwrite(chunk, position)


def _tidy(loading: Loading, start_offset: int) -> None:
    """Remove files that an interrupted change left beside the segments."""
    kept = set(base_offsets_in(loading.files, loading.directory, start_offset))
    for name in loading.files.listdir(loading.directory):
        leftover = name.endswith((".tmp", CLEANED_SUFFIX))
        for suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX):
            leftover |= _is_segment_file(name, suffix) and int(name[:_NAME_DIGITS]) not in kept
        if leftover:
            with suppress(IsADirectoryError):  # not a log's file
                loading.files.remove(loading.directory / name)


def base_offsets_in(files: FileSystem, directory: Path, start_offset: int) -> list[int]:
    """Return the base offsets of the segments in a log's directory, in order. Raises OSError."""
    names = files.listdir(directory)
    bases = sorted(int(name[:_NAME_DIGITS]) for name in names if _is_segment_file(name, LOG_SUFFIX))
    # A segment ends where the next begins. Those that end at or below the log start were being deleted.
    return [base for at, base in enumerate(bases) if at + 1 == len(bases) or bases[at + 1] > start_offset]


def _is_segment_file(name: str, suffix: str) -> bool:
    digits = name[:_NAME_DIGITS]
    if not name.endswith(suffix) or len(name) != _NAME_DIGITS + len(suffix):
        return False
    return digits.isascii() and digits.isdigit() and int(digits) <= _LARGEST_OFFSET


def _is_within(segment: Segment, previous: Segment) -> bool:
    """Return whether a segment begins before the end of the previous one."""
    return segment.base_offset < previous.next_offset


def _drop_after(loading: Loading, segments: list[Segment], torn: _Torn) -> tuple[list[Segment], Recovery]:
    """End the log at the end of the good part of the last segment."""
    bad = segments[-1]
    dropped_bytes = torn.size - bad.size
    # Cut the bad batch last: while it exists, an interrupted recovery finds it and drops the later segments
    # again.
    for base_offset in reversed(torn.later):
        segment = Segment(loading.files, loading.directory, base_offset, loading.index_interval_bytes)
        dropped_bytes += loading.files.size(segment.path())
        segment.remove()
    loading.files.sync_directory(loading.directory)
    if len(segments) > 1 and _is_within(bad, segments[-2]):
        bad.remove()
        segments.pop()
        reopen(segments[-1])
    else:
        bad.cut_back()
    end_offset = segments[-1].next_offset
    return segments, Recovery(loading.directory, dropped_bytes, len(torn.later), end_offset, torn.reason)
