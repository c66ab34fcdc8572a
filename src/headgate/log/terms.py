"""How a log is cut up, and what it says when it cannot do what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    keeps_all: bool = False
    """Whether each append is synced before the next: then whole batches behind a bad one are damage."""

    def room_for(self, end: int) -> int:
        """How much room there is to be behind `end` in a segment that ends there."""
        return min(end, self.room_bytes) if end >= self.room_after_bytes else 0

    def is_full(self, segment: Segment, size: int, first: BatchHeader, last: BatchHeader) -> bool:
        """Whether `size` bytes of batches, the first and the last of which are these, have no place there."""
        if not segment.size:
            return False
        if segment.size + size > self.segment_bytes:
            return True
        if 0 <= segment.first_timestamp < first.max_timestamp - self.segment_ms:
            return True
        return last.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET
