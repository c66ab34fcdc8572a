"""One segment: a part of the log in one file, with its state in memory.

Files are named by the segment's first offset in twenty digits, as in Kafka. Rules: a segment is read and
written by one thread (only `datasync` of a pinned file runs in another). Its file is opened when needed and
may be closed at any time. All state in memory except `size` can be read from the file again.

The active segment has all its batches since the last index entry in memory, so a read at the end of the log
never searches the file. A closed segment loads its indexes on first use, and rebuilds missing ones.

After the last batch of the active segment the file may have preallocated space, which reads as zeros: a
durable write into allocated space takes two thirds of the time of one that grows the file. Only `size` bytes
are valid; `finish` releases the space.

Bytes on the disk from before the process are not trusted: the checksum of a batch is verified before it is
first served, and an entry of an index file is compared with its batch when it is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import File, FileSystem, is_file_at, read_file, write_fully
from headgate.log.header import (
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    BatchHeader,
    Buffer,
    CorruptBatch,
    read_header,
)
from headgate.log.index import OFFSET_ENTRY_BYTES, OffsetIndex, TimeIndex
from headgate.log.walking import CHUNK_BYTES, batch_size, find_batch, walk_batches

if TYPE_CHECKING:
    from pathlib import Path

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
_INDEX_ENTRY: Final = Struct(">ii")
_OFFSETS: Final = Struct(">q15xi")
"""Base offset and last offset delta."""
_LENGTH_AND_CRC: Final = Struct(">8xi5xI")


class Segment:
    """A segment of the log in `directory`, from `base_offset` up to, but not including, `next_offset`."""

    __slots__ = (
        "_checked_from",
        "_checked_to",
        "_close_when_unpinned",
        "_damage",
        "_directory",
        "_file",
        "_files",
        "_index_interval_bytes",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_pins",
        "_recent_last_offsets",
        "_recent_positions",
        "_time_index",
        "_unindexed_bytes",
        "base_offset",
        "first_timestamp",
        "indexes_synced",
        "is_loaded_as_saved",
        "next_offset",
        "reserved_to",
        "size",
        "synced_bytes",
        "unchecked_bytes",
        "was_cut",
    )

    def __init__(
        self, files: FileSystem, directory: Path, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        self._pins = 0
        self._close_when_unpinned = False
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.synced_bytes = 0
        self.indexes_synced = False
        self.is_loaded_as_saved = False
        self.was_cut = False
        """The file was truncated; after a power failure it may be longer again, until `finish`."""
        self.unchecked_bytes = 0
        """Batches before this position were written before the process started and are not verified yet."""
        self._checked_from = self._checked_to = 0
        self._damage: CorruptBatch | None = None
        """The reason why the indexes cannot be built, so that later uses fail at once."""
        self.forget_batches()

    def forget_batches(self) -> None:
        """Reset the state of the file's batches, before the first append or a scan."""
        self._offset_index: OffsetIndex | None = OffsetIndex()
        self._time_index: TimeIndex | None = TimeIndex()
        self._recent_last_offsets: list[int] | None = []
        self._recent_positions: list[int] = []
        self._unindexed_bytes = 0
        self.reserved_to = 0
        self.next_offset = self.base_offset
        self.size = 0
        self.first_timestamp = -1
        self._max_timestamp = -1
        self._max_timestamp_offset = -1

    def newest_ms(self) -> int:
        """Return the largest timestamp; without timestamps, the file's modification time, as Kafka does.

        Raises OSError.
        """
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path())

    # Files.

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

    def unload_indexes(self) -> None:
        """Free the indexes of a closed segment; they remain in their files."""
        self._offset_index = self._time_index = self._recent_last_offsets = None
        self._recent_positions = []

    def remove(self) -> None:
        """Remove the segment's files, the log last: the next start removes an index without a log."""
        self.close_file()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.remove(path)

    # Writing.

    def write(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches. After an OSError the file may be longer than `size`: truncate it."""
        write_fully(self.file(), data, self.size)
        for header in headers:
            self.note(
                self.size, header.size, header.base_offset + header.last_offset_delta, header.max_timestamp
            )

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

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add one batch at `position`, after all others, to the state in memory."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        recent = self._recent_last_offsets
        assert recent is not None and self._offset_index is not None and self._time_index is not None
        if self._unindexed_bytes > self._index_interval_bytes:
            self._offset_index.append(last_offset - self.base_offset, position)
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
            recent.clear()
            self._recent_positions.clear()
            self._unindexed_bytes = 0
        else:
            recent.append(last_offset)
            self._recent_positions.append(position)
        self._unindexed_bytes += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def cut_back(self) -> None:
        """Truncate the file to `size`: remove preallocated space and the rest of a failed write."""
        self.was_cut = True
        self.file().truncate(self.size)
        self.reserved_to = 0

    def truncate_to(self, position: int) -> None:
        """Truncate the file at the batch that begins at `position`, and read the remaining part again."""
        self.indexes_synced = False
        self.file().truncate(position)
        self.size = position
        self.synced_bytes = min(self.synced_bytes, position)
        self.rebuild()

    # Indexes.

    @property
    def offset_index(self) -> OffsetIndex:
        """Return the offset index; load or rebuild it if necessary."""
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Return the time index; load or rebuild it if necessary."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp of the segment, in ms; -1 if no record has one."""
        if self._time_index is None:
            self._load_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Return the last offset of the first batch with `max_timestamp`; -1 if no record has one."""
        if self._time_index is None:
            self._load_indexes()
        return self._max_timestamp_offset

    def save_indexes(self) -> None:
        """Write both index files under temporary names and rename them. `sync_indexes` makes them durable."""
        self.indexes_synced = False
        self._remove_indexes()
        # The time index first: a scan of the tail restores only times after the offset index's end.
        for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
            self._write_index(suffix, ".tmp", is_synced=False)
            self._files.rename(self.path(suffix + ".tmp"), self.path(suffix))

    def save_indexes_aside(self, aside: str) -> None:
        """Write both index files, durably, with the suffix `aside`."""
        for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
            self._write_index(suffix, aside, is_synced=True)

    def _write_index(self, suffix: str, aside: str, *, is_synced: bool) -> None:
        if suffix == TIME_INDEX_SUFFIX:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            data = self.time_index.to_bytes()
        else:
            data = self.offset_index.to_bytes()
        file = self._files.open(self.path(suffix + aside), create=True)
        try:
            file.truncate(0)
            write_fully(file, data, 0)
            if is_synced:
                file.datasync()
        finally:
            file.close()

    def sync_indexes(self) -> None:
        """Make the existing index files durable. May run in any thread."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            try:
                file = self._files.open(self.path(suffix))
            except FileNotFoundError:
                continue
            try:
                file.datasync()
            finally:
                file.close()

    def use_saved(self, size: int, next_offset: int) -> None:
        """Set the state of a closed segment from its files, without reading the log."""
        self.unload_indexes()
        self.size = self.synced_bytes = self.unchecked_bytes = size
        self.next_offset = next_offset
        self.is_loaded_as_saved = self.indexes_synced = True

    def _remove_indexes(self) -> None:
        # An old index must not remain where a new one could not be written.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self.path(suffix)):
                self._files.remove(self.path(suffix))

    def _load_indexes(self) -> None:
        if not self.read_indexes() or not self._is_time_index_whole():
            try:
                self._build_indexes()
            except CorruptBatch:
                # The built indexes find the batches before the fault; a read beyond it meets the fault.
                self._recent_last_offsets = None
                return
            # Readers need the index, not its file: if the file cannot be written, it is built again later.
            with suppress(OSError):
                self.save_indexes()

    def _build_indexes(self) -> None:
        """Build the indexes; `size` and `next_offset` remain unchanged, also on an error of `rebuild`."""
        size, next_offset, first_timestamp = self.size, self.next_offset, self.first_timestamp
        reserved_to = self.reserved_to
        try:
            self.rebuild()
        except (CorruptBatch, OSError) as problem:
            self.first_timestamp = first_timestamp
            if isinstance(problem, CorruptBatch):
                self._damage = problem
            raise
        finally:
            self.size, self.next_offset = size, max(next_offset, self.next_offset)
            self.reserved_to = reserved_to

    def _is_time_index_whole(self) -> bool:
        """Return whether no batch after the last entry is later: a file cut between entries looks valid.

        If timestamps ascend, the last entry is of the last batch. If not, the batches after the entry are
        read.
        """
        if self._max_timestamp_offset >= self.next_offset:
            return False
        start = self.position_of(max(self._max_timestamp_offset, self.base_offset))
        if self._max_timestamp >= 0 and not self._is_at(
            start, self._max_timestamp_offset, self._max_timestamp
        ):
            return False
        with suppress(CorruptBatch):
            for position, header, _ in walk_batches(self.file(), start, self.size):
                if header.max_timestamp > self._max_timestamp:
                    return False
                if position - start > CHUNK_BYTES:
                    break
        return True

    def read_indexes(self) -> bool:
        """Load the index files; return False and change nothing if one is missing or invalid."""
        try:
            offsets = OffsetIndex.from_bytes(read_file(self._files, self.path(INDEX_SUFFIX)), self.size)
            times = TimeIndex.from_bytes(read_file(self._files, self.path(TIME_INDEX_SUFFIX)))
        except FileNotFoundError:
            return False
        if offsets is None or times is None:
            return False
        self._offset_index, self._time_index = offsets, times
        if len(times):
            self._max_timestamp = times.timestamps[-1]
            self._max_timestamp_offset = self.base_offset + times.offsets[-1]
        self._recent_last_offsets = None
        return True

    def last_index_entry(self) -> tuple[int, int] | None:
        """Return the last offset and position of the last batch in the index file; (-1, 0) for an empty one.

        Return None if the file is missing or invalid. Raises OSError.
        """
        try:
            file = self._files.open(self.path(INDEX_SUFFIX))
        except FileNotFoundError:
            return None
        try:
            size = file.size()
            if size % OFFSET_ENTRY_BYTES:
                return None
            if not size:
                return -1, 0
            relative_offset, position = _INDEX_ENTRY.unpack(
                file.pread(OFFSET_ENTRY_BYTES, size - OFFSET_ENTRY_BYTES)
            )
        finally:
            file.close()
        return (self.base_offset + relative_offset, position) if position > 0 else None

    def resume_at(self, position: int) -> None:
        """Set the state up to the last index entry, at `position`; the following batches are noted next."""
        self.offset_index.truncate(position)
        self._recent_last_offsets = []
        self._recent_positions = []
        # The batch at `position` had its entry, and gets it again.
        self._unindexed_bytes = self._index_interval_bytes + 1 if position else 0
        self.size = position

    def rebuild(self) -> None:
        """Read the headers of the whole file and build the indexes. Raises CorruptBatch."""
        size, end = self.size, self.next_offset
        self.forget_batches()
        for position, header, _ in walk_batches(self.file(), 0, size):
            if not self.next_offset <= header.base_offset <= header.last_offset < end:
                raise CorruptBatch(f"offset {header.base_offset} stands at {position}")
            self.note(position, header.size, header.last_offset, header.max_timestamp)

    # Reading.

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch that reaches `offset`; `size` without one."""
        if offset >= self.next_offset:
            return self.size
        index = self.offset_index
        at = index.first_at_or_above(offset - self.base_offset)
        if at == len(index) and self._recent_last_offsets is not None:
            recent = bisect_left(self._recent_last_offsets, offset)
            return self._recent_positions[recent] if recent < len(self._recent_positions) else self.size
        if not at:
            return find_batch(self.file(), 0, self.size, offset, self.base_offset)
        if not self._is_at(index.positions[at - 1], self.base_offset + index.offsets[at - 1]):
            self.replace_indexes()
            return self.position_of(offset)
        return find_batch(self.file(), index.positions[at - 1], self.size, offset, self.base_offset)

    def start_before(self, timestamp: int) -> int:
        """Return an offset up to which every timestamp is smaller than `timestamp`."""
        times = self.time_index
        start, known = times.start_before(timestamp)
        if known < 0:
            return self.base_offset
        position = self.position_of(self.base_offset + start)
        if not self._is_at(position, self.base_offset + start, known):
            self.replace_indexes()
            return self.start_before(timestamp)
        return self.base_offset + start

    def _is_at(self, position: int, last_offset: int, max_timestamp: int | None = None) -> bool:
        """Return whether the batch at `position` is the one of an index entry.

        Batches that this process wrote need no check.
        """
        if not self.unchecked_bytes:
            return True
        head = self.file().pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return False
        header = read_header(head)
        return header.last_offset == last_offset and max_timestamp in (None, header.max_timestamp)

    def replace_indexes(self) -> None:
        """Rebuild indexes whose files do not match the log. Raises CorruptBatch, OSError."""
        if self._damage is not None:
            raise CorruptBatch(self._damage.reason)
        offsets, times = self._offset_index, self._time_index
        recent = self._recent_last_offsets, self._recent_positions, self._unindexed_bytes
        newest = self._max_timestamp, self._max_timestamp_offset
        try:
            self._build_indexes()
        except (CorruptBatch, OSError):
            # The batch is damaged, not the indexes: keep the entries of all others.
            self._offset_index, self._time_index = offsets, times
            self._recent_last_offsets, self._recent_positions, self._unindexed_bytes = recent
            self._max_timestamp, self._max_timestamp_offset = newest
            raise
        if self.indexes_synced:  # else it is the active segment, whose indexes are saved when it is closed
            with suppress(OSError):
                self.save_indexes()

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
            raise CorruptBatch(f"a batch of {size} bytes stands at {position}, {end - position} are left")
        data = self._pread(size, position)
        self._check(data, position)
        return data

    def _check(self, data: bytes, position: int) -> int:
        """Return the size of the valid batches at the start of `data`. Raises CorruptBatch without any."""
        at = 0
        view = memoryview(data)
        expected = self.base_offset
        while len(data) - at >= HEADER_BYTES:
            length, crc = _LENGTH_AND_CRC.unpack_from(data, at)
            size = length + LENGTH_FIELD_END
            if size >= HEADER_BYTES and size > len(data) - at:
                break
            base_offset, delta = _OFFSETS.unpack_from(data, at)
            is_in_place = expected <= base_offset <= base_offset + delta < self.next_offset
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
