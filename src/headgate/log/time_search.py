"""Find records by timestamp: the time index leads to a batch, whose records are then searched.

A batch may have many records, and decompress to many bytes. So a search is a generator of steps: it yields
None to pause, and a function to be run in a thread, which gets the bytes of one batch only. The log may
change at each step: a search continues by offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias

from headgate.log.batch import BatchHeader, iterate_records
from headgate.log.segment import Segment
from headgate.log.walking import walk_batches


class Searched(Protocol):
    """The part of a log that a search uses."""

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        ...

    def batches(self, from_offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield header and bytes of every batch from the first that reaches `from_offset`, below `limit`."""
        ...


Found: TypeAlias = "tuple[int, int] | None"
"""A timestamp and the offset of the record that has it."""
Search: TypeAlias = "Generator[Callable[[], None] | None, None, Found]"

_RECORDS_AT_ONCE: Final = 2000
"""Batches with more records, and compressed ones, are searched in a thread."""
_BATCHES_AT_ONCE: Final = 100


def search_timestamp(log: Searched, segments: Iterable[Segment], timestamp_ms: int) -> Search:
    """Find timestamp and offset of the log's first record at or after `timestamp_ms`."""
    position = 0
    while True:
        start = max(position, log.log_start_offset)
        candidate = _first_batch(segments, timestamp_ms, start)
        if candidate is None:
            return None
        header, batch = candidate
        found = yield from _look_into(header, partial(_first_in, batch, timestamp_ms, start))
        if found is not None:
            return found
        position = header.next_offset


def _first_batch(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int
) -> tuple[BatchHeader, bytes] | None:
    """Return the first batch from `start_offset` on whose maximum timestamp is at or after `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp < timestamp_ms or segment.next_offset <= start_offset:
            continue
        first = max(segment.start_before(timestamp_ms), start_offset)
        for _, header, batch in walk_batches(segment.file(), segment.position_of(first), segment.size):
            if header.max_timestamp >= timestamp_ms and header.next_offset > start_offset:
                return header, bytes(batch)
    return None


def _first_in(batch: bytes, timestamp_ms: int, start_offset: int) -> Found:
    for offset, record in iterate_records(batch):
        if record.timestamp >= timestamp_ms and offset >= start_offset:
            return record.timestamp, offset
    return None


def search_largest_timestamp(log: Searched, segments: Iterable[Segment]) -> Search:
    """Find the largest timestamp of the log, and the first offset in its batch that has it."""
    start = log.log_start_offset
    visible = [
        (segment.max_timestamp, segment.base_offset, segment.next_offset, segment.max_timestamp_offset)
        for segment in segments
        if segment.next_offset > start and segment.max_timestamp >= 0
    ]
    best: Found = None
    for largest, base_offset, end_offset, largest_offset in sorted(
        visible, key=lambda one: (-one[0], one[1])
    ):
        if best is not None and best[0] >= largest:
            break
        found = yield from _largest_from(log, max(largest_offset, start), end_offset, largest)
        if found is None or found[0] != largest:
            # The record with the segment's largest timestamp is deleted: search all that is left of the
            # segment.
            found = yield from _largest_from(log, max(base_offset, start), end_offset, largest)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _largest_from(log: Searched, position: int, end_offset: int, largest: int) -> Search:
    """Find the largest timestamp, at most `largest`, from `position` on, below `end_offset`."""
    best: Found = None
    while position < end_offset:
        start = max(position, log.log_start_offset)
        position = end_offset
        candidate: tuple[BatchHeader, bytes] | None = None
        for header, batch in islice(log.batches(start, end_offset), _BATCHES_AT_ONCE):
            position = header.next_offset
            if header.max_timestamp > (best[0] if best else -1):
                candidate = header, bytes(batch)
                break
        yield None
        if candidate is None:
            continue
        header, data = candidate
        found = yield from _look_into(header, partial(_largest_in, data, start))
        if found is not None and (best is None or found[0] > best[0]):
            best = found
        if best is not None and best[0] == largest:
            break
    return best


def _largest_in(batch: bytes, start_offset: int) -> Found:
    found: Found = None
    for offset, record in iterate_records(batch):
        if offset >= start_offset and record.timestamp > (found[0] if found else -1):
            found = record.timestamp, offset
    return found


def _look_into(header: BatchHeader, look: Callable[[], Found]) -> Search:
    """Search a batch, in a thread if that may take long."""
    if not header.codec and header.record_count <= _RECORDS_AT_ONCE:
        return look()
    found: list[Found] = []
    yield lambda: found.append(look())
    return found[0]
