"""Find records by timestamp: the time index leads to a batch, whose records are then searched.

A batch may have many records, and decompress to many bytes. So a search is a generator of steps: it yields
None to pause, and a function to be run in a thread, which gets the bytes of one batch only. The log may
change at each step: a search continues by offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from headgate.log.batch import BatchHeader, iterate_records
from headgate.log.segment import Segment
from headgate.log.segments import Segments
from headgate.log.walking import CHUNK_BYTES


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
_Batch: TypeAlias = "tuple[BatchHeader, bytes]"
_Rank: TypeAlias = "tuple[int, int]"
"""The negated timestamp and the offset: the smallest is the first record with the largest timestamp."""

_LATEST_MS: Final = (1 << 63) - 1
_RECORDS_AT_ONCE: Final = 2000
"""Batches with more records, and compressed ones, are searched in a thread."""
_BATCHES_AT_ONCE: Final = 500
"""Number of batches whose headers are looked at in one step, up to a megabyte of them."""


def search_timestamp(log: Searched, segments: Segments, timestamp_ms: int) -> Search:
    """Find timestamp and offset of the log's first record at or after `timestamp_ms`."""
    position = 0
    while True:
        yield from _find_newest(segments, max(position, log.log_start_offset), timestamp_ms)
        start = max(position, log.log_start_offset)
        bounds = _bounds_with(segments, timestamp_ms, start)
        if bounds is None:
            return None
        candidate, position = _first_batch(log, *bounds, timestamp_ms)
        if candidate is None:
            yield None
            continue
        header, batch = candidate
        found = yield from _look_into(header, partial(_first_in, batch, timestamp_ms, start))
        if found is not None:
            return found


def _find_newest(segments: Segments, start: int, timestamp_ms: int) -> Generator[None, None, None]:
    """Find the largest timestamps of the segments from `start` on, up to the first with `timestamp_ms` or a
    later one. An unknown one is read from the index files of its segment, which takes long: one in a step.
    """
    position = start
    while True:
        for segment in segments.reaching(position):
            was_known = segment.is_newest_known
            newest = segment.max_timestamp
            if not was_known and segment.can_unload and segment is not segments.active:
                segment.unload_indexes()
            if newest >= timestamp_ms:
                return
            position = segment.next_offset
            if not was_known:
                break
        else:
            return
        yield None


def _bounds_with(segments: Iterable[Segment], timestamp_ms: int, start: int) -> tuple[int, int] | None:
    """Return the offsets, from `start` on, between which the first batch at or after `timestamp_ms` is."""
    for segment in segments:
        if segment.next_offset > start and segment.max_timestamp >= timestamp_ms:
            return max(segment.start_before(timestamp_ms), start), segment.next_offset
    return None


def _first_batch(log: Searched, position: int, end: int, timestamp_ms: int) -> tuple[_Batch | None, int]:
    """Return a batch that has `timestamp_ms` or a later one, if it is near, and the offset to continue at."""
    continue_at = end
    for header, batch in _some_batches(log, position, end):
        continue_at = header.next_offset
        if header.max_timestamp >= timestamp_ms:
            return (header, batch), continue_at
    return None, continue_at


def _first_in(batch: bytes, timestamp_ms: int, start_offset: int) -> Found:
    for offset, record in iterate_records(batch):
        if record.timestamp >= timestamp_ms and offset >= start_offset:
            return record.timestamp, offset
    return None


class _Span(NamedTuple):
    """The part of a segment in which the largest timestamp is searched."""

    bound: _Rank
    """The segment's largest timestamp and its base offset: no record in it has a better rank."""
    start: int
    end: int


