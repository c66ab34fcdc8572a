"""How far the disk is known to have a log, in one small file: `headgate.synced`.

    headgate log synced 2
    segment 00000000000000056000
    position 00000000000001048576
    end_offset 00000000000000061000
    start_offset 00000000000000001200
    last_crc 00000000002872374117
    crc32c 0x1f2e3d4c

A sync that fails leaves pages that read well and count as clean: no later sync writes them. The process that
saw it fail knows what to write again; the next process would not, if it had to be told of the failure, for a
disk that fails a sync may fail the telling too. So the log leaves word of what succeeded, now and then, and
whoever opens it after a kill writes again what lies beyond. The same word tells a log that lost records which
were durable: one that ends below `end_offset` is not what it was, and does not open. Rules:

1. The mark never says more than is true, whatever fails: it is moved up after a sync, and taken away before
   the log is truncated. Where it is missing, torn or old, only more is written again, and less is missed.
2. It is written in place and never synced. It has to outlive the process, as the stale pages do; a machine
   that restarts has neither, and at most an older mark.
3. A name may be synced later than the bytes of its file. So what is missed is told by `end_offset` alone,
   which a completed sync stands for, names included.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, read_file, write_fully

if TYPE_CHECKING:
    from pathlib import Path

SYNC_MARK_NAME: Final = "headgate.synced"
_TITLE: Final = "headgate log synced 2"
_FIRST_TITLE: Final = "headgate log synced 1"
"""A mark that knew nothing of offsets."""


@dataclass(slots=True, frozen=True, order=True)
class SyncMark:
    """The disk has every segment before `base_offset`, and of that one the bytes before `position`."""

    base_offset: int = -1
    position: int = 0
    end_offset: int = 0
    """Every record below is on the disk, under the name of its segment."""
    start_offset: int = 0
    """Where the log starts at least, by its checkpoint."""
    last_crc: int = -1
    """The checksum of the batch that ends at `end_offset`; -1 where it is not known."""

    def bytes_of(self, base_offset: int, size: int) -> int:
        """How many bytes of a segment the disk is known to have."""
        if base_offset == self.base_offset:
            return min(self.position, size)
        return size if base_offset < self.base_offset else 0

    def to_bytes(self) -> bytes:
        """The contents of the file: always as long, so that one overwrites another."""
        return _checked(
            f"{_TITLE}\nsegment {self.base_offset:020d}\nposition {self.position:020d}\n"
            f"end_offset {self.end_offset:020d}\nstart_offset {self.start_offset:020d}\n"
            f"last_crc {self.last_crc:020d}\n"
        )

    def _to_first_format(self) -> bytes:
        return _checked(f"{_FIRST_TITLE}\nsegment {self.base_offset:020d}\nposition {self.position:020d}\n")

    @classmethod
    def from_bytes(cls, data: bytes) -> SyncMark | None:
        """The mark these bytes are, or None: they must be exactly what `to_bytes` makes, or once made."""
        try:
            _, *fields, _ = data.decode().splitlines()
            mark = cls(*(int(field.split()[1]) for field in fields))
        except (ValueError, IndexError, TypeError):
            return None
        return mark if data in (mark.to_bytes(), mark._to_first_format()) else None


def _checked(text: str) -> bytes:
    return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()


def load_sync_mark(files: FileSystem, directory: Path) -> SyncMark:
    """The log's mark; one that says nothing where there is none that can be trusted. Raises OSError."""
    try:
        data = read_file(files, directory / SYNC_MARK_NAME)
    except FileNotFoundError:
        return SyncMark()
    return SyncMark.from_bytes(data) or SyncMark()


def save_sync_mark(files: FileSystem, directory: Path, mark: SyncMark) -> bool:
    """Leave the mark; False where the disk refuses, and then the old one may stand, or none."""
    try:
        file = files.open(directory / SYNC_MARK_NAME, create=True)
        try:
            write_fully(file, mark.to_bytes(), 0)
        finally:
            file.close()
    except OSError:
        return False
    return True


def remove_sync_mark(files: FileSystem, directory: Path) -> None:
    """Say nothing any more: what it told is about to become untrue. Raises OSError."""
    with suppress(FileNotFoundError):
        files.remove(directory / SYNC_MARK_NAME)
