"""One segment: a stretch of the log in one file, with what is known of it in memory.

Files are named by the segment's first offset, in twenty digits, as Kafka names them. Rules: a segment is read
and written by one thread (only `datasync` of a pinned file happens elsewhere); its file is opened when needed
and may be closed at any time; whatever stands in memory beside `size` can be had again from the file.

The active segment knows all its batches since the last index entry by heart, so a reader at the tail never
searches the file. A closed one loads its indexes when first asked, and rebuilds them where they are missing.

Behind the last batch of the active segment there may be room on the disk, which reads as zeros: to write
where there is room already, and make that durable, takes the disk two thirds of the time it takes to grow the
file. Only what `size` tells counts; `finish` gives the room back.

What was taken from the disk without being read is not trusted: a batch is served for the first time when its
checksum was found to hold, and an entry of an index that was read from its file is held against the batch it
names when it is used.
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
    """A segment of the log in `directory`, from `base_offset` up to and without `next_offset`."""

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
        """The file was cut back, and the disk may have it longer until `finish`."""
        self.unchecked_bytes = 0
        """Batches that begin before this position were there before the process, and nobody has read them."""
        self._checked_from = self._checked_to = 0
        self._damage: CorruptBatch | None = None
        """Why the indexes cannot be built: whoever asks again is told at once."""
        self.forget_batches()

    def forget_batches(self) -> None:
        """Know nothing of what the file holds: before the first append, and before a scan tells it anew."""
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
        """The largest timestamp; without timestamps, when the file was written last, as in Kafka.

        Raises OSError.
        """
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path())

    # Files.

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """The path of one of the segment's files."""
        return self._directory / f"{self.base_offset:020d}{suffix}"

    def create(self) -> None:
        """Make the file, empty. A leftover of an earlier attempt is emptied."""
        self._file = self._files.open(self.path(), create=True)
        if self._file.size():
            self._file.truncate(0)

    def create_aside(self, aside: str) -> None:
        """Make the file, empty, under a name with `aside` behind. It must stay open until it is renamed."""
        path = self.path(LOG_SUFFIX + aside)
        self._file = self._files.open(path, create=True)
        self._file.truncate(0)

    def file(self) -> File:
        """The open file."""
        if self._file is None:
            self._file = self._files.open(self.path())
        self._close_when_unpinned = False
        return self._file

    def pin(self) -> File:
        """The open file, kept open until `unpin`: somebody syncs it in another thread. Raises OSError."""
        file = self.file()
        self._pins += 1
        return file

    def unpin(self) -> None:
        """End of `pin`."""
        self._pins -= 1
        if not self._pins and self._close_when_unpinned:
            self.close_file()

    def close_file(self) -> None:
        """Close the file, at once or when it is no longer pinned. Raises OSError, and it is closed."""
        if self._pins:
            self._close_when_unpinned = True
        elif self._file is not None:
            file, self._file = self._file, None
            file.close()

    @property
    def is_in_place(self) -> bool:
        """Whether the file, if it is open, is still the one by its name: it may be removed all the same."""
        descriptor = None if self._file is None else self._file.descriptor
        return descriptor is None or is_file_at(descriptor, self.path())

    def unload_indexes(self) -> None:
        """Forget the indexes of a closed segment; the files have them."""
        self._offset_index = self._time_index = self._recent_last_offsets = None
        self._recent_positions = []

    def remove(self) -> None:
        """Remove the segment's files, the log last: an index without one goes at the next start."""
        self.close_file()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.remove(path)

    # Writing.

    def write(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches. After an OSError the file may hold more than `size` bytes: cut it back."""
        write_fully(self.file(), data, self.size)
        for header in headers:
            self.note(
                self.size, header.size, header.base_offset + header.last_offset_delta, header.max_timestamp
            )

    def make_room(self, size: int) -> None:
        """Have room on the disk for `size` more bytes; without it the file grows as it is written."""
        file = self.file()
        self.reserved_to = self.size + size  # whatever comes of it: it is not asked for again before that
        with suppress(OSError):
            file.reserve(size, self.size)

    def finish(self) -> None:
        """Give back the room that is left, and make durable what there is; raises OSError."""
        if self.has_room:
            self.cut_back()
        self.file().datasync()
        self.synced_bytes = self.size
        self.was_cut = False

    @property
    def has_room(self) -> bool:
        """Whether the file may reach past `size`, now or after a power cut."""
        return self.was_cut or self.reserved_to > self.size

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take one batch into account that stands at `position`, after all others."""
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
        """Take from the file what is past `size`: room, and what a failed write may have left."""
        self.was_cut = True
        self.file().truncate(self.size)
        self.reserved_to = 0

    def truncate_to(self, position: int) -> None:
        """Cut the file at the batch that begins at `position`, and read what is left anew."""
        self.indexes_synced = False
        self.file().truncate(position)
        self.size = position
        self.synced_bytes = min(self.synced_bytes, position)
        self.rebuild()

    # Indexes.

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, loaded or rebuilt where it is not at hand."""
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, loaded or rebuilt where it is not at hand."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment, in ms; -1 where no record has one."""
        if self._time_index is None:
            self._load_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has `max_timestamp`; -1 where no record has one."""
        if self._time_index is None:
            self._load_indexes()
        return self._max_timestamp_offset

    def save_indexes(self) -> None:
        """Write both index files, aside and then in place. They are durable when `sync_indexes` has run."""
        self.indexes_synced = False
        self._remove_indexes()
        # The time index first: a tail walked again is timed again, but what the offset index knows is not.
        for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
            self._write_index(suffix, ".tmp", is_synced=False)
            self._files.rename(self.path(suffix + ".tmp"), self.path(suffix))

    def save_indexes_aside(self, aside: str) -> None:
        """Write both index files, durably, under names with `aside` behind."""
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
        """Make the index files durable, those there are. Runs in any thread."""
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
        """Take a closed segment as its files say, without reading the log."""
        self.unload_indexes()
        self.size = self.synced_bytes = self.unchecked_bytes = size
        self.next_offset = next_offset
        self.is_loaded_as_saved = self.indexes_synced = True

    def _remove_indexes(self) -> None:
        # What is left of an old one would be believed where a new one could not be written.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self.path(suffix)):
                self._files.remove(self.path(suffix))

    def _load_indexes(self) -> None:
        if not self.read_indexes() or not self._is_time_index_whole():
            try:
                self._build_indexes()
            except CorruptBatch:
                # Batches before it are found by what was built, and who looks further comes upon it.
                self._recent_last_offsets = None
                return
            # Whoever reads wants the index, not its file: without room for it, it is built again next time.
            with suppress(OSError):
                self.save_indexes()

    def _build_indexes(self) -> None:
        """Index the segment anew. Its extent stays what it was, also where this raises as `rebuild` does."""
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
        """Whether nothing behind its last entry is later than that: a file cut between entries looks sound.

        Where timestamps rise the last entry is of the last batch. Where they do not, only so much is read.
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
        """Load the index files; False, and nothing done, when one is missing or cannot be right."""
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
        """Last offset and position of the last batch the index file knows; (-1, 0) for an empty one.

        None without such a file, or where it cannot be right. Raises OSError.
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
        """Know the batches up to the last index entry, at `position`; what follows is about to be noted."""
        self.offset_index.truncate(position)
        self._recent_last_offsets = []
        self._recent_positions = []
        # The batch at `position` had its entry, and is to have it again.
        self._unindexed_bytes = self._index_interval_bytes + 1 if position else 0
        self.size = position

    def rebuild(self) -> None:
        """Walk over the whole file, header by header, and index it anew. Raises CorruptBatch."""
        size, end = self.size, self.next_offset
        self.forget_batches()
        for position, header, _ in walk_batches(self.file(), 0, size):
            if not self.next_offset <= header.base_offset <= header.last_offset < end:
                raise CorruptBatch(f"offset {header.base_offset} stands at {position}")
            self.note(position, header.size, header.last_offset, header.max_timestamp)

    # Reading.

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that reaches `offset`; `size` when none does."""
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
        """An offset up to which every timestamp is smaller than `timestamp`."""
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
        """Whether the batch at `position` is the one that an index says stands there.

        What this process noted itself needs no proof.
        """
        if not self.unchecked_bytes:
            return True
        head = self.file().pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return False
        header = read_header(head)
        return header.last_offset == last_offset and max_timestamp in (None, header.max_timestamp)

    def replace_indexes(self) -> None:
        """Index the segment anew: its index files are not what was written. Raises CorruptBatch, OSError."""
        if self._damage is not None:
            raise CorruptBatch(self._damage.reason)
        offsets, times = self._offset_index, self._time_index
        recent = self._recent_last_offsets, self._recent_positions, self._unindexed_bytes
        newest = self._max_timestamp, self._max_timestamp_offset
        try:
            self._build_indexes()
        except (CorruptBatch, OSError):
            # It is the batch that is not what was written: what is known of all others stays known.
            self._offset_index, self._time_index = offsets, times
            self._recent_last_offsets, self._recent_positions, self._unindexed_bytes = recent
            self._max_timestamp, self._max_timestamp_offset = newest
            raise
        if self.indexes_synced:  # else it is the last segment, whose indexes are saved when it is closed
            with suppress(OSError):
                self.save_indexes()

    def read(self, position: int, end: int, max_bytes: int, *, minimum_one: bool) -> bytes:
        """Whole batches from the one at `position` on, before `end`, as many as `max_bytes` holds.

        With `minimum_one` the first comes whole, however large. Raises OSError, and CorruptBatch where the
        first is not what was written; before any other such batch the answer ends.
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
        """How many bytes of sound batches `data` begins with. Raises CorruptBatch where the first is none."""
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
        # The last batch boundary the index knows saves stepping over the batches before it.
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
