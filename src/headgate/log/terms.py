"""Settings of a log, and exceptions of its operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from headgate.log.segment_indexes import LARGEST_RELATIVE_OFFSET

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader
    from headgate.log.segment import Segment


class LogFailed(OSError):
    """The log accepts no appends: an earlier write or sync failed, and `recover` has not succeeded since."""


class OffsetOutOfRange(Exception):
    """The offset is before the log start or after the log end."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """How a log is divided and preallocated. Sizes are bytes; `segment_ms` is compared with batch
    timestamps.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    sync_on_roll: bool = True
    room_bytes: int = 0
    """Maximum space preallocated after the end of a segment; never more than the segment's size."""
    room_after_bytes: int = 0
    """Size of a segment from which on space is preallocated."""
    reserves_segments: bool = False
    """Whether a segment's maximum size is preallocated from its first batch on."""
    segment_jitter_ms: int = 0
    """Maximum reduction of `segment_ms`, so that many segments do not end at the same time."""
    keeps_all: bool = False
    """Whether each append is synced before the next: then whole batches after a bad one are damage."""

    def room_for(self, end: int) -> int:
        """Return how many bytes to preallocate after `end` in a segment that ends there."""
        if self.reserves_segments:
            return max(self.segment_bytes - end, 0)
        return min(end, self.room_bytes) if end >= self.room_after_bytes else 0

    @property
    def has_room(self) -> bool:
        """Whether preallocated space may follow the end of a log."""
        return self.room_bytes > 0 or self.reserves_segments

    def is_full(self, segment: Segment, size: int, first: BatchHeader, last: BatchHeader) -> bool:
        """Return whether batches of `size` bytes, from `first` to `last`, do not fit into the segment."""
        if not segment.size:
            return False
        if segment.size + size > self.segment_bytes:
            return True
        oldest = first.max_timestamp - self.segment_ms
        if self.segment_jitter_ms:
            oldest += self._jitter_ms(segment)
        if 0 <= segment.first_timestamp < oldest:
            return True
        return last.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET

    def _jitter_ms(self, segment: Segment) -> int:
        """Return the reduction of `segment_ms` for this segment: derived from its path, so always the
        same.
        """
        most = min(self.segment_jitter_ms, self.segment_ms)
        return crc32(str(segment.path()).encode()) % most if most > 0 else 0
