"""Moves records that compaction removes from a partition of `__consumer_offsets` into its history.

One writer serves one compaction. It encodes the offered records into batches, appends these on the loop,
which is a copy into the page cache, and syncs in the thread of the compaction. Group metadata and all other
records that are not offsets, or the authors of their changes, are skipped.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.domain.ids import Millis
from headgate.log.batch import Record, varint
from headgate.log.builder import BatchBuilder, ByteRows
from headgate.log.compaction import Steps
from headgate.log.log import Log
from headgate.log.record_columns import Int64s, RecordColumns
from headgate.records.change_author import KEY_START as AUTHOR_KEY_START
from headgate.records.change_author import KEY_TYPE as AUTHOR_KEY_TYPE
from headgate.records.history import (
    ORIGIN_BYTES,
    ORIGIN_KEY,
    SINCE_EVER,
    Origin,
    encode_mark,
)
from headgate.records.model import NO_TIMESTAMP
from headgate.records.offset_commit import KEY_STARTS, KEY_TYPE
from headgate.runtime.clock import Clock
from headgate.topics.partition import Partition

BATCH_BYTES: Final = 32 << 10
"""Small, because a query for one group decodes every batch with a record of it."""
FLUSH_BYTES: Final = 256 << 10
"""Encoded bytes at which they are written."""
UNSYNCED_BYTES: Final = 4 << 20
"""Written bytes at which a sync is due."""
LONGEST_TURN_MS: Final = 1000
"""Upper bound by which a commit's time is later than the timestamp of its record."""
_KEPT: Final = (*KEY_STARTS, AUTHOR_KEY_START)
_RECORD_OVERHEAD: Final = 48
_LAID_OUT_AT_ONCE: Final = 64
_FEWEST_ALIKE: Final = 8
"""Average number of consecutive records of one length from which adding them together is faster."""
_FROM_TWO_BYTES, _FROM_THREE_BYTES = 1 << 6, 1 << 13
"""Lengths from which on their varints take two and three bytes; keys never need more."""
_ORIGIN_HEAD: Final = varint(1) + varint(len(ORIGIN_KEY)) + ORIGIN_KEY + varint(ORIGIN_BYTES)
"""End of a record, without the header's value: the number of headers, one, and its key."""


