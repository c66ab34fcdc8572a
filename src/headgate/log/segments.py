"""The segments of one log in order, and reads across them."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headgate.log.header import HEADER_BYTES, CorruptBatch, read_header
from headgate.log.segment import Segment
from headgate.log.transaction_index import NO_TRANSACTIONS, ListedTransactions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headgate.log.header import BatchHeader
    from headgate.log.transaction_index import AbortedTransaction

_INDEXES_KEPT: Final = 4
"""Closed segments of a log whose indexes stay in memory after a read, for readers at different places."""
_MOST_INDEXES_KEPT: Final = 64
_INDEXED_BYTES_KEPT: Final = 8 << 30
"""Bytes of the segments of which more indexes than `_INDEXES_KEPT` stay; an index has at most 0.5 % of it."""


class Segments:
    """Segments by base offset; the last one is the active one, which alone grows."""

    __slots__ = ("_base_offsets", "_recently_read", "_segments", "has_aborted", "walks")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.walks = 0
        """Number of running iterations over all batches: until they end, no segment may be replaced."""
        self.has_aborted = False
        """Whether any transaction was noted as aborted."""
        self._recently_read: list[Segment] = []
        """The closed segments that were read last. The file of the last one may be open."""
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment | None:
        """The segment that appends go to; None in a log never written."""
        return self._segments[-1] if self._segments else None

    @property
    def closed(self) -> list[Segment]:
        """All segments but the active one."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        """Size of all batches."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Add a segment after all others."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        """Replace the consecutive segments `old` by `new`; no file is touched."""
        at = self._segments.index(old[0])
        assert self._segments[at : at + len(old)] == old
        self._segments[at : at + len(old)] = new
        self._base_offsets = [segment.base_offset for segment in self._segments]

    def count_before(self, offset: int) -> int:
        """Return how many segments lie wholly before `offset`; the last one never does."""
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def remove_before(self, offset: int, at_most: int) -> None:
        """Remove the oldest segments, and their files, wholly before `offset`, up to `at_most`. Raises
        OSError.
        """
        for _ in range(min(self.count_before(offset), at_most)):
            self._segments[0].remove()
            del self._segments[0], self._base_offsets[0]

    def remove_after(self, offset: int) -> None:
        """Remove the segments, and their files, that begin after `offset`, except the first. Raises
        OSError.
        """
        keep = max(bisect_right(self._base_offsets, offset), 1)
        while len(self._segments) > keep:
            self._segments[-1].remove()
            del self._segments[-1], self._base_offsets[-1]

    def read(
        self, offset: int, limit: int, max_bytes: int, *, minimum_one: bool, unless_bytes: int
    ) -> bytes | None:
        """Return whole batches of one segment, from the first that reaches `offset`, below `limit`.

        None, without reading, if that would be more than `unless_bytes`.
        """
        at = max(bisect_right(self._base_offsets, offset) - 1, 0)
        # If compaction emptied the end of a segment, the next one has the first batch.
        while at < len(self._segments):
            segment = self._segments[at]
            if segment.base_offset >= limit:
                break
            self._begin_read(segment)
            start = segment.position_of(offset)
            end = segment.size if limit >= segment.next_offset else segment.position_of(limit)
            if start < end:
                if min(end - start, max_bytes) > unless_bytes:
                    return None
                return segment.read(start, end, max_bytes, minimum_one=minimum_one)
            at += 1
        return b""

    def _begin_read(self, segment: Segment) -> None:
        """Close the file of the closed segment that was read before, and free older indexes: a reader of the
        whole log passes all of them.
        """
        recent = self._recently_read
        if segment is self.active or (recent and segment is recent[-1]):
            return
        if segment in recent:
            recent.remove(segment)
        recent.append(segment)
        while self._has_too_many_indexes():
            oldest = recent.pop(0)
            with suppress(OSError):
                oldest.close_file()
            if oldest.can_unload:
                oldest.unload_indexes()
        self.close_read(but=segment)

    def _has_too_many_indexes(self) -> bool:
        recent = self._recently_read
        if len(recent) <= _INDEXES_KEPT:
            return False
        return len(recent) > _MOST_INDEXES_KEPT or sum(one.size for one in recent) > _INDEXED_BYTES_KEPT

    def close_read(self, but: Segment | None = None) -> None:
        """Close the files of the closed segments that were read, except one."""
        for segment in self._recently_read:
            if segment is not but and segment is not self.active:
                with suppress(OSError):  # nothing was written to it since the file was closed last
                    segment.close_file()

    def header_of(self, offset: int) -> BatchHeader | None:
        """Return the header of the first batch that reaches `offset`; None without one. Raises OSError,
        CorruptBatch.
        """
        for segment in self.reaching(offset):
            try:
                position = segment.position_of(offset)
                if position < segment.size:
                    return read_header(segment.file().pread(HEADER_BYTES, position))
            finally:
                if segment is not self.active:
                    segment.close_file()
        return None

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction to the segment with its marker, after all others of this segment."""
        self.has_aborted = True
        self.reaching(aborted.last_offset)[0].note_aborted(aborted)

    def save_aborted(self) -> None:
        """Write the aborted transactions that are not in the segments' files yet. Raises OSError."""
        if self.has_aborted:
            for segment in self._segments:
                segment.save_aborted()

    def forget_aborted(self) -> None:
        """Drop the aborted transactions of all segments, to be noted again."""
        self.has_aborted = False
        for segment in self._segments:
            segment.aborted = None

    def aborted(self, offset: int, size: int, limit: int) -> ListedTransactions:
        """Return the aborted transactions with records in `size` bytes of batches from the one with `offset`
        on, below `limit`; some after them may be included.

        Raises OSError, CorruptBatch.
        """
        if not self.has_aborted:
            return NO_TRANSACTIONS
        found: list[ListedTransactions] = []
        segments = self.reaching(offset)
        end = min(_end_of(segments, offset, size), limit)
        for segment in segments:
            if segment.aborted is not None:
                some, is_complete = segment.aborted.find(offset, end)
                found.append(some)
                if is_complete:
                    break
        return ListedTransactions.together(found)

    def reaching(self, offset: int) -> list[Segment]:
        """Return the segment with `offset`, and all after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]


def _end_of(segments: Iterable[Segment], offset: int, size: int) -> int:
    """Return an offset after the last record in `size` bytes of batches from the one with `offset` on."""
    end = offset
    for segment in segments:
        start = segment.position_of(offset)
        if start < segment.size:
            return segment.offset_after(start + size)
        end = segment.next_offset
    return end


def last_crc(segments: Segments, end_offset: int) -> int:
    """Return the CRC in the header of the batch that ends at `end_offset`; -1 if none ends there."""
    try:
        header = segments.header_of(end_offset - 1)
    except (OSError, CorruptBatch):
        return -1
    return header.crc if header is not None and header.next_offset == end_offset else -1
