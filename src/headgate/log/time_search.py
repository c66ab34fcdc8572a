"""Finding records by timestamp: through the time index to a batch, then record by record inside it.

A batch may hold many records, and unpack to many more bytes than it has. So a search is a generator of
steps: it yields None where others may have their turn, and a function to have it run in a thread, which
sees the bytes of one batch alone. The log may change at each step: a search goes on by offsets.
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
    """A log that is searched."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    def batches(self, from_offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Header and bytes of every batch from the first that reaches `from_offset`, below `limit`."""
        ...


Found: TypeAlias = "tuple[int, int] | None"
"""A timestamp and the offset of the record that has it."""
Search: TypeAlias = "Generator[Callable[[], None] | None, None, Found]"

_RECORDS_AT_ONCE: Final = 2000
"""In a batch of more records, or of compressed ones, a thread looks."""
_BATCHES_AT_ONCE: Final = 100


def found_now(search: Search) -> Found:
    """What a search comes to, all of it here and now."""
    while True:
        try:
            work = next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
        if work is not None:
            work()


def search_timestamp(log: Searched, segments: Iterable[Segment], timestamp_ms: int) -> Search:
    """Timestamp and offset of the log's first record that is at or after `timestamp_ms`."""
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
    """The first batch from `start_offset` on whose greatest timestamp is at or after `timestamp_ms`."""
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
    """The largest timestamp of the log, and the first offset in its batch that has it."""
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
            # The segment's largest is gone from sight: look at all that is left of it.
            found = yield from _largest_from(log, max(base_offset, start), end_offset, largest)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _largest_from(log: Searched, position: int, end_offset: int, largest: int) -> Search:
    """The largest timestamp from `position` on, and no more than `largest`, below `end_offset`."""
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
    """Look into a batch, in a thread if that may take long."""
    if not header.codec and header.record_count <= _RECORDS_AT_ONCE:
        return look()
    found: list[Found] = []
    yield lambda: found.append(look())
    return found[0]