def search_largest_timestamp(log: Searched, segments: Segments, end_offset: int) -> Search:
    """Find the largest timestamp of the batches below `end_offset`, and the first offset that has it.

    The headers of the batches tell which of them has it. Others are unpacked only if its record is deleted.
    """
    yield from _find_newest(segments, log.log_start_offset, _LATEST_MS)
    start = log.log_start_offset
    spans = [
        _Span(
            (-segment.max_timestamp, segment.base_offset),
            max(segment.base_offset, start),
            min(segment.next_offset, end_offset),
        )
        for segment in segments
        if segment.next_offset > start and segment.base_offset < end_offset and segment.max_timestamp >= 0
    ]
    best: _Rank | None = None
    for span in sorted(spans):
        if best is not None and best < span.bound:
            break
        best = yield from _best_in(log, segments, span, best)
    return None if best is None else (-best[0], best[1])


def _best_in(
    log: Searched, segments: Iterable[Segment], span: _Span, best: _Rank | None
) -> Generator[Callable[[], None] | None, None, _Rank | None]:
    """Return the best rank of the records in `span`, or `best` if none is better."""
    position, tried = max(_likely_start(segments, span), span.start), None
    while True:
        candidate = yield from _best_batch(log, position, span, tried, best)
        if candidate is None:
            return best
        header, batch = candidate
        found = yield from _look_into(header, partial(_largest_in, header, batch, span.start))
        if found is not None and (best is None or (-found[0], found[1]) < best):
            best = -found[0], found[1]
        if found is not None and found[0] == header.max_timestamp:
            return best
        # The record with the batch's largest timestamp is deleted: any batch may have the next one.
        position, tried = span.start, _rank(header)


def _likely_start(segments: Iterable[Segment], span: _Span) -> int:
    """Return an offset in `span` whose batch has a larger timestamp than all before it."""
    base_offset = span.bound[1]
    for segment in segments:
        if segment.base_offset == base_offset:
            return segment.largest_before(span.end)
    return base_offset  # it was removed or compacted meanwhile


def _best_batch(
    log: Searched, position: int, span: _Span, tried: _Rank | None, best: _Rank | None
) -> Generator[None, None, _Batch | None]:
    """Return the batch from `position` on with the best rank, worse than `tried` and better than `best`."""
    found: _Batch | None = None
    while True:
        better, position = _better_batch(log, position, span, tried, best)
        if better is not None:
            found, best = better, _rank(better[0])
        if position >= span.end:
            return found
        yield None


def _better_batch(
    log: Searched, position: int, span: _Span, tried: _Rank | None, best: _Rank | None
) -> tuple[_Batch | None, int]:
    """Do the same in some batches; return also the offset to continue at."""
    found: _Batch | None = None
    continue_at = span.end
    for header, batch in _some_batches(log, max(position, log.log_start_offset), span.end):
        continue_at = header.next_offset
        if header.max_timestamp < 0 or (tried is not None and not header.record_count):
            continue
        rank = _rank(header)
        if (tried is None or rank > tried) and (best is None or rank < best):
            found, best = (header, batch), rank
            if header.max_timestamp == -span.bound[0]:
                return found, span.end
    return found, continue_at


def _rank(header: BatchHeader) -> _Rank:
    return -header.max_timestamp, header.base_offset


def _largest_in(header: BatchHeader, batch: bytes, start_offset: int) -> Found:
    found: Found = None
    for offset, record in iterate_records(batch):
        if offset >= start_offset and record.timestamp > (found[0] if found else -1):
            found = record.timestamp, offset
            if record.timestamp == header.max_timestamp:
                break
    return found


def _some_batches(log: Searched, position: int, end: int) -> Iterator[_Batch]:
    """Yield the batches from `position` on, below `end`, that are looked at in one step."""
    size = 0
    for header, batch in islice(log.batches(position, end), _BATCHES_AT_ONCE):
        yield header, batch
        size += header.size
        if size >= CHUNK_BYTES:
            return


def _look_into(header: BatchHeader, look: Callable[[], Found]) -> Search:
    """Search a batch, in a thread if that may take long."""
    if not header.codec and header.record_count <= _RECORDS_AT_ONCE:
        return look()
    found: list[Found] = []
    yield lambda: found.append(look())
    return found[0]
