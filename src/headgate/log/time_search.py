"""Finding records by timestamp: through the time index to a batch, then record by record inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.log.batch import iterate_records
from headgate.log.segment import Segment, walk_batches

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
    best: tuple[int, Segment] | None = None
    for segment in segments:
        if (
            segment.size
            and segment.next_offset > start_offset
            and (best is None or segment.max_timestamp > best[0])
        ):
            best = segment.max_timestamp, segment
    if best is None:
        return None
    timestamp, segment = best
    if segment.max_timestamp_offset >= start_offset:
        position = segment.position_of(segment.max_timestamp_offset)
    else:
        # The segment's largest is gone from sight: look at what is left of it.
        position = segment.position_of(start_offset)
        timestamp = -1
    found: tuple[int, int] | None = None
    for _, header, batch in walk_batches(segment.file(), position, segment.size):
        if found is not None and header.max_timestamp <= found[0]:
            continue
        for offset, record in iterate_records(batch):
            if offset >= start_offset and (found is None or record.timestamp > found[0]):
                found = record.timestamp, offset
        if found is not None and found[0] == timestamp:
            break
    return found
