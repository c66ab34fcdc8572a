"""Mend a log that no server has open: put what `find_losses` says in the place of what is there.

The changed segments are written aside and then replaced like those of a compaction: after a crash all are
changed or none. If it comes between that and the small files, a repetition adapts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.log.checkpoint import save_checkpoint
from headgate.log.filling import Copied, MendedSegment
from headgate.log.header import BatchHeader, read_header
from headgate.log.losses import Losses
from headgate.log.segment import Segment
from headgate.log.segment_file import DERIVED_SUFFIXES, LOG_SUFFIX
from headgate.log.state_file import rebind
from headgate.log.swap import CLEANED_SUFFIX, CompactionState, carry_out, decide, discard, prepare, settle
from headgate.log.sync_mark import SyncMark, remove_sync_mark, save_sync_mark
from headgate.log.walking import walk_batches

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import FileSystem

_WRITTEN_BYTES: Final = 1 << 20


def mend(files: FileSystem, directory: Path, losses: Losses, index_interval_bytes: int) -> None:
    """Mend the log in `directory`, of which `losses` were found. Raises OSError; repeat it then."""
    if any(one.is_changed for one in losses.segments):
        _replace_segments(files, directory, losses, index_interval_bytes)
    _remove_lone_indexes(files, directory)
    if losses.checkpoint is not None:
        save_checkpoint(files, directory, losses.checkpoint)
    if losses.mark == SyncMark():
        remove_sync_mark(files, directory)
    else:
        save_sync_mark(files, directory, losses.mark)


def _replace_segments(files: FileSystem, directory: Path, losses: Losses, index_interval_bytes: int) -> None:
    changed = [one for one in losses.segments if one.is_changed]
    added = [one for one in changed if one.parts]
    state = CompactionState(
        losses.compacted_to,
        tuple(one.source for one in changed if one.source is not None),
        tuple(one.base_offset for one in added),
    )
    try:
        for one in added:
            _write(files, directory, one, index_interval_bytes)
        prepare(files, directory, state)
    except OSError:
        discard(files, directory)
        raise
    if losses.bond is not None:
        rebind(files, directory, losses.bond)
    decide(files, directory)
    carry_out(files, directory, state)
    settle(files, directory, losses.compacted_to)


def _remove_lone_indexes(files: FileSystem, directory: Path) -> None:
    """Remove the indexes of segments that were missing. The next start would do it, too."""
    names = files.listdir(directory) if files.exists(directory) else []
    bases = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        base, dot, suffix = name.partition(".")
        if dot + suffix in DERIVED_SUFFIXES and base not in bases:
            files.remove(directory / name)


def _write(files: FileSystem, directory: Path, mended: MendedSegment, index_interval_bytes: int) -> None:
    """Write a segment and its indexes under their temporary names, durably."""
    segment = Segment(files, directory, mended.base_offset, index_interval_bytes)
    segment.create_aside(CLEANED_SUFFIX)
    try:
        for part in mended.parts:
            if isinstance(part, Copied):
                assert mended.source is not None
                _copy(Segment(files, directory, mended.source, 0), part, segment)
            else:
                segment.write(part, [read_header(part)])
        segment.file().datasync()
        segment.save_indexes_aside(CLEANED_SUFFIX)
    finally:
        segment.close_file()


def _copy(source: Segment, part: Copied, target: Segment) -> None:
    data, headers = bytearray(), list[BatchHeader]()
    try:
        for _, header, batch in walk_batches(source.file(), part.start, part.end):
            data += batch
            headers.append(header)
            if len(data) >= _WRITTEN_BYTES:
                target.write(data, headers)
                data, headers = bytearray(), []
        target.write(data, headers)
    finally:
        source.close_file()
