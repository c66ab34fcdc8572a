"""Checks the segments of a Kafka partition batch by batch, and copies what is good.

Rules:

1. A batch counts if it is complete, has message format 2, its checksum is right, its offsets are above those
   of the batch before it, and it ends at or below the high watermark.
2. Bad bytes at the end of the last segment are what a crash left, unless the broker was stopped cleanly or a
   whole batch follows them. They are not copied, as Kafka does not keep them either.
3. All other bad bytes are damage. The rest of that segment is not looked at; the next segments are, so that
   all damage is found in one run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crc32c import crc32c

from headgate.log.filesystem import File, FileSystem
from headgate.log.header import CRC_END, MAGIC, BatchHeader, CorruptBatch
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.walking import find_whole_batch, walk_batches
from headgate.takeover.coordinator_records import BatchReader, read_nothing
from headgate.takeover.errors import ImportRefused

MOST_RELATIVE_OFFSET: Final = (1 << 31) - 1
_SWAP_SUFFIX: Final = ".swap"
_COPIED_AT_ONCE: Final = 8 << 20

OnProgress = Callable[[int], None]
"""Called with the number of bytes that were checked since the last call."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are no good batch."""

    file: Path
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, byte {self.position}: {self.reason}"


@dataclass(frozen=True, slots=True)
class GoodPart:
    """The part of a segment that is taken over: its first `size` bytes."""

    file: Path
    size: int


@dataclass(slots=True)
class CheckedLog:
    """What was found in the segments of a partition."""

    parts: list[GoodPart] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    """The first offset of each leader epoch that a batch has."""
    damages: list[Damage] = field(default_factory=list)
    left_out: list[Damage] = field(default_factory=list)
    """What a crash left at the end, and what lies above the high watermark."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all good parts."""
        return sum(part.size for part in self.parts)


@dataclass(slots=True)
class _Walk:
    """The progress of a walk through a segment: what is good ends at `position` and `next_offset`."""

    base_offset: int
    next_offset: int
    position: int = 0
    is_above_high_watermark: bool = False


class LogCheck:
    """Checks the segments of one partition."""

    def __init__(self, files: FileSystem, high_watermark: int | None, *, may_be_torn: bool) -> None:
        """`high_watermark` is None for the only replica: all of its records count. `may_be_torn` tells that
        the broker was not stopped cleanly.
        """
        self._files = files
        self._high_watermark = high_watermark
        self._may_be_torn = may_be_torn
        self._read_batch: BatchReader = read_nothing

    def run(
        self, directory: Path, on_progress: OnProgress, read_batch: BatchReader = read_nothing
    ) -> CheckedLog:
        """Read all segments. Raises ImportRefused for an unfinished compaction, OSError."""
        self._read_batch = read_batch
        paths = segment_files(self._files, directory)
        log = CheckedLog()
        if paths:
            log.start_offset = log.end_offset = base_of(paths[0])
        for path in paths:
            walk = _Walk(base_of(path), max(log.end_offset, base_of(path)))
            self._check_segment(path, walk, log, is_last=path is paths[-1], on_progress=on_progress)
            log.parts.append(GoodPart(path, walk.position))
            log.end_offset = max(log.end_offset, walk.next_offset)
            if walk.is_above_high_watermark:
                break
        return log

    def run_last(self, path: Path) -> CheckedLog:
        """Read one segment, the last one of a partition. Raises OSError."""
        log = CheckedLog(end_offset=base_of(path))
        walk = _Walk(base_of(path), base_of(path))
        self._check_segment(path, walk, log, is_last=True, on_progress=lambda size: None)
        log.end_offset = walk.next_offset
        return log

    def _check_segment(
        self, path: Path, walk: _Walk, log: CheckedLog, *, is_last: bool, on_progress: OnProgress
    ) -> None:
        file = self._files.open(path)
        try:
            size = file.size()
            if walk.base_offset < log.end_offset:
                log.damages.append(Damage(path, 0, f"it begins below offset {log.end_offset}"))
                return
            try:
                self._walk(file, size, walk, log.epochs, on_progress)
            except CorruptBatch as problem:
                damage = Damage(path, walk.position, problem.reason)
                is_tail = is_last and self._may_be_torn and not _has_batch_after(file, size, walk)
                (log.left_out if is_tail else log.damages).append(damage)
            if walk.is_above_high_watermark:
                above = f"{size - walk.position} bytes above the high watermark {self._high_watermark}"
                log.left_out.append(Damage(path, walk.position, above))
        finally:
            file.close()

    def _walk(
        self, file: File, size: int, walk: _Walk, epochs: dict[int, int], on_progress: OnProgress
    ) -> None:
        """Walk to the first batch that is bad or above the high watermark. Raises CorruptBatch."""
        high_watermark = self._high_watermark
        for position, header, batch in walk_batches(file, 0, size):
            check_batch(header, batch, walk.base_offset, walk.next_offset)
            if high_watermark is not None and header.next_offset > high_watermark:
                walk.is_above_high_watermark = True
                return
            self._read_batch(header, batch)
            epochs.setdefault(header.leader_epoch, header.base_offset)
            walk.position, walk.next_offset = position + header.size, header.next_offset
            on_progress(header.size)


