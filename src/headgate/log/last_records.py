"""Find the last record of each key: the first half of a compaction.

Reads what was never compacted, from `start` to `end`, and keeps for each key the offset of its last record
that counts. Rules:

1. A record may be part of a run that counts only when it is complete, for example of a commit over several
   batches. The caller's `Completeness` decides which runs are complete; this room knows records by their keys
   alone. The end never lies within an open run.
2. The end is limited by the size of the key table. The caller's limit never lies past an open transaction.
3. Records of aborted transactions do not count (`transaction_fates.py`).
4. The work is done in slices: see `Steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.log.batch import Record, RecordHeader, iterate_records
from headgate.log.batch_group import BatchGroup, keys_of, plain_columns
from headgate.log.key_table import KeyTable, TableFull, key_hash
from headgate.log.rewriting import check_sum, unpacked
from headgate.log.segment import Segment
from headgate.log.transaction_fates import fates_of
from headgate.log.walking import CHUNK_BYTES, walk_batches

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader, Buffer
    from headgate.log.log import Log
    from headgate.log.record_columns import RecordColumns

ResultT = TypeVar("ResultT")
Work: TypeAlias = Callable[[], None]
"""A function to be run in another thread before the steps continue: it blocks, and touches no shared
state.
"""
Steps: TypeAlias = Generator[Work | None, None, ResultT]
"""Work in slices. The caller runs yielded functions in another thread, throws their exceptions into the
generator, and may do other work at every None.
"""

UNPACKED_HERE_BYTES: Final = 4096
"""A larger compressed batch is decompressed in another thread."""
_LOOK_UP_EVERY: Final = 32
"""Records between two checks of the clock."""


class Completeness(Protocol):
    """Decides which records count. It gets them in the log's order, from a position without open runs."""

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and not ended."""
        ...

    def take(
        self, offset: int, hashed: bytes, headers: Sequence[RecordHeader]
    ) -> Sequence[tuple[int, bytes]]:
        """Add a record; return offset and hash of the records now known to count: this one, a whole run, or
        none.

        A record that was added and not returned by the time no run is open does not count.
        """
        ...

    def plain(self, headers: Sequence[RecordHeader]) -> Sequence[RecordHeader]:
        """Return the headers of a record that counts, without those that made it part of a run."""
        ...


class Dropped(Protocol):
    """Gets every record that counted before it is dropped, perhaps more than once.

    Records of one key come in the order of the log, from the first on when a compaction starts again.
    """

    def offer(self, offset: int, record: Record) -> None:
        """Take a replaced record or an expired tombstone, without the headers of its run."""
        ...

    def offer_columns(self, columns: RecordColumns, rows: range) -> None:
        """Do the same as `offer` for each of these rows, which have keys, values and no headers."""
        ...

    @property
    def is_flush_due(self) -> bool:
        """Whether the records taken use so much memory that they should be written."""
        ...

    def flush(self) -> Steps[None]:
        """Write the records taken. Raises OSError."""
        ...

    def settle(self) -> Steps[None]:
        """Write all records taken and make them durable: after this they are dropped. Raises OSError."""
        ...


class Expired(Protocol):
    """Decides which records have no use any more, though they are the last ones of their keys."""

    def has(self, record: Record) -> bool:
        """Return whether this record is to be removed. `Dropped` does not get it."""
        ...

    def has_any(self, columns: RecordColumns) -> bool:
        """Return whether any of these records is; all have keys, and none has headers."""
        ...


class CompactionCancelled(Exception):
    """The log changed since the compaction began: it was truncated, shortened, deleted, or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOrder:
    """Parameters of a compaction. Times are in ms."""

    now_ms: int
    delete_retention_ms: int
    not_beyond: int
    """Records at or above this offset are not touched."""
    producers_since_ms: int = -1
    """Producers whose last batch is older than this are expired, and need no batch."""
    table_bytes: int = 128 << 20
    new_completeness: Callable[[], Completeness] | None = None
    dropped: Dropped | None = None
    expired: Expired | None = None
    is_slice_over: Callable[[], bool] = lambda: False


