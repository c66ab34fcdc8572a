"""A segment with its offset index and its time index.

The active segment has all its batches since the last index entry in memory, so a read at the end of the log
never searches the file. A closed segment loads its indexes on first use, and rebuilds missing ones.

Index files from before the process are not trusted: an entry is compared with its batch when it is used.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from headgate.log.filesystem import FileSystem, read_file, write_fully
from headgate.log.header import (
    HEADER_BYTES,
    CorruptBatch,
    read_header,
)
from headgate.log.index import OFFSET_ENTRY_BYTES, OffsetIndex, TimeIndex
from headgate.log.segment_file import (
    DERIVED_SUFFIXES,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFile,
)
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions
from headgate.log.walking import CHUNK_BYTES, find_batch, walk_batches

if TYPE_CHECKING:
    from pathlib import Path


LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
_INDEX_ENTRY: Final = Struct(">ii")


class IndexedSegment(SegmentFile):
    """The file of a segment, the state of its batches in memory, and its indexes."""

    __slots__ = (
        "_damage",
        "_index_interval_bytes",
        "_is_newest_kept",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_recent_last_offsets",
        "_recent_positions",
        "_time_index",
        "_unindexed_bytes",
        "aborted",
        "first_timestamp",
        "indexes_synced",
        "is_loaded_as_saved",
        "next_offset",
        "unchecked_bytes",
    )

    def __init__(
        self, files: FileSystem, directory: Path, base_offset: int, index_interval_bytes: int
    ) -> None:
        super().__init__(files, directory, base_offset)
        self._index_interval_bytes = index_interval_bytes
        self.indexes_synced = False
        self.is_loaded_as_saved = False
        self.unchecked_bytes = 0
        """Batches before this position were written before the process started and are not verified yet."""
        self.aborted: AbortedTransactions | None = None
        """The aborted transactions whose markers are in the segment, as far as they were noted."""
        self._damage: CorruptBatch | None = None
        """The reason why the indexes cannot be built, so that later uses fail at once."""
        self.forget_batches()

    def forget_batches(self) -> None:
        """Reset the state of the file's batches, before the first append or a scan."""
        self._is_newest_kept = False
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

    def newest_ms(self) -> int:
        """Return the largest timestamp; without timestamps, the file's modification time, as Kafka does.

        Raises OSError.
        """
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path())

    # Indexes.

    def unload_indexes(self) -> None:
        """Free the indexes of a closed segment; they remain in their files. `max_timestamp` is kept."""
        self._is_newest_kept = self.is_newest_known
        self._offset_index = self._time_index = self._recent_last_offsets = None
        self._recent_positions = []

    @property
    def can_unload(self) -> bool:
        """Whether the index files have what is in memory; those of a damaged segment are never written."""
        return self.indexes_synced and self._damage is None

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
    def is_newest_known(self) -> bool:
        """Whether `max_timestamp` needs no reading of the index files."""
        return self._is_newest_kept or self._time_index is not None

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp of the segment, in ms; -1 if no record has one."""
        if not self.is_newest_known:
            self._load_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Return the last offset of the first batch with `max_timestamp`; -1 if no record has one."""
        if not self.is_newest_known:
            self._load_indexes()
        return self._max_timestamp_offset

    def save_indexes(self) -> None:
        """Write the index files, the offset and time indexes under temporary names, and rename them.
        `sync_indexes` makes them durable.
        """
        self.indexes_synced = False
        self.save_aborted()
        self._remove_indexes()
        # The time index first: a scan of the tail restores only times after the offset index's end.
        for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
            self._write_index(suffix, ".tmp", is_synced=False)
            self._files.rename(self.path(suffix + ".tmp"), self.path(suffix))

    def save_indexes_aside(self, aside: str) -> None:
        """Write the index files, durably, with the suffix `aside`."""
        for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
            self._write_index(suffix, aside, is_synced=True)
        if self.aborted is not None:
            self._write(TRANSACTION_INDEX_SUFFIX + aside, self.aborted.to_bytes(), is_synced=True)
            self.aborted.saved()

    def _write_index(self, suffix: str, aside: str, *, is_synced: bool) -> None:
        if suffix == TIME_INDEX_SUFFIX:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            data = self.time_index.to_bytes()
        else:
            data = self.offset_index.to_bytes()
        self._write(suffix + aside, data, is_synced=is_synced)

    def _write(self, suffix: str, data: bytes, *, is_synced: bool) -> None:
        file = self._files.open(self.path(suffix), create=True)
        try:
            file.truncate(0)
            write_fully(file, data, 0)
            if is_synced:
                file.datasync()
        finally:
            file.close()

    def sync_indexes(self) -> None:
        """Make the existing index files durable. May run in any thread."""
        for suffix in DERIVED_SUFFIXES:
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
        self._is_newest_kept = False
        self.size = self.synced_bytes = self.unchecked_bytes = size
        self.next_offset = next_offset
        self.is_loaded_as_saved = self.indexes_synced = True

    def _remove_indexes(self) -> None:
        # An old index must not remain where a new one could not be written.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self.path(suffix)):
                self._files.remove(self.path(suffix))

    def _load_indexes(self) -> None:
        """Load the indexes or build them, and leave the segment's file as it was, open or closed."""
        was_open = self._file is not None
        try:
            self._load_or_build_indexes()
        finally:
            if not was_open:
                self.close_file()

    def _load_or_build_indexes(self) -> None:
        if not self.read_indexes() or not self._is_time_index_whole():
            try:
                self._build_indexes()
            except CorruptBatch:
                # The built indexes find the batches before the fault; a read beyond it meets the fault.
                self._recent_last_offsets = None
                return
            except OSError:
                # The built indexes end where the disk failed: a reader would pass over what follows.
                self.unload_indexes()
                self._is_newest_kept = False
                raise
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
                raise CorruptBatch(f"offset {header.base_offset} is at {position}")
            self.note(position, header.size, header.last_offset, header.max_timestamp)

    # Aborted transactions.

    def save_aborted(self) -> None:
        """Write the aborted transactions that are not in the .txnindex file yet. Raises OSError."""
        if self.aborted is not None:
            self.aborted.save(self._files, self.path(TRANSACTION_INDEX_SUFFIX))

    def load_aborted(self, count: int, crc: int) -> bool:
        """Use the first `count` entries of the .txnindex file; return False if their CRC-32C is not `crc`.

        Raises OSError.
        """
        self.aborted = AbortedTransactions.load(self._files, self.path(TRANSACTION_INDEX_SUFFIX), count, crc)
        return self.aborted is not None

    def settle_aborted(self) -> None:
        """Make the .txnindex file one of the aborted transactions that were noted. Raises OSError."""
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        if self.aborted is not None:
            self.aborted.save(self._files, path)
        elif self._files.exists(path):
            self._files.remove(path)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment, after all others."""
        if self.aborted is None:
            self.aborted = AbortedTransactions()
        self.aborted.append(aborted)

    # Search.

    def offset_after(self, position: int) -> int:
        """Return an offset after those of all batches before `position`, not far after them."""
        index = self.offset_index
        at = bisect_left(index.positions, position)
        return self.base_offset + index.offsets[at] + 1 if at < len(index) else self.next_offset

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
            return self._find_batch(0, offset)
        if not self._is_at(index.positions[at - 1], self.base_offset + index.offsets[at - 1]):
            self.replace_indexes()
            return self.position_of(offset)
        return self._find_batch(index.positions[at - 1], offset)

    def _find_batch(self, start: int, offset: int) -> int:
        is_checked = not self.unchecked_bytes
        return find_batch(self.file(), start, self.size, offset, self.base_offset, is_checked=is_checked)

    def start_before(self, timestamp: int) -> int:
        """Return an offset up to which every timestamp is smaller than `timestamp`."""
        times = self.time_index
        start, known = times.start_before(timestamp)
        if known < 0:
            return self.base_offset
        if not self._has_entry(known, self.base_offset + start):
            self.replace_indexes()
            return self.start_before(timestamp)
        return self.base_offset + start

    def largest_before(self, offset: int) -> int:
        """Return an offset below `offset` whose batch has a larger timestamp than every batch before it.

        The nearest one that is known; the base offset if none is.
        """
        known, largest_offset = self.max_timestamp, self.max_timestamp_offset
        if largest_offset >= offset:
            known, relative_offset = self.time_index.last_before(offset - self.base_offset)
            largest_offset = self.base_offset + relative_offset
        if known < 0:
            return self.base_offset
        if not self._has_entry(known, largest_offset):
            self.replace_indexes()
            return self.largest_before(offset)
        return largest_offset

    def _has_entry(self, timestamp: int, offset: int) -> bool:
        """Return whether an entry of the time index is right."""
        return not self.unchecked_bytes or self._is_at(self.position_of(offset), offset, timestamp)

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