def check_batch(header: BatchHeader, batch: memoryview, base_offset: int, expected: int) -> None:
    """Check a batch of the segment with `base_offset`. Raises CorruptBatch."""
    if header.magic != MAGIC:
        raise CorruptBatch(f"message format {header.magic} is not supported (Kafka 0.11 and later write 2)")
    if crc32c(batch[CRC_END:]) != header.crc:
        raise CorruptBatch("the checksum of the batch is wrong")
    if header.base_offset < expected:
        raise CorruptBatch(f"offset {header.base_offset}, where {expected} or more is expected")
    if header.last_offset_delta < 0 or header.last_offset - base_offset > MOST_RELATIVE_OFFSET:
        raise CorruptBatch(f"the batch cannot end at offset {header.last_offset}")


def _has_batch_after(file: File, size: int, walk: _Walk) -> bool:
    return find_whole_batch(file.pread, walk.position + 1, size, walk.next_offset) is not None


def segment_files(files: FileSystem, directory: Path) -> list[Path]:
    """Return the segments of a partition in order. Raises ImportRefused for an unfinished compaction."""
    names = sorted(files.listdir(directory))
    unfinished = [name for name in names if name.endswith(_SWAP_SUFFIX)]
    if unfinished:
        raise ImportRefused(
            f"{directory / unfinished[0]}: Kafka was killed while it replaced segments; start it once and "
            "stop it with SIGTERM"
        )
    return [directory / name for name in names if name.endswith(LOG_SUFFIX)]


def base_of(path: Path) -> int:
    """Return the base offset in a segment's name. Raises ImportRefused for another name."""
    name = path.name.removesuffix(LOG_SUFFIX)
    if len(name) != 20 or not name.isdecimal():
        raise ImportRefused(f"{path} is not the name of a segment")
    return int(name)


def copy_part(part: GoodPart, target: Path, on_progress: OnProgress) -> None:
    """Copy the good part of a segment into the directory `target`, durably. Raises OSError."""
    copied = target / part.file.name
    with part.file.open("rb") as source, copied.open("wb") as copy:
        try:
            for size in _copied(source.fileno(), copy.fileno(), part.size):
                on_progress(size)
            os.fsync(copy.fileno())
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(copied)) from problem


def _copied(source: int, target: int, size: int) -> Iterator[int]:
    """Copy `size` bytes, and yield how many were copied at once. Raises OSError."""
    done = 0
    while done < size:
        data = os.pread(source, min(_COPIED_AT_ONCE, size - done), done)
        if not data:
            raise OSError(errno.EIO, "the segment became shorter while it was copied")
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
        done += len(data)
        yield len(data)
