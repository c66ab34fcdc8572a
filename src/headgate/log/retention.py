"""Which of a log's oldest segments have had their time: Kafka's rules, as one pure decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.log.segments import Segments


@dataclass(slots=True, frozen=True)
class Retention:
    """What may be kept, at `now_ms`: negative limits are none, and nothing at or past `up_to` may go."""

    now_ms: int
    retention_ms: int
    retention_bytes: int
    up_to: int

    def start_offset(self, segments: Segments, start_offset: int) -> int:
        """Where the log is to start: past every leading segment that is too old or too much.

        A segment is too old when its newest timestamp is, or, without timestamps, its file. It is too much
        when the log without it still holds `retention_bytes`. Raises OSError.
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