class HistoryWriter:
    """A `headgate.log.compaction.Dropped` that keeps offsets."""

    def __init__(
        self, history: Partition, clock: Clock, *, is_first: bool, moved_from: Log | None = None
    ) -> None:
        """`is_first`: nothing was ever removed from the partition of this history. `moved_from` is its log:
        if the system clock was set back, moves are still dated after the times in it.
        """
        self._history = history
        self._clock = clock
        self._is_first = is_first
        self._moved_from = moved_from
        self._not_before = NO_TIMESTAMP
        self._batch: BatchBuilder | None = None
        self._full: list[bytearray] = []
        self._full_bytes = 0
        self._unsynced_bytes = 0

    def offer(self, offset: int, record: Record) -> None:
        """Add a record to the history if it is an offset, or the author of a change."""
        key = record.key
        if key is None or not key.startswith(_KEPT):
            return
        batch = self._open_batch()
        origin = Origin(offset, record.timestamp).header()
        size = len(key) + len(record.value or b"") + _RECORD_OVERHEAD
        batch.add(key, record.value, size, (*record.headers, origin))
        self._close_full_batch(batch)

    def offer_columns(self, columns: RecordColumns, rows: range) -> None:
        """Add those of these records that are offsets or authors of changes. They have no headers."""
        octets = np.frombuffer(columns.data, np.uint8)
        key_sizes = columns.key_sizes[rows.start : rows.stop]
        key_starts = columns.key_starts[rows.start : rows.stop]
        key_types = octets[key_starts].astype(np.uint16) << 8 | octets[key_starts + 1]
        is_kept = (key_sizes > 1) & ((key_types <= KEY_TYPE) | (key_types == AUTHOR_KEY_TYPE))
        # A record's key follows its length, a varint. The number of headers follows the value.
        starts = key_starts - 1 - (key_sizes >= _FROM_TWO_BYTES) - (key_sizes >= _FROM_THREE_BYTES)
        sizes = columns.ends[rows.start : rows.stop] - 1 - starts
        which = np.flatnonzero(is_kept)
        if not len(which):
            return
        starts, sizes = starts[which], sizes[which]
        origins = np.stack((columns.offsets[which + rows.start], columns.timestamps[which + rows.start]), 1)
        tails = origins.astype(">i8").view(np.uint8).reshape(len(which), ORIGIN_BYTES)
        ends_of_alike = np.append(np.flatnonzero(sizes[1:] != sizes[:-1]) + 1, len(sizes)).tolist()
        if len(ends_of_alike) > 1 + len(sizes) // _FEWEST_ALIKE:
            self._add_each(columns.data, starts, sizes, tails)
            return
        first = 0
        for end in ends_of_alike:
            self._add_alike(octets, starts[first:end], int(sizes[first]), tails[first:end])
            first = end

    def _add_each(self, data: bytes, starts: Int64s, sizes: Int64s, tails: ByteRows) -> None:
        spans = zip(starts.tolist(), (starts + sizes).tolist(), tails, strict=True)
        records = [(data[start:end], _ORIGIN_HEAD + tail.tobytes()) for start, end, tail in spans]
        for first in range(0, len(records), _LAID_OUT_AT_ONCE):
            batch = self._open_batch()
            batch.add_laid_out(records[first : first + _LAID_OUT_AT_ONCE])
            self._close_full_batch(batch)

    def _add_alike(self, octets: ByteRows, starts: Int64s, size: int, tails: ByteRows) -> None:
        bodies = octets[starts[:, None] + np.arange(size)]
        at_once = 1 + BATCH_BYTES // (size + _RECORD_OVERHEAD)
        for first in range(0, len(bodies), at_once):
            batch, rows = self._open_batch(), slice(first, first + at_once)
            batch.add_laid_out_rows(bodies[rows], _ORIGIN_HEAD, tails[rows])
            self._close_full_batch(batch)

    def _open_batch(self) -> BatchBuilder:
        if self._batch is None:
            self._batch = BatchBuilder(self._now())
        return self._batch

    def _close_full_batch(self, batch: BatchBuilder) -> None:
        if batch.size_bytes >= BATCH_BYTES:
            self._close_batch(batch)

    def _close_batch(self, batch: BatchBuilder) -> None:
        self._full.append(batch.build())
        self._full_bytes += len(self._full[-1])
        self._batch = None

    def _now(self) -> Millis:
        now = self._clock.system_time()
        if self._moved_from is not None:
            self._not_before = time_of_move(now, self._moved_from, self._history.log)
            self._moved_from = None
        return max(now, self._not_before)

    @property
    def is_flush_due(self) -> bool:
        """Whether enough is encoded to be written."""
        return self._full_bytes >= FLUSH_BYTES

    def flush(self) -> Steps[None]:
        """Write the offered records. Raises OSError."""
        yield from open_aside(self._history)
        log = self._log()
        if self._batch is not None:
            self._close_batch(self._batch)
        if not self._full:
            return
        batches, size = self._full, self._full_bytes
        self._full, self._full_bytes = [], 0
        active = log.segments.active
        is_rolling = active is not None and active.size + size > log.settings.segment_bytes
        # A roll syncs the closed segment and blocks: so the log is synced in the thread before.
        if is_rolling or self._unsynced_bytes > UNSYNCED_BYTES:
            yield from self._sync(log)
        self._history.append_internal(batches)
        self._unsynced_bytes += size

    def settle(self) -> Steps[None]:
        """Make all offered records durable. Raises OSError."""
        yield from self.flush()
        yield from self._sync(self._log())

    def _log(self) -> Log:
        """Return the history's log, recovered if it failed, with its first mark."""
        log = self._history.log
        if log.failure is not None:
            log.recover()
        if not log.log_end_offset:
            now = self._now()
            append_mark(self._history, SINCE_EVER if self._is_first else now, now)
        return log

    def _sync(self, log: Log) -> Steps[None]:
        if log.needs_sync:
            yield from sync_aside(log)
            self._unsynced_bytes = 0
            self._history.advance()


def sync_aside(log: Log) -> Steps[None]:
    """Sync a log in the thread. Raises OSError."""
    request = log.begin_sync()
    try:
        yield request.run
    except OSError:
        log.complete_sync(request)
        raise
    except BaseException:
        log.abandon_sync(request)
        raise
    log.complete_sync(request)


def time_of_move(now: Millis, partition: Log, history: Log) -> Millis:
    """Return the time of a move between these logs: `now`, or the latest time in them if the system clock was
    set back. Raises OSError.
    """
    latest = latest_time(partition)
    return max(now if latest <= now else Millis(latest + LONGEST_TURN_MS), last_move(history))


def latest_time(log: Log) -> Millis:
    """Return the latest time of a record in a log, `NO_TIMESTAMP` for an empty log. Raises OSError."""
    return Millis(max((segment.max_timestamp for segment in log.segments), default=NO_TIMESTAMP))


def last_move(history: Log) -> Millis:
    """Return the time of the last move into a history, `NO_TIMESTAMP` if it is empty. Raises OSError."""
    for segment in reversed(list(history.segments)):
        if segment.size:
            return Millis(segment.max_timestamp)
    return NO_TIMESTAMP


def open_aside(history: Partition) -> Steps[None]:
    """Open a history's log in the thread, if it is closed: many segments take long."""
    opening = history.opening()
    if opening is not None:
        yield opening


def append_mark(history: Partition, known_since: Millis, now: Millis) -> None:
    """Append the mark with the time from which on a history is complete. Raises OSError."""
    batch = BatchBuilder(now)
    key, value = encode_mark(known_since)
    batch.add(key, value, len(key) + len(value))
    history.append_internal([batch.build()])
