"""A mark of how far the disk is known to have a log, in one small file: `headgate.synced`.

    headgate log synced 2
    segment 00000000000000056000
    position 00000000000001048576
    end_offset 00000000000000061000
    start_offset 00000000000000001200
    last_crc 00000000002872374117
    crc32c 0x1f2e3d4c

A failed sync leaves pages that can be read and count as clean: no later sync writes them. The process that
saw the failure knows which bytes to write again. The next process could not learn it from a record of the
failure, because a disk that fails a sync may fail to store the record too. So the log records from time to
time what succeeded, and a process that opens it after a kill writes everything beyond that again. The mark
also detects the loss of durable records: a log that ends below `end_offset` is damaged, and does not open.
Rules:

1. The mark never claims more than is true, whatever fails: it is moved forward after a sync, and removed
   before the log is truncated. If it is missing, torn or old, more is written again and less loss is
   detected.
2. It is written in place and never synced. It must survive the process, as the stale pages do; after a
   restart of the machine there are no such pages, and at most an older mark.
3. A name may be synced later than the bytes of its file. So only `end_offset`, which a completed sync with
   its names sets, tells what is missing.
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
LARGEST_MARK_BYTES: Final = 4096
"""A file with more is no mark, and need not be read further."""
_TITLE: Final = "headgate log synced 2"
_FIRST_TITLE: Final = "headgate log synced 1"
"""Format without offsets."""


@dataclass(slots=True, frozen=True, order=True)
class SyncMark:
    """The disk has every segment before `base_offset`, and the bytes of that one before `position`."""

    base_offset: int = -1
    position: int = 0
    end_offset: int = 0
    """Every record below is on the disk, under the name of its segment."""
    start_offset: int = 0
    """Minimum of the log start offset, from the checkpoint."""
    last_crc: int = -1
    """CRC of the batch that ends at `end_offset`; -1 if it is not known."""

    def bytes_of(self, base_offset: int, size: int) -> int:
        """Return how many bytes of a segment the disk is known to have."""
        if base_offset == self.base_offset:
            return min(self.position, size)
        return size if base_offset < self.base_offset else 0

    def to_bytes(self) -> bytes:
        """Return the contents of the file, always of the same size, so that one overwrites another."""
        return _checked(
            f"{_TITLE}\nsegment {self.base_offset:020d}\nposition {self.position:020d}\n"
            f"end_offset {self.end_offset:020d}\nstart_offset {self.start_offset:020d}\n"
            f"last_crc {self.last_crc:020d}\n"
        )

    def _to_first_format(self) -> bytes:
        return _checked(f"{_FIRST_TITLE}\nsegment {self.base_offset:020d}\nposition {self.position:020d}\n")

    @classmethod
    def from_bytes(cls, data: bytes) -> SyncMark | None:
        """Return the mark in `data`, or None: the bytes must be exactly those of this or the first format."""
        try:
            _, *fields, _ = data.decode().splitlines()
            mark = cls(*(int(field.split()[1]) for field in fields))
        except (ValueError, IndexError, TypeError):
            return None
        return mark if data in (mark.to_bytes(), mark._to_first_format()) else None


def _checked(text: str) -> bytes:
    return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()


def load_sync_mark(files: FileSystem, directory: Path) -> SyncMark:
    """Return the log's mark; an empty one if it is missing or invalid. Raises OSError."""
    try:
        data = read_file(files, directory / SYNC_MARK_NAME, LARGEST_MARK_BYTES)
    except FileNotFoundError:
        return SyncMark()
    return SyncMark.from_bytes(data) or SyncMark()


def save_sync_mark(files: FileSystem, directory: Path, mark: SyncMark) -> bool:
    """Write the mark; return False if the disk refuses it: the file may then be the old one, or be
    invalid.
    """
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
    """Remove the mark before it becomes untrue. Raises OSError."""
    with suppress(FileNotFoundError):
        files.remove(directory / SYNC_MARK_NAME)
