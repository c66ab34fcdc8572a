"""One segment: a part of the log in one file, with its state in memory.

Files are named by the segment's first offset in twenty digits, as in Kafka (`segment_file.py`); its indexes
are in `segment_indexes.py`. Rules: a segment is read and written by one thread (only `datasync` of a pinned
file runs in another). Its file is opened when needed and may be closed at any time. All state in memory but
`size` can be read from the file again.

Bytes on the disk from before the process are not trusted: the checksum of a batch is verified before it is
first served.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, write_fully
from headgate.log.header import (
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    BatchHeader,
    Buffer,
    CorruptBatch,
)
from headgate.log.segment_indexes import IndexedSegment
from headgate.log.walking import batch_size

if TYPE_CHECKING:
    from pathlib import Path


_OFFSETS: Final = Struct(">q15xi")
"""Base offset and last offset delta."""
_LENGTH_MAGIC_AND_CRC: Final = Struct(">8xi4xBI")


class Segment(IndexedSegment):
    """A segment of the log in `directory`, from `base_offset` up to, but not including, `next_offset`."""

    __slots__ = ("_checked_from", "_checked_to")

    def __init__(
        self, files: FileSystem, directory: Path, base_offset: int, index_interval_bytes: int
    ) -> None:
        super().__init__(files, directory, base_offset, index_interval_bytes)
        self._checked_from = self._checked_to = 0

    # Writing.

    def write(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches. After an OSError the file may be longer than `size`: truncate it."""
        write_fully(self.file(), data, self.size)
        for header in headers:
            self.note(
                self.size, header.size, header.base_offset + header.last_offset_delta, header.max_timestamp
            )

    def truncate_to(self, position: int) -> None:
        """Truncate the file at the batch that begins at `position`, and read the remaining part again."""
        self.indexes_synced = False
        self.file().truncate(position)
        self.size = position
        self.synced_bytes = min(self.synced_bytes, position)
        self.rebuild()

    # Reading.

    def read(self, position: int, end: int, max_bytes: int, *, minimum_one: bool) -> bytes:
        """Return whole batches from `position` on, before `end`, up to `max_bytes`.

        With `minimum_one` the first batch is returned whole, whatever its size. Raises OSError, and
        CorruptBatch if the first batch is damaged; the result ends before any other damaged batch.
        """
        if position >= self.unchecked_bytes or (
            self._checked_from <= position < self._checked_to
            and min(position + max_bytes, end, self.unchecked_bytes) <= self._checked_to
        ):
            return self._read_trusted(position, end, max_bytes, minimum_one=minimum_one)
        data = self._pread(min(end - position, max_bytes), position)
        size = self._check(data, position)
        if size or not minimum_one:
            return data[:size]
        prefix = data if len(data) >= LENGTH_FIELD_END else self._pread(LENGTH_FIELD_END, position)
        size = batch_size(prefix, 0, position)
        if size > end - position:
            raise CorruptBatch(
                f"a batch of {size} bytes begins at {position}, where {end - position} are left"
            )
        data = self._pread(size, position)
        self._check(data, position)
        return data

    def _check(self, data: bytes, position: int) -> int:
        """Return the size of the valid batches at the start of `data`. Raises CorruptBatch without any."""
        at = 0
        view = memoryview(data)
        expected = self.base_offset
        while len(data) - at >= HEADER_BYTES:
            length, magic, crc = _LENGTH_MAGIC_AND_CRC.unpack_from(data, at)
            size = length + LENGTH_FIELD_END
            if size >= HEADER_BYTES and size > len(data) - at:
                break
            base_offset, delta = _OFFSETS.unpack_from(data, at)
            is_in_place = expected <= base_offset <= base_offset + delta < self.next_offset and magic == MAGIC
            if size < HEADER_BYTES or not is_in_place or crc32c(view[at + CRC_END : at + size]) != crc:
                if not at:
                    raise CorruptBatch(
                        f"the batch at {position} of {self.path().name} is not what was written"
                    )
                break
            at += size
            expected = base_offset + delta + 1
        if position <= self._checked_to and position + at >= self._checked_from:
            self._checked_from = min(self._checked_from, position)
            self._checked_to = max(self._checked_to, position + at)
        else:
            self._checked_from, self._checked_to = position, position + at
        return at

    def _read_trusted(self, position: int, end: int, max_bytes: int, *, minimum_one: bool) -> bytes:
        if end - position <= max_bytes:
            return self._pread(end - position, position)
        data = self._pread(max_bytes, position)
        # The last batch boundary in the index saves reading the batches before it.
        known, last_offset = self.offset_index.last_entry_at_or_below(position + max_bytes)
        at = (
            known - position if known > position and self._is_at(known, self.base_offset + last_offset) else 0
        )
        while at + LENGTH_FIELD_END <= len(data):
            after = at + batch_size(data, at, position)
            if after > len(data):
                break
            at = after
        if at or not minimum_one:
            return data[:at]
        prefix = data if len(data) >= LENGTH_FIELD_END else self._pread(LENGTH_FIELD_END, position)
        return self._pread(batch_size(prefix, 0, position), position)

    def _pread(self, size: int, position: int) -> bytes:
        data = self.file().pread(size, position)
        if len(data) < size:
            raise CorruptBatch(f"{self.path()} ends at {position + len(data)}, not at {self.size}")
        return data
