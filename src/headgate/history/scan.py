"""Reads the past of a group from the log of its shard and the history beside it.

The bytes of a segment are searched for the group's name, a megabyte at a time. Only batches that contain it
are decoded. The newest segment comes first. Reading ends at the first segment of the history that cannot add
anything, or when the time is up; the unread part then counts as unknown. Rules:

1. The answer holds only durable data: the log is read up to its high watermark.
2. A run counts if its last record is in the log.
3. The segments are selected on the loop. Reading, decoding and collecting are done in a thread, which pauses
   regularly, so that the loop gets the interpreter.
4. Records of transactions count if their transaction was committed (`outcomes`). Until then they are no part
   of the past; afterwards they have the place and the time of their commit.
5. No compaction replaces segments during a scan. Retention that deletes a segment, or a recovery of the log,
   ends the scan with ScanCancelled: start it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from headgate.core.offsets.history import GroupHistory, HistoryCollector, HistoryQuery, TopicLife
from headgate.domain.ids import Millis, TopicName
from headgate.history.outcomes import Outcomes, Undecided
from headgate.log.batch import Record, iterate_records
from headgate.log.compaction import Steps
from headgate.log.filesystem import File
from headgate.log.index import OffsetIndex
from headgate.log.log import Log
from headgate.log.segment import Segment
from headgate.log.walking import CHUNK_BYTES, walk_batches
from headgate.records import ChangeAuthor, MalformedRecord, OffsetCommit, OffsetTombstone, decode
from headgate.records.history import decode_mark, origin_of
from headgate.records.offset_commit import text_bytes
from headgate.records.runs import RunPlace, run_place
from headgate.runtime.slices import PAUSE_SECONDS, SLICE_SECONDS

ResultT = TypeVar("ResultT")

_LOOK_UP_EVERY: Final = 32
_FARTHEST_WALK_BYTES: Final = 64 << 10
"""Distance from which a lookup in the index is faster than a walk over the batches."""


class ScanCancelled(Exception):
    """The logs have changed since the start of the scan."""


@dataclass(frozen=True, slots=True)
class ScanOrder(Generic[ResultT]):
    """What to read, for how long, and how to render the result."""

    query: HistoryQuery
    log: Log
    visible_end: int
    """Offset of the log from which on records can still be lost."""
    undecided: Undecided
    """The transactions of the log that are not decided."""
    history: Log | None
    """None if no history is kept, or it has no records."""
    known_since: Millis
    """Time from which on log and history together are complete."""
    life_of: Callable[[TopicName], TopicLife]
    """Returns the topic of a name; called on the loop, after all reading."""
    is_time_up: Callable[[], bool]
    render: Callable[[GroupHistory], ResultT]
    """Makes the result from the answer, in the thread."""


def known_since(history: Log, now: Millis, retention_ms: int) -> Millis:
    """Return the time from which on a written history is complete. Raises OSError, CorruptBatch."""
    for header, batch in history.batches(history.log_start_offset):
        for _, record in iterate_records(batch):
            since = decode_mark(record.key, record.value)
            # Deleted records were moved before this one.
            return Millis(header.base_timestamp) if since is None else since
    # All records were moved at least one retention ago, or they would not be deleted.
    return now if retention_ms < 0 else Millis(now - retention_ms)


def scan(order: ScanOrder[ResultT]) -> Steps[ResultT]:
    """Answer the query. Raises ScanCancelled, OSError, CorruptBatch."""
    walked = [log.segments for log in (order.log, order.history) if log is not None]
    for segments in walked:
        segments.walks += 1
    try:
        return (yield from _Scan(order).run())
    finally:
        for segments in walked:
            segments.walks -= 1


class _Scan(Generic[ResultT]):
    def __init__(self, order: ScanOrder[ResultT]) -> None:
        self._order = order
        self._collector = HistoryCollector(order.query)
        self._generations = {id(log): log.generation for log in (order.log, order.history) if log}

    def run(self) -> Steps[ResultT]:
        """Read the log, then the history, and return the rendered answer."""
        order, collector = self._order, self._collector
        log, history = order.log, order.history
        outcomes = Outcomes(order.undecided)
        reader = _Reader(order.query, collector, log.log_start_offset, order.visible_end, outcomes)
        for segment in reversed(list(log.segments)):
            outcomes.add(segment.aborted or ())
            yield from self._read_segment(log, segment, reader)
        since = order.known_since
        if history is not None:
            # Records that are moved after this are still in the log too: no compaction replaces it meanwhile.
            end = history.log_end_offset
            moved = _Reader(order.query, collector, history.log_start_offset, end)
            for segment in reversed(list(history.segments)):
                self._check(history, segment)
                if not segment.size:
                    continue  # empty after a crash: it has no time that could end the search
                moved_until = Millis(segment.max_timestamp)
                is_answered = yield from _elsewhere(partial(collector.is_answered, moved_until))
                if is_answered or order.is_time_up():
                    since = max(since, moved_until)
                    break
                yield from self._read_segment(history, segment, moved)
        names = yield from _elsewhere(collector.topics)
        lives = {name: order.life_of(name) for name in names}
        return (yield from _elsewhere(partial(self._finish, since, lives)))

    def _finish(self, since: Millis, lives: Mapping[TopicName, TopicLife]) -> ResultT:
        try:
            return self._order.render(self._collector.answer(since, lives))
        finally:
            self._collector.forget()  # in the thread: freeing so many objects takes long

    def _check(self, log: Log, segment: Segment) -> None:
        is_there = any(other is segment for other in log.segments)
        if not is_there or log.generation != self._generations[id(log)]:
            raise ScanCancelled(f"{log.directory} has changed")

    def _read_segment(self, log: Log, segment: Segment, reader: _Reader) -> Steps[None]:
        self._check(log, segment)
        index, file, position = segment.offset_index, segment.pin(), 0
        stretch = _Stretch(file, segment.size, index)
        try:
            while position < stretch.size:
                position = yield from _elsewhere(partial(reader.read, stretch, position))
                if reader.undecided is not None:
                    self._check(log, segment)
                    reader.decide(self._ends(reader.undecided))
        finally:
            segment.unpin()
            if segment is not log.segments.active:
                segment.close_file()
                if segment.indexes_synced:
                    segment.unload_indexes()
        yield from _elsewhere(self._collector.end_segment)

    def _ends(self, run: RunPlace) -> bool:
        """Return whether the last record of a run is in the log."""
        log, last = self._order.log, run.first_offset + run.total - 1
        if last >= self._order.visible_end:
            return False
        for offset, record in iterate_records(log.read(last, 1, minimum_one=True)):
            # A run has batches of its own: the first record of a batch represents its last.
            return run_place(record.headers) == run._replace(before=offset - run.first_offset)
        return False


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The bytes of a segment at one time, and its index of batches."""

    file: File
    size: int
    index: OffsetIndex


