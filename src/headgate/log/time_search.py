"""Finding records by timestamp: through the time index to a batch, then record by record inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.log.batch import iterate_records
from headgate.log.segment import Segment
from headgate.log.walking import walk_batches

if TYPE_CHECKING:
    from collections.abc import Iterable


def find_timestamp(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record from `start_offset` on that is at or after `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp < timestamp_ms or segment.next_offset <= start_offset:
            continue
        first = max(segment.base_offset + segment.time_index.start_before(timestamp_ms), start_offset)
        for _, header, batch in walk_batches(segment.file(), segment.position_of(first), segment.size):
            if header.max_timestamp < timestamp_ms:
                continue
            for offset, record in iterate_records(batch):
                if record.timestamp >= timestamp_ms and offset >= start_offset:
                    return record.timestamp, offset
    return None


def find_largest_timestamp(segments: Iterable[Segment], start_offset: int) -> tuple[int, int] | None:
    """The largest timestamp from `start_offset` on, and the first offset in its batch that has it."""
    visible = [s for s in segments if s.next_offset > start_offset and s.max_timestamp >= 0]
    best: tuple[int, int] | None = None
    for segment in sorted(visible, key=lambda s: (-s.max_timestamp, s.base_offset)):
        if best is not None and best[0] >= segment.max_timestamp:
            break
        found = _largest_in(segment, start_offset)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _largest_in(segment: Segment, start_offset: int) -> tuple[int, int] | None:
    first = max(segment.max_timestamp_offset, start_offset)
    found = _largest_from(segment, first, start_offset)
    if found is not None and found[0] == segment.max_timestamp:
        return found
    # The segment's largest is gone from sight: look at all that is left of it.
    return _largest_from(segment, start_offset, start_offset)


def _largest_from(segment: Segment, first: int, start_offset: int) -> tuple[int, int] | None:
    found: tuple[int, int] | None = None
    for _, header, batch in walk_batches(segment.file(), segment.position_of(first), segment.size):
        if found is not None and header.max_timestamp <= found[0]:
            continue
        for offset, record in iterate_records(batch):
            if offset >= start_offset and record.timestamp > (found[0] if found else -1):
                found = record.timestamp, offset
        if found is not None and found[0] == segment.max_timestamp:
            break
    return found
