"""From batch to batch in a file: by the length that stands in front of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from headgate.log.header import (
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    BatchHeader,
    Buffer,
    CorruptBatch,
    new_header,
)

if TYPE_CHECKING:
    from headgate.log.filesystem import File
    from headgate.log.segments import Segments

CHUNK_BYTES: Final = 1 << 20

_SIZE: Final = Struct(">i")
_LAST_OFFSET: Final = Struct(">q15xi")
"""Base offset and last offset delta; what stands between them is skipped."""
_WALK_BYTES: Final = 8192


def batch_size(buffer: Buffer, at: int, position: int) -> int:
    """The size of the batch that begins at `at`. Raises CorruptBatch, which names the buffer's position."""
    size: int = _SIZE.unpack_from(buffer, at + 8)[0] + LENGTH_FIELD_END
    if size < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {size} bytes stands at or after {position}")
    return size


def find_batch(file: File, position: int, end: int, offset: int) -> int:
    """Where the first batch from `position` on begins that reaches `offset`; `end` when none does.

    For short ways: the file is read a few kilobytes at a time. Raises CorruptBatch.
    """
    while position < end:
        chunk = file.pread(min(_WALK_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            base_offset, last_offset_delta = _LAST_OFFSET.unpack_from(chunk, at)
            if base_offset + last_offset_delta >= offset:
                return position + at
            at += batch_size(chunk, at, position)
        if not at:
            raise CorruptBatch(f"the file ends within a batch header at {position}")
        position += at
    return end


def walk_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch from `position` to `end`.

    Raises CorruptBatch where a batch does not fit; nothing else of it is checked. The file is read a
    megabyte at a time, or a batch at a time where one is larger. The bytes belong to such a chunk: who
    keeps them, copies them.
    """
    unpack = HEADER.unpack_from
    wanted = CHUNK_BYTES
    while position < end:
        chunk = memoryview(file.pread(min(wanted, end - position), position))
        at = needed = 0
        while len(chunk) - at >= HEADER_BYTES:
            base_offset, length, *rest = unpack(chunk, at)
            size = length + LENGTH_FIELD_END
            if size < HEADER_BYTES:
                what = "zeros stand" if not base_offset and not length else "no batch stands"
                raise CorruptBatch(f"{what} at {position + at}")
            if size > len(chunk) - at:
                needed = size
                break
            yield position + at, new_header(BatchHeader, (base_offset, size, *rest)), chunk[at : at + size]
            at += size
        if not at and not wanted < needed <= end - position:
            raise CorruptBatch(f"a batch at {position} is cut off")
        position += at
        wanted = max(CHUNK_BYTES, needed)


def written_end(pread: Callable[[int, int], bytes], start: int, end: int) -> int:
    """From where on, up to `end`, nothing but zeros stands; `start` at the least.

    `pread` gives so many bytes of a file from a position. What ends with zeros itself, as a batch may,
    reaches further than is told here.
    """
    while start < end:
        position = max(start, end - CHUNK_BYTES)
        written = len(pread(end - position, position).rstrip(b"\0"))
        if written:
            return position + written
        end = position
    return start


def walk_segments(segments: Segments, from_offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Header and bytes of every batch from the first that reaches `from_offset`, below `limit`.

    Nothing takes the place of what is read as long as this lasts. Raises as `walk_batches` does.
    """
    segments.walks += 1
    try:
        for segment in segments.reaching(from_offset):
            if segment.base_offset >= limit:
                return
            start = segment.position_of(from_offset) if from_offset > segment.base_offset else 0
            end = segment.size if limit >= segment.next_offset else segment.position_of(limit)
            for _, header, batch in walk_batches(segment.file(), start, end):
                yield header, bytes(batch)
    finally:
        segments.walks -= 1