class _Reader:
    """Finds the records of a query in the segments of one log. Runs in the thread."""

    def __init__(
        self,
        query: HistoryQuery,
        collector: HistoryCollector,
        start: int,
        end: int,
        outcomes: Outcomes | None = None,
    ) -> None:
        """Read records from offset `start` to `end - 1`. Without `outcomes` the log is the history, whose
        records count.
        """
        self._collector = collector
        self._start = start
        self._end = end
        self._outcomes = outcomes
        self._needle = text_bytes(query.group_id)
        if query.topics is not None and len(query.topics) == 1:
            self._needle += text_bytes(query.topics[0][0])
        self._slice_end = 0.0
        self._runs: dict[tuple[int, int], bool] = {}
        self.undecided: RunPlace | None = None
        """A run that the reader cannot judge until `decide` is called."""

    def decide(self, is_whole: bool) -> None:
        """Set whether the undecided run is complete."""
        assert self.undecided is not None
        self._runs[self.undecided.first_offset, self.undecided.total] = is_whole
        self.undecided = None

    def read(self, stretch: _Stretch, position: int) -> int:
        """Read about a megabyte from a position. Return the position to continue at."""
        self._slice_end = time.perf_counter() + SLICE_SECONDS
        chunk = stretch.file.pread(CHUNK_BYTES + len(self._needle) - 1, position)
        found, end = chunk.find(self._needle), min(position + CHUNK_BYTES, stretch.size)
        while found >= 0:
            start = stretch.index.last_position_at_or_below(position + found)
            for at, header, view in walk_batches(stretch.file, start, stretch.size):
                after = at + header.size
                if after <= position + found:
                    continue
                if not header.is_control and (self._outcomes is None or self._outcomes.counts(header)):
                    self._read_batch(bytes(view))
                    if self.undecided is not None:
                        return at
                if after >= end:
                    return after
                found = chunk.find(self._needle, after - position)
                if found < 0 or position + found > after + _FARTHEST_WALK_BYTES:
                    break
            else:
                return stretch.size
        return end

    def _read_batch(self, batch: bytes) -> None:
        for count, (offset, record) in enumerate(iterate_records(batch)):
            if count % _LOOK_UP_EVERY == 0 and time.perf_counter() > self._slice_end:
                time.sleep(PAUSE_SECONDS)
                self._slice_end = time.perf_counter() + SLICE_SECONDS
            if record.key is None or self._needle not in record.key or not self._start <= offset < self._end:
                continue
            if self._outcomes is None:
                origin = origin_of(record.headers)
                if origin is not None:
                    self._collect(origin.offset, origin.timestamp, record)
                continue
            place = run_place(record.headers)
            if place is not None:
                is_whole = self._runs.get((place.first_offset, place.total))
                if is_whole is None:
                    self.undecided = place
                    return
                if not is_whole:
                    continue
            self._collect(offset, record.timestamp, record)

    def _collect(self, log_offset: int, written: int, record: Record) -> None:
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecord:
            return  # `headgate log verify` reports it
        if isinstance(decoded, OffsetCommit | OffsetTombstone):
            self._collector.take(log_offset, Millis(written), decoded)
        elif isinstance(decoded, ChangeAuthor):
            self._collector.take_author(log_offset, decoded)


def _elsewhere(work: Callable[[], ResultT]) -> Steps[ResultT]:
    """Run `work` in the thread and return its result."""
    results: list[ResultT] = []
    yield lambda: results.append(work())
    return results[0]
