"""Moves what compaction takes out of a partition of `__consumer_offsets` into its history.

One writer serves one compaction. It keeps what it is offered as the bytes of a batch, writes a batch at a
time on the loop, which is a copy into the page cache, and syncs in the thread of the compaction. Group
metadata and whatever else is no offset is let go.
"""

from __future__ import annotations

from typing import Final

from headgate.domain.ids import Millis
from headgate.log.batch import Record, varint
from headgate.log.builder import BatchBuilder
from headgate.log.compaction import Steps
from headgate.log.log import Log
from headgate.log.record_columns import RecordColumns
from headgate.records.history import (
    ORIGIN_BYTES,
    ORIGIN_KEY,
    SINCE_EVER,
    Origin,
    encode_mark,
    origin_value,
)
from headgate.records.offset_commit import KEY_STARTS
from headgate.server.clock import Clock
from headgate.topics.partition import Partition

BATCH_BYTES: Final = 32 << 10
"""Small batches: whoever looks for one group reads all of a batch that has something of it."""
FLUSH_BYTES: Final = 256 << 10
"""How much is kept in memory before it is written."""
UNSYNCED_BYTES: Final = 4 << 20
"""How much is written before a sync is due."""
_RECORD_OVERHEAD: Final = 48
_LAID_OUT_AT_ONCE: Final = 64
_FROM_TWO_BYTES, _FROM_THREE_BYTES = 1 << 6, 1 << 13
"""From which length on the varint of a length takes so many bytes; no key of ours takes more."""
_ORIGIN_HEAD: Final = varint(1) + varint(len(ORIGIN_KEY)) + ORIGIN_KEY + varint(ORIGIN_BYTES)
"""The end of a record but for the header's value: how many headers, and the only one."""


class HistoryWriter:
    """A `headgate.log.compaction.Dropped` that keeps offsets."""

    def __init__(self, history: Partition, clock: Clock, *, is_first: bool) -> None:
        """`is_first`: nothing was ever taken out of the partition whose history this is."""
        self._history = history
        self._clock = clock
        self._is_first = is_first
        self._batch: BatchBuilder | None = None
        self._full: list[bytearray] = []
        self._full_bytes = 0
        self._unsynced_bytes = 0

    def offer(self, offset: int, record: Record) -> None:
        """Take a record for the history, if it is of an offset."""
        key = record.key
        if key is None or not key.startswith(KEY_STARTS):
            return
        if self._batch is None:
            self._batch = BatchBuilder(self._clock.now())
        origin = Origin(offset, record.timestamp).header()
        size = len(key) + len(record.value or b"") + _RECORD_OVERHEAD
        self._batch.add(key, record.value, size, (*record.headers, origin))
        if self._batch.size_bytes >= BATCH_BYTES:
            self._close_batch(self._batch)

    def offer_columns(self, columns: RecordColumns, rows: range) -> None:
        """Take those of these records that are of offsets; they have no headers."""
        data = columns.data
        which = slice(rows.start, rows.stop)
        key_sizes, key_starts = columns.key_sizes[which], columns.key_starts[which]
        # A key has its length in front of it, in a varint; behind a value is the number of headers.
        starts = key_starts - 1 - (key_sizes >= _FROM_TWO_BYTES) - (key_sizes >= _FROM_THREE_BYTES)
        fields = zip(
            starts.tolist(),
            key_starts.tolist(),
            (columns.ends[which] - 1).tolist(),
            columns.offsets[which].tolist(),
            columns.timestamps[which].tolist(),
            strict=True,
        )
        records = [
            (data[start:end], _ORIGIN_HEAD + origin_value(offset, timestamp))
            for start, key_start, end, offset, timestamp in fields
            if data[key_start : key_start + 2] in KEY_STARTS
        ]
        for first in range(0, len(records), _LAID_OUT_AT_ONCE):
            if self._batch is None:
                self._batch = BatchBuilder(self._clock.now())
            self._batch.add_laid_out(records[first : first + _LAID_OUT_AT_ONCE])
            if self._batch.size_bytes >= BATCH_BYTES:
                self._close_batch(self._batch)

    def _close_batch(self, batch: BatchBuilder) -> None:
        self._full.append(batch.build())
        self._full_bytes += len(self._full[-1])
        self._batch = None

    @property
    def is_flush_due(self) -> bool:
        """Whether enough is there to be written."""
        return self._full_bytes >= FLUSH_BYTES

    def flush(self) -> Steps[None]:
        """Write what was offered. Raises OSError."""
        log = self._log()
        if self._batch is not None:
            self._close_batch(self._batch)
        if not self._full:
            return
        batches, size = self._full, self._full_bytes
        self._full, self._full_bytes = [], 0
        active = log.segments.active
        is_rolling = active is not None and active.size + size > log.settings.segment_bytes
        # A roll syncs what it closes, here and now: so that is done before, elsewhere.
        if is_rolling or self._unsynced_bytes > UNSYNCED_BYTES:
            yield from self._sync(log)
        self._history.append_internal(batches)
        self._unsynced_bytes += size

    def settle(self) -> Steps[None]:
        """Make all that was offered durable. Raises OSError."""
        yield from self.flush()
        yield from self._sync(self._log())

    def _log(self) -> Log:
        """The history's log, fit to be written, its first record in it."""
        log = self._history.log
        if log.failure is not None:
            log.recover()
        if not log.log_end_offset:
            now = self._clock.now()
            append_mark(self._history, SINCE_EVER if self._is_first else now, now)
        return log

    def _sync(self, log: Log) -> Steps[None]:
        if not log.needs_sync:
            return
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
        self._unsynced_bytes = 0
        self._history.advance()


def append_mark(history: Partition, known_since: Millis, now: Millis) -> None:
    """Begin a history with what says from when on it is whole. Raises OSError."""
    batch = BatchBuilder(now)
    key, value = encode_mark(known_since)
    batch.add(key, value, len(key) + len(value))
    history.append_internal([batch.build()])
