"""How a log is cut up, and what it says when it cannot do what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from headgate.log.segment import LARGEST_RELATIVE_OFFSET

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader
    from headgate.log.segment import Segment


class LogFailed(OSError):
    """The log takes no appends: an earlier write or sync failed and `recover` has not succeeded since."""


class OffsetOutOfRange(Exception):
    """The offset lies before the log's start or past its end."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """How a log is cut up. Sizes are bytes; `segment_ms` is compared with the batches' own timestamps."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    sync_on_roll: bool = True
    room_bytes: int = 0
    """How much room is reserved on the disk ahead of what is written, at most; never more than that is."""
    room_after_bytes: int = 0
    """A segment smaller than that has none."""
    reserves_segments: bool = False
    """Whether a segment has room for all that it may hold from its first batch on."""
    segment_jitter_ms: int = 0
    """By how much less than `segment_ms` a segment may be open: as many do not end at the same time."""
    keeps_all: bool = False
    """Whether each append is synced before the next: then whole batches behind a bad one are damage."""

    def room_for(self, end: int) -> int:
        """How much room there is to be behind `end` in a segment that ends there."""
        if self.reserves_segments:
            return max(self.segment_bytes - end, 0)
        return min(end, self.room_bytes) if end >= self.room_after_bytes else 0

    @property
    def has_room(self) -> bool:
        """Whether there may be room behind the end of a log."""
        return self.room_bytes > 0 or self.reserves_segments

    def is_full(self, segment: Segment, size: int, first: BatchHeader, last: BatchHeader) -> bool:
        """Whether `size` bytes of batches, the first and the last of which are these, have no place there."""
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
        """By how much less than `segment_ms` this segment is open: by chance, but always the same."""
        most = min(self.segment_jitter_ms, self.segment_ms)
        return crc32(str(segment.path()).encode()) % most if most > 0 else 0
