"""Walk from batch to batch in a file, by their length fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.header import (
    CRC_END,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    BatchHeader,
    Buffer,
    CorruptBatch,
    new_header,
)

if TYPE_CHECKING:
    from headgate.log.filesystem import File

CHUNK_BYTES: Final = 1 << 20

_SIZE: Final = Struct(">i")
_LAST_OFFSET: Final = Struct(">q15xi")
"""Base offset and last offset delta; the bytes between them are skipped."""
_WALK_BYTES: Final = 8192
_SEARCHED_BYTES: Final = 64 << 20
"""Maximum distance to search for the next whole batch: far more than a crash can tear."""
_BASE_OFFSET: Final = Struct(">q")


def batch_size(buffer: Buffer, at: int, position: int) -> int:
    """Return the size of the batch at `at`. Raises CorruptBatch, with the buffer's position."""
    size: int = _SIZE.unpack_from(buffer, at + 8)[0] + LENGTH_FIELD_END
    if size < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {size} bytes is at or after {position}")
    return size


def find_batch(
    file: File, position: int, end: int, offset: int, least_offset: int = 0, *, is_checked: bool = True
) -> int:
    """Return the position of the first batch from `position` on that reaches `offset`; `end` if there is
    none.

    For short distances: reads a few kilobytes at a time. Raises CorruptBatch, also for a batch that begins
    before `least_offset` or before the end of the previous one, as its records would be skipped. Unless the
    bytes `is_checked`, that includes a batch with a wrong checksum before a gap with `offset`: its header may
    hide records.
    """
    passed: int | None = None
    while position < end:
        chunk = file.pread(min(_WALK_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            base_offset, last_offset_delta = _LAST_OFFSET.unpack_from(chunk, at)
            if base_offset < least_offset:
                raise CorruptBatch(f"offset {base_offset} is at {position + at}, not {least_offset}")
            least_offset = base_offset + last_offset_delta + 1
            if base_offset + last_offset_delta >= offset:
                if base_offset > offset and not is_checked:
                    _check_passed(file, passed, end)
                return position + at
            passed = position + at
            at += batch_size(chunk, at, position)
        if not at:
            raise CorruptBatch(f"the file ends within a batch header at {position}")
        position += at
    if position > end:
        raise CorruptBatch(f"a batch at {passed} is cut off")
    if not is_checked:
        _check_passed(file, passed, end)
    return end


def _check_passed(file: File, position: int | None, end: int) -> None:
    """Raise CorruptBatch if the batch before a gap is not what was written."""
    if position is not None and not is_whole_batch(file.pread, position, end, 0):
        raise CorruptBatch(
            f"the batch at {position} is not what was written, and offsets are missing after it"
        )


def walk_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and bytes of each batch from `position` to `end`.

    Raises CorruptBatch for a size that does not fit; nothing else is checked. The file is read a megabyte at
    a time, or a batch at a time if it is larger. The bytes are a view of such a chunk: copy them to keep
    them.
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
                what = "only zeros are" if not base_offset and not length else "no batch is"
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
    """Return the position, at least `start`, from which on there are only zeros up to `end`.

    `pread` returns so many bytes of a file from a position. A batch may itself end with zeros, and then
    reaches further than the result.
    """
    while start < end:
        position = max(start, end - CHUNK_BYTES)
        written = len(pread(end - position, position).rstrip(b"\0"))
        if written:
            return position + written
        end = position
    return start


def find_whole_batch(
    pread: Callable[[int, int], bytes], position: int, end: int, least_offset: int
) -> int | None:
    """Return the position of the next whole, valid batch from `position` on, before `end`; None if none is
    found.

    `pread` returns so many bytes of a file from a position. A batch is recognized by an offset not far above
    `least_offset`, the magic, a fitting length and a correct checksum.
    """
    stop = min(end, position + _SEARCHED_BYTES)
    starts = {_BASE_OFFSET.pack(offset)[:4] for offset in (least_offset, least_offset + (1 << 32))}
    pattern = re.compile(b"(?=(?:%s).{12}\x02)" % b"|".join(map(re.escape, sorted(starts))), re.DOTALL)
    overlap = HEADER_BYTES
    while position < stop:
        data = pread(min(CHUNK_BYTES, stop - position), position)
        for match in pattern.finditer(data):
            if is_whole_batch(pread, position + match.start(), end, least_offset):
                return position + match.start()
        if position + len(data) >= stop or len(data) <= overlap:
            return None
        position += len(data) - overlap
    return None


def is_whole_batch(pread: Callable[[int, int], bytes], position: int, end: int, least_offset: int) -> bool:
    """Whether a batch with a right checksum, at or above an offset, begins at `position` and ends by `end`.

    Raises OSError.
    """
    head = pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return False
    base_offset, length, *rest = HEADER.unpack(head)
    size = length + LENGTH_FIELD_END
    header = BatchHeader(base_offset, size, *rest)
    if base_offset < least_offset or header.magic != MAGIC or header.last_offset_delta < 0:
        return False
    if size < HEADER_BYTES or size > end - position:
        return False
    return crc32c(pread(size, position)[CRC_END:]) == header.crc


def checked_batches(batches: Iterable[tuple[BatchHeader, bytes]]) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the same batches after a check of their checksums and their order. Raises CorruptBatch."""
    expected = 0
    for header, batch in batches:
        if header.base_offset < expected:
            raise CorruptBatch(f"offset {header.base_offset} is where {expected} was expected")
        expected = header.next_offset
        if crc32c(memoryview(batch)[CRC_END:]) != header.crc:
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
        yield header, batch
