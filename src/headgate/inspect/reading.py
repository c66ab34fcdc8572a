"""The read-only reader of a segment's batches, and the search for the next batch after damage.

Bytes that a running server appends later are not seen: the size of the file, and the start of the zeros
reserved at its end, are read once when the file is opened. Batches are framed by their length only. Checksums
are computed on request, because that takes time.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crc32c import crc32c

from headgate.log import walking
from headgate.log.filesystem import LARGEST_BYTES
from headgate.log.header import (
    CRC_END,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    BatchHeader,
    new_header,
)
from headgate.log.walking import written_end

_CHUNK_BYTES: Final = 1 << 20


def open_regular(path: Path) -> int:
    """Open a file for reading. Raises OSError, also for a pipe, a socket or a device, which could block."""
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def read_start(path: Path, at_most: int = LARGEST_BYTES) -> bytes:
    """Return the first bytes of a file, as the server reads files without batches. Raises OSError."""
    with open(open_regular(path), "rb") as file:
        return file.read(at_most)


class LogFile:
    """A file opened for reading, with the size it had when it was opened. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = open_regular(path)
        self.size = os.fstat(self._descriptor).st_size
        self._written = written_end(self._read, 0, self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, size: int, position: int) -> bytes:
        """Read `size` bytes from `position`; fewer only if the file became shorter in the meantime."""
        data = self._read(size, position)
        written = max(self._written - position, 0)
        return data if len(data) <= written else data[:written] + bytes(len(data) - written)

    def _read(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        while 0 < len(data) < size and (
            more := os.pread(self._descriptor, size - len(data), position + len(data))
        ):
            data += more
        return data


@dataclass(slots=True, frozen=True)
class FoundBatch:
    """A batch, framed by its length. `data` is a view that is valid until the next batch is read."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.header.size

    def computed_crc(self) -> int:
        """Return the checksum of the bytes. It equals `header.crc` if they are undamaged."""
        return crc32c(self.data[CRC_END:])


@dataclass(slots=True, frozen=True)
class Break:
    """A position without a valid batch, and the reason. The bytes after it are not framed."""

    position: int
    reason: str


def walk(file: LogFile, position: int = 0) -> Iterator[FoundBatch | Break]:
    """Yield each batch from `position` on, and a Break if the file does not end with a whole batch."""
    end = file.size
    wanted = _CHUNK_BYTES
    while position < end:
        asked = min(wanted, end - position)
        chunk = memoryview(file.read(asked, position))
        wanted, at, problem = _CHUNK_BYTES, 0, None
        while len(chunk) - at >= HEADER_BYTES:
            base_offset, length, *rest = HEADER.unpack_from(chunk, at)
            size = length + LENGTH_FIELD_END
            problem = _why_no_size(base_offset, size, end - position - at)
            if problem is not None or size > len(chunk) - at:
                wanted = max(size, _CHUNK_BYTES)
                break
            header = new_header(BatchHeader, (base_offset, size, *rest))
            yield FoundBatch(position + at, header, chunk[at : at + size])
            at += size
        position += at
        if problem is None and len(chunk) < asked:
            problem = "the file became shorter while it was read"
        if problem is None and 0 < end - position < HEADER_BYTES:
            problem = f"a batch header has {HEADER_BYTES} bytes, but {end - position} are left"
        if problem is not None:
            yield Break(position, problem)
            return


def _why_no_size(base_offset: int, size: int, left: int) -> str | None:
    if size < HEADER_BYTES:
        is_zeros = base_offset == 0 and size == LENGTH_FIELD_END
        return "zeros instead of a batch" if is_zeros else f"a batch of {size} bytes is smaller than a header"
    if size > left:
        return f"a batch has the length {size}, but {left} bytes are left"
    return None


def is_room(file: LogFile, at: Break) -> bool:
    """Tell whether only zeros follow: the server reserves disk space ahead of the end of the log."""
    return written_end(file.read, at.position, file.size) == at.position


def find_whole_batch(file: LogFile, position: int, least_offset: int) -> int | None:
    """Find the next whole batch in a file, see `headgate.log.walking.find_whole_batch`."""
    return walking.find_whole_batch(file.read, position, file.size, least_offset)