class LastRecords:
    """The last offset of each key from `start` to `end`; call `build` first."""

    def __init__(self, log: Log, order: CompactionOrder) -> None:
        self._log = log
        self._order = order
        self.generation = log.generation
        self._table_bytes = order.table_bytes
        self.start = max(log.compacted_to, log.log_start_offset)
        self._reset()

    def _reset(self) -> None:
        order = self._order
        self.end = self.start
        self.torn: set[int] = set()
        """Offsets of records that do not count."""
        self.runs: list[tuple[int, int]] = []
        """First and last offset of each run, in order."""
        self.last_batch_of: dict[int, int] = {}
        """Base offset of each producer's last batch in the whole log; of a marker, if it has a newer epoch
        than the producer's last records.
        """
        self._epoch_of: dict[int, int] = {}
        """The producer epochs of these batches."""
        self._fates = fates_of(self._log.segments)
        self.records_read = 0
        self._table = KeyTable(order.not_beyond - self.start, self._table_bytes)
        self.completeness = order.new_completeness() if order.new_completeness else None
        self._pending: list[int] = []
        self._pending_from = 0
        self._is_settled = False

    def check(self) -> None:
        """Raise CompactionCancelled if the log has changed."""
        if self._log.generation != self.generation or self._log.failure is not None:
            raise CompactionCancelled(f"{self._log.directory} has changed")

    def is_there(self, segment: Segment) -> bool:
        """Return whether the segment is still part of the log."""
        return any(other is segment for other in self._log.segments)

    def check_there(self, segment: Segment) -> None:
        """Raise CompactionCancelled if the segment was deleted."""
        if not self.is_there(segment):
            raise CompactionCancelled(f"segments of {self._log.directory} were deleted")

    def get(self, key: bytes) -> int:
        """Return the last offset of the key; -1 if it has none between start and end."""
        return self._table.get(key_hash(key))

    def get_each(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the last offset of each key; -1 if it has none between start and end."""
        return self._table.get_each(keys)

    def crosses_run(self, offset: int) -> bool:
        """Return whether a run lies on both sides of `offset`."""
        return any(first < offset <= last for first, last in self.runs)

    def build(self) -> Steps[None]:
        """Read the log. Raises OSError, CorruptBatch, CompactionCancelled."""
        while True:
            try:
                yield from self._read_log()
            except TableFull:
                # A run does not fit, and nothing came before it: enlarge the table.
                self._table_bytes = max(2 * self._table_bytes, 1 << 12)
                self._reset()
            else:
                return

    def _read_log(self) -> Steps[None]:
        mapped_to = self.start
        group = BatchGroup()
        for segment in list(self._log.segments):
            if self._is_settled and not self.last_batch_of:
                break
            is_over = self._order.is_slice_over
            warmed = 0
            self.check_there(segment)
            file = segment.pin()
            try:
                for position, header, batch in walk_batches(file, 0, segment.size):
                    if position >= warmed:
                        yield read_ahead(segment, position)
                        warmed = position + CHUNK_BYTES
                    if is_over():
                        yield None
                        self.check()
                    is_aborted = header.producer_id >= 0 and self._note_producer(header)
                    if self._is_settled or header.next_offset <= self.start:
                        continue
                    if self._fits(group, header):
                        group.add(header, batch)
                        mapped_to = header.next_offset
                        if group.is_full:
                            yield from self._read_group(group)
                        continue
                    yield from self._read_group(group)
                    if self._ends_at(header, mapped_to):
                        self._settle(header.base_offset)
                        continue
                    if is_aborted or header.is_control:
                        mapped_to = header.next_offset
                        continue
                    try:
                        yield from self._read_batch(header, batch)
                    except TableFull:
                        if (self._pending_from if self._pending else mapped_to) <= self.start:
                            raise
                        self._settle(mapped_to)
                    mapped_to = header.next_offset
                yield from self._read_group(group)
            finally:
                segment.unpin()
                if segment is not self._log.segments.active:
                    segment.close_file()
        if not self._is_settled:
            self._settle(mapped_to)

    def _note_producer(self, header: BatchHeader) -> bool:
        """Note a producer's batch; return whether its records are part of an aborted transaction."""
        producer_id = header.producer_id
        is_newer = header.producer_epoch > self._epoch_of.get(producer_id, -1)
        if header.base_sequence >= 0 or (header.is_control and is_newer):
            self.last_batch_of[producer_id] = header.base_offset
            self._epoch_of[producer_id] = header.producer_epoch
        if header.is_control:
            self._fates.end(header)
            return False
        return self._fates.is_aborted(header)

    def _fits(self, group: BatchGroup, header: BatchHeader) -> bool:
        """Return whether a batch needs no other decision than which keys it has, and fits into the group."""
        records = group.record_count + header.record_count
        return (
            group.takes(header)
            and header.next_offset <= self._order.not_beyond
            and self._table.count + records <= self._table.room
        )

    def _ends_at(self, header: BatchHeader, mapped_to: int) -> bool:
        if header.next_offset > self._order.not_beyond:
            return True
        is_full = self._table.count + header.record_count > self._table.room
        return is_full and not self._pending and mapped_to > self.start

    def _settle(self, offset: int) -> None:
        self._is_settled = True
        self.end = self._pending_from if self._pending else offset

    def _read_group(self, group: BatchGroup) -> Steps[None]:
        batches = group.take()
        if not batches:
            return
        columns = plain_columns(batches)
        if columns is None or (self.completeness is not None and self.completeness.is_open):
            for header, batch in batches:
                yield from self._read_batch(header, batch)
            return
        self._table.put_each(keys_of(columns), columns.offsets)
        self.records_read += len(columns)

    def _read_batch(self, header: BatchHeader, batch: Buffer) -> Steps[None]:
        is_over, put, completeness = self._order.is_slice_over, self._table.put, self.completeness
        batch = yield from readable(header, batch)
        for count, (offset, record) in enumerate(iterate_records(batch)):
            if count % _LOOK_UP_EVERY == _LOOK_UP_EVERY - 1 and is_over():
                yield None
                self.check()
            if record.key is None:
                continue
            hashed = key_hash(record.key)
            if completeness is None or not (record.headers or completeness.is_open):
                put(hashed, offset)
                continue
            if not self._pending:
                self._pending_from = header.base_offset
            self._pending.append(offset)
            complete = completeness.take(offset, hashed, record.headers)
            if complete or not completeness.is_open:
                yield from self._count(complete)
        self.records_read += header.record_count

    def _count(self, complete: Sequence[tuple[int, bytes]]) -> Steps[None]:
        """Settle the pending records: those in `complete` count, the others do not. Both are in log order."""
        at = 0
        for count, offset in enumerate(self._pending):
            if at < len(complete) and complete[at][0] == offset:
                self._table.put(complete[at][1], offset)
                at += 1
            else:
                self.torn.add(offset)
            if count % _LOOK_UP_EVERY == _LOOK_UP_EVERY - 1 and self._order.is_slice_over():
                yield None
                self.check()
        if len(complete) > 1:
            self.runs.append((complete[0][0], complete[-1][0]))
        self._pending = []


def read_ahead(segment: Segment, position: int) -> Work:
    """Return work that reads the next megabyte of a pinned segment into the page cache."""
    file = segment.file()

    def work() -> None:
        file.pread(CHUNK_BYTES, position)

    return work


def readable(header: BatchHeader, batch: Buffer) -> Steps[Buffer]:
    """Check a batch's CRC, and decompress its records in another thread if it is large. Raises
    CorruptBatch.
    """
    check_sum(header, batch)
    if not header.codec or header.size <= UNPACKED_HERE_BYTES:
        return batch
    plain: list[bytes] = []
    yield lambda: plain.append(unpacked(header, batch))
    return plain[0]
