"""How much of a log waits for compaction: what the decision to compact it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.log.header import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from headgate.log.log import Log
    from headgate.log.segment import Segment


SPARE_SEGMENTS: Final = 40
"""How many segments a log may well hold besides what is live: it is compacted by the segment."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The closed segments that may be compacted: how many bytes of them were never, and were before."""

    dirty_bytes: int
    clean_bytes: int
    end_offset: int
    """Compaction may go up to here."""
    oldest: Segment | None
    """The first segment that was never compacted."""

    @property
    def dirty_ratio(self) -> float:
        """The share of what was never compacted; 0 where nothing waits."""
        return self.dirty_bytes / (self.dirty_bytes + self.clean_bytes) if self.dirty_bytes else 0.0

    def pressure(self, segment_bytes: int) -> float:
        """How many times as much waits as a log of such segments may well hold; 0 where nothing waits."""
        return self.dirty_bytes / (self.clean_bytes + SPARE_SEGMENTS * segment_bytes)

    @property
    def oldest_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch that waits; -1 without one. Raises OSError."""
        if self.oldest is None:
            return -1
        return read_header(self.oldest.file().pread(HEADER_BYTES, 0)).max_timestamp


def backlog_of(log: Log, not_beyond: int, younger_than_ms: int | None = None) -> Backlog:
    """What waits below `not_beyond`, and before the first segment with a record as young. Raises OSError."""
    dirty_bytes = clean_bytes = 0
    end_offset = max(log.compacted_to, log.log_start_offset)
    oldest: Segment | None = None
    for segment in log.segments.closed:
        if segment.base_offset < log.compacted_to:
            clean_bytes += segment.size
            continue
        if segment.next_offset > not_beyond:
            break
        if younger_than_ms is not None and segment.max_timestamp > younger_than_ms:
            break
        dirty_bytes += segment.size
        end_offset = segment.next_offset
        oldest = oldest or segment
    return Backlog(dirty_bytes, clean_bytes, end_offset, oldest)
