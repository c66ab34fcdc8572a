"""Which record of each key is the last: the first half of a compaction.

Reads what was never compacted, from `start` to `end`, and remembers of each key the offset of its last record
that counts. Rules:

1. A record may be part of something that only counts when it is whole, a commit over several batches for
   example. What is whole and what never became so is for a `Completeness` to say, that the caller brings;
   this room knows records by their keys alone. The end never lies within something that is still open.
2. The end is also that of what the table of keys has room for, and never lies past a batch of a transaction
   or a control batch: whether their records count, nobody here knows yet.
3. All is done in slices: see `Steps`.
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
from headgate.log.walking import CHUNK_BYTES, walk_batches

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader, Buffer
    from headgate.log.log import Log
    from headgate.log.record_columns import RecordColumns

ResultT = TypeVar("ResultT")
Work: TypeAlias = Callable[[], None]
"""Something to be run in another thread before going on: it blocks, and touches what nobody else does."""
Steps: TypeAlias = Generator[Work | None, None, ResultT]
"""Work cut into slices. Whoever drives it runs what is yielded elsewhere, throws in what that raised, and
lets others have their turn at every None."""

UNPACKED_HERE_BYTES: Final = 4096
"""A compressed batch up to this size is unpacked on the spot."""
_LOOK_UP_EVERY: Final = 32
"""Records between two looks at the clock."""


class Completeness(Protocol):
    """Says which records count; sees them in the log's order, from a place where nothing is open."""

    @property
    def is_open(self) -> bool:
        """Whether something has begun and not ended."""
        ...

    def take(
        self, offset: int, hashed: bytes, headers: Sequence[RecordHeader]
    ) -> Sequence[tuple[int, bytes]]:
        """Offset and hash of the records that are known to count now: this one, a whole run, or none yet.

        One that was taken and not given when nothing is open any more does not count.
        """
        ...

    def plain(self, headers: Sequence[RecordHeader]) -> Sequence[RecordHeader]:
        """The headers of a record that counts, without what made it part of something."""
        ...


class Dropped(Protocol):
    """Is offered every record that counted and is about to be dropped, perhaps more than once.

    Those of one key come in the order of the log, from the first on when a compaction begins anew.
    """

    def offer(self, offset: int, record: Record) -> None:
        """A record that a later one replaced, or a tombstone whose time is over; without a place in a run."""
        ...

    def offer_columns(self, columns: RecordColumns, rows: range) -> None:
        """The same as `offer` for each of these rows, which have keys, values and no headers."""
        ...

    @property
    def is_flush_due(self) -> bool:
        """Whether what was offered takes so much memory that it should be written."""
        ...

    def flush(self) -> Steps[None]:
        """Write what was offered. Raises OSError."""
        ...

    def settle(self) -> Steps[None]:
        """Write all that was offered and make it durable: after this it is dropped. Raises OSError."""
        ...


class CompactionCancelled(Exception):
    """The log is no longer what it was when the compaction began: truncated, shortened, deleted or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOrder:
    """What is to be compacted, and how. Times are in ms."""

    now_ms: int
    delete_retention_ms: int
    not_beyond: int
    """Nothing that reaches this offset is touched."""
    producers_since_ms: int = -1
    """A producer whose last batch is older needs no batch to be remembered by."""
    table_bytes: int = 128 << 20
    new_completeness: Callable[[], Completeness] | None = None
    dropped: Dropped | None = None
    is_slice_over: Callable[[], bool] = lambda: False


class LastRecords:
    """The last offset of each key from `start` to `end`; `build` first."""

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
        """First and last offset of what counts only as a whole, in order."""
        self.last_batch_of: dict[int, int] = {}
        """The base offset of each producer's last batch in the whole log."""
        self.records_read = 0
        self._table = KeyTable(order.not_beyond - self.start, self._table_bytes)
        self.completeness = order.new_completeness() if order.new_completeness else None
        self._pending: list[int] = []
        self._pending_from = 0
        self._is_settled = False

    def check(self) -> None:
        """Raise CompactionCancelled if the log is not what it was."""
        if self._log.generation != self.generation or self._log.failure is not None:
            raise CompactionCancelled(f"{self._log.directory} has changed")

    def is_there(self, segment: Segment) -> bool:
        """Whether the segment is still one of the log's."""
        return any(other is segment for other in self._log.segments)

    def check_there(self, segment: Segment) -> None:
        """Raise CompactionCancelled if the segment was deleted."""
        if not self.is_there(segment):
            raise CompactionCancelled(f"segments of {self._log.directory} were deleted")

    def get(self, key: bytes) -> int:
        """The last offset of the key; -1 if it has none between start and end."""
        return self._table.get(key_hash(key))

    def get_each(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The last offset of each of these keys; -1 where there is none between start and end."""
        return self._table.get_each(keys)

    def crosses_run(self, offset: int) -> bool:
        """Whether something that counts as a whole lies on both sides of `offset`."""
        return any(first < offset <= last for first, last in self.runs)

    def build(self) -> Steps[None]:
        """Read the log. Raises OSError, CorruptBatch, CompactionCancelled."""
        while True:
            try:
                yield from self._read_log()
            except TableFull:
                # What counts as a whole does not fit, and nothing came before it: it must.
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
                    if header.producer_id >= 0 and header.base_sequence >= 0:
                        self.last_batch_of[header.producer_id] = header.base_offset
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

    def _fits(self, group: BatchGroup, header: BatchHeader) -> bool:
        """Whether a batch can be read with the group, with nothing to decide but which keys it has."""
        records = group.record_count + header.record_count
        return (
            group.takes(header)
            and header.next_offset <= self._order.not_beyond
            and self._table.count + records <= self._table.room
        )

    def _ends_at(self, header: BatchHeader, mapped_to: int) -> bool:
        if header.next_offset > self._order.not_beyond or header.is_control or header.is_transactional:
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
        """Of what is pending, `complete` counts and nothing else; both are in the order of the log."""
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
    """Have the next megabyte of a pinned segment read from the disk before the loop asks for it."""
    file = segment.file()

    def work() -> None:
        file.pread(CHUNK_BYTES, position)

    return work


def readable(header: BatchHeader, batch: Buffer) -> Steps[Buffer]:
    """One batch, its CRC checked, its records unpacked if that takes long. Raises CorruptBatch."""
    check_sum(header, batch)
    if not header.codec or header.size <= UNPACKED_HERE_BYTES:
        return batch
    plain: list[bytes] = []
    yield lambda: plain.append(unpacked(header, batch))
    return plain[0]
