"""The file of a segment: named by the segment's first offset, opened when needed, and grown in steps.

After the last batch of the active segment the file may have preallocated space, which reads as zeros: a
durable write into allocated space takes two thirds of the time of one that grows the file. Only `size` bytes
are valid; `finish` releases the space.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headgate.log.filesystem import File, FileSystem, is_file_at

if TYPE_CHECKING:
    from pathlib import Path

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DERIVED_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""Files of a segment that are derived from its batches."""


class SegmentFile:
    """The files of one segment in `directory`, and the state of the file with its batches."""

    __slots__ = (
        "_close_when_unpinned",
        "_directory",
        "_file",
        "_files",
        "_pins",
        "base_offset",
        "reserved_to",
        "size",
        "synced_bytes",
        "was_cut",
    )

    def __init__(self, files: FileSystem, directory: Path, base_offset: int) -> None:
        self._files = files
        self._directory = directory
        self._file: File | None = None
        self._pins = 0
        self._close_when_unpinned = False
        self.base_offset = base_offset
        self.size = 0
        self.synced_bytes = 0
        self.was_cut = False
        """The file was truncated; after a power failure it may be longer again, until `finish`."""
        self.reserved_to = 0

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Return the path of one of the segment's files."""
        return self._directory / f"{self.base_offset:020d}{suffix}"

    def create(self) -> None:
        """Create the file, empty. A file of an earlier attempt is truncated."""
        self._file = self._files.open(self.path(), create=True)
        if self._file.size():
            self._file.truncate(0)

    def create_aside(self, aside: str) -> None:
        """Create the file, empty, with the suffix `aside`. It must remain open until it is renamed."""
        path = self.path(LOG_SUFFIX + aside)
        self._file = self._files.open(path, create=True)
        self._file.truncate(0)

    def file(self) -> File:
        """Return the open file."""
        if self._file is None:
            self._file = self._files.open(self.path())
        self._close_when_unpinned = False
        return self._file

    def peek(self, size: int, position: int) -> bytes:
        """Read some bytes and leave the file as it was, open or closed. Raises OSError."""
        was_open = self._file is not None
        try:
            return self.file().pread(size, position)
        finally:
            if not was_open:
                self.close_file()

    def pin(self) -> File:
        """Return the file and keep it open until `unpin`, for a sync in another thread. Raises OSError."""
        file = self.file()
        self._pins += 1
        return file

    def unpin(self) -> None:
        """Release the file after `pin`."""
        self._pins -= 1
        if not self._pins and self._close_when_unpinned:
            self.close_file()

    def close_file(self) -> None:
        """Close the file, now or when it is no longer pinned. Raises OSError; the file is closed anyway."""
        if self._pins:
            self._close_when_unpinned = True
        elif self._file is not None:
            file, self._file = self._file, None
            file.close()

    @property
    def is_in_place(self) -> bool:
        """Return False if the open file was removed or another file has its name; True if no file is open."""
        descriptor = None if self._file is None else self._file.descriptor
        return descriptor is None or is_file_at(descriptor, self.path())

    def remove(self) -> None:
        """Remove the segment's files, the log last: the next start removes an index without a log."""
        self.close_file()
        for suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX):
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.remove(path)

    # Space.

    def make_room(self, size: int) -> None:
        """Preallocate `size` more bytes on the disk; without it the file grows with each write."""
        file = self.file()
        self.reserved_to = self.size + size  # also after a failure: no second attempt before that position
        with suppress(OSError):
            file.reserve(size, self.size)

    def finish(self) -> None:
        """Release the preallocated space and make the file durable. Raises OSError."""
        if self.has_room:
            self.cut_back()
        self.file().datasync()
        self.synced_bytes = self.size
        self.was_cut = False

    @property
    def has_room(self) -> bool:
        """Return whether the file may be longer than `size`, now or after a power failure."""
        return self.was_cut or self.reserved_to > self.size

    def check_writable(self) -> None:
        """Raise OSError if the file cannot be truncated and synced now, before all of it is read in vain."""
        file = self.file()
        if file.size() >= self.size:  # else bytes are missing: they must not be replaced by zeros
            self.cut_back()
        file.datasync()

    def cut_back(self) -> None:
        """Truncate the file to `size`: remove preallocated space and the rest of a failed write."""
        self.was_cut = True
        self.file().truncate(self.size)
        self.reserved_to = 0
