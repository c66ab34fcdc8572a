"""Reading a segment's file from batch to batch, read-only, and finding the way past what is no batch.

What a running server appends meanwhile is not seen: the size is taken once, when the file is opened, and so
is where the zeros at its end begin, which are room to write to. Batches are framed by their length alone;
whether a checksum holds is asked of each batch, because it costs time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crc32c import crc32c

from headgate.log import walking
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


class LogFile:
    """A file open for reading, as it was when it was opened. Raises OSError like the system does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size
        self._written = written_end(self._read, 0, self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer only where the file has become shorter meanwhile."""
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
    """A batch as its length frames it. `data` is a view that holds until the next one is asked for."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.header.size

    def computed_crc(self) -> int:
        """What the bytes sum to; `header.crc` if they are what was written."""
        return crc32c(self.data[CRC_END:])


@dataclass(slots=True, frozen=True)
class Break:
    """Where no batch stands, and why it is none; nothing behind it is framed."""

    position: int
    reason: str


def walk(file: LogFile, position: int = 0) -> Iterator[FoundBatch | Break]:
    """Each batch from `position` on; a Break comes last where the file does not end with a whole batch."""
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
            problem = f"a batch header takes {HEADER_BYTES} bytes, {end - position} are left"
        if problem is not None:
            yield Break(position, problem)
            return


def _why_no_size(base_offset: int, size: int, left: int) -> str | None:
    if size < HEADER_BYTES:
        is_zeros = base_offset == 0 and size == LENGTH_FIELD_END
        return "zeros stand here" if is_zeros else f"a batch of {size} bytes is smaller than its own header"
    if size > left:
        return f"a batch claims {size} bytes, {left} are left"
    return None


def is_room(file: LogFile, at: Break) -> bool:
    """Whether nothing but zeros stands from there on: the server reserves room ahead of what it writes."""
    return written_end(file.read, at.position, file.size) == at.position


def find_whole_batch(file: LogFile, position: int, least_offset: int) -> int | None:
    """As `headgate.log.walking.find_whole_batch`, in a file."""
    return walking.find_whole_batch(file.read, position, file.size, least_offset)
