"""How much of a log is due for compaction; the decision to compact it uses this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.log.header import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from headgate.log.log import Log
    from headgate.log.segment import Segment


SPARE_SEGMENTS: Final = 40
"""Number of segments that a log may have besides its live records: compaction works by whole segments."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The closed segments that may be compacted: bytes never compacted (dirty), and compacted before
    (clean).
    """

    dirty_bytes: int
    clean_bytes: int
    end_offset: int
    """Offset up to which compaction may go."""
    oldest: Segment | None
    """The first segment that was never compacted."""

    @property
    def dirty_ratio(self) -> float:
        """Share of dirty bytes; 0 without any."""
        return self.dirty_bytes / (self.dirty_bytes + self.clean_bytes) if self.dirty_bytes else 0.0

    def pressure(self, segment_bytes: int) -> float:
        """Return the dirty bytes as a multiple of those that a log of such segments may have; 0 without
        any.
        """
        return self.dirty_bytes / (self.clean_bytes + SPARE_SEGMENTS * segment_bytes)

    @property
    def oldest_timestamp_ms(self) -> int:
        """The largest timestamp of the first dirty batch, in ms; -1 without one. Raises OSError."""
        if self.oldest is None:
            return -1
        return read_header(self.oldest.peek(HEADER_BYTES, 0)).max_timestamp


def backlog_of(log: Log, not_beyond: int, younger_than_ms: int | None = None) -> Backlog:
    """Return the backlog below `not_beyond` and before the first segment with a record younger than
    `younger_than_ms`. Raises OSError.
    """
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
