"""Find the segments that retention deletes: Kafka's rules, as a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.log.segments import Segments


@dataclass(slots=True, frozen=True)
class Retention:
    """The limits at `now_ms`: negative ones mean none, and nothing at or above `up_to` may be deleted."""

    now_ms: int
    retention_ms: int
    retention_bytes: int
    up_to: int

    def start_offset(self, segments: Segments, start_offset: int) -> int:
        """Return the new log start: after every leading segment that is too old or exceeds the size.

        A segment is too old when its largest timestamp is, or, without timestamps, its file. It exceeds the
        size when the log without it still has `retention_bytes`. Raises OSError.
        """
        surplus = segments.size_bytes - self.retention_bytes if self.retention_bytes >= 0 else -1
        for segment in segments:
            if not segment.size or segment.next_offset > self.up_to:
                break
            is_old = 0 <= self.retention_ms < self.now_ms - segment.newest_ms()
            if not is_old and surplus < segment.size:
                break
            surplus -= segment.size
            start_offset = max(start_offset, segment.next_offset)
        return start_offset
