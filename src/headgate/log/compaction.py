"""Compaction: keep the last record of each key, and tombstones for a while; offsets do not change.

`LastRecords` finds the last record of every key. Then all closed segments from the log's start to the end of
that range are copied, oldest first, without records replaced by later ones, records without a key, records
that never counted (`Completeness`; aborted transactions), expired tombstones, and records that have no use
any more (`Expired`). Rules, Kafka's:

1. A batch without remaining records is removed, unless it is its producer's last: then its header remains,
   with the sequence. A segment never becomes empty: then too a header remains.
2. A tombstone remains until the delete horizon of its batch: delete.retention.ms after the first compaction
   that finds it. Readers that started from the log's beginning before that have seen it.
3. Copies are merged up to segment.bytes. A run of records that counts only as a whole is replaced in one
   step: a crash never leaves a part of it without its headers.
4. Appends, reads and syncs go on. The step that replaces segments waits for iterations over all batches. If
   the log is truncated, deleted, shortened or recovered meanwhile, the compaction is cancelled.
5. After every step each key has at most one record below `log.compacted_to`.
6. A marker remains while its transaction has batches, and from then on for delete.retention.ms
   (`transaction_fates.py`). The one with a producer's newest epoch remains like its last batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from headgate.log.batch import Record, iterate_records
from headgate.log.batch_group import BatchGroup, keys_of, plain_columns
from headgate.log.compaction_output import CompactionOutput
from headgate.log.header import BatchHeader, Buffer, read_header
from headgate.log.last_records import (
    UNPACKED_HERE_BYTES,
    CompactionCancelled,
    CompactionOrder,
    Completeness,
    Dropped,
    Expired,
    LastRecords,
    Steps,
    Work,
    read_ahead,
    readable,
)
from headgate.log.markers import is_marker
from headgate.log.rewriting import BatchRewriter, emptied
from headgate.log.segment import Segment
from headgate.log.segment_indexes import LARGEST_RELATIVE_OFFSET
from headgate.log.swap import CompactionState, discard, prepare
from headgate.log.transaction_fates import fates_of
from headgate.log.walking import CHUNK_BYTES, walk_batches

if TYPE_CHECKING:
    from headgate.log.filesystem import File
    from headgate.log.log import Log
    from headgate.log.record_columns import RecordColumns

__all__ = [
    "CompactionCancelled",
    "CompactionOrder",
    "CompactionResult",
    "Completeness",
    "Dropped",
    "Expired",
    "Steps",
    "Work",
    "compact",
]

_LOOK_UP_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction: the log is compacted up to `end_offset`."""

    end_offset: int
    records_read: int
    records_dropped: int
    bytes_before: int
    bytes_after: int


def compact(log: Log, order: CompactionOrder) -> Steps[CompactionResult]:
    """Compact a log once, in slices. Closing the generator at any point leaves a valid log.

    A log can have one compaction at a time. Raises OSError, CorruptBatch and CompactionCancelled.
    """
    compaction = _Compaction(log, order)
    try:
        return (yield from compaction.run())
    finally:
        compaction.clean_up()


class _Compaction:
    def __init__(self, log: Log, order: CompactionOrder) -> None:
        active = log.segments.active
        not_beyond = min(order.not_beyond, active.base_offset if active is not None else 0)
        self._log = log
        self._order = _bounded(order, not_beyond)
        self._last = LastRecords(log, self._order)
        self._fates = fates_of(log.segments)
        self._outputs: list[CompactionOutput] = []
        self._held: list[File] = []
        self._has_changed = False
        self._records_dropped = 0

    def run(self) -> Steps[CompactionResult]:
        log, last = self._log, self._last
        last.check()
        if log.replacement.is_under_way:
            # An earlier compaction ended between its decision and the replacement.
            yield from self._settle(log.compacted_to)
        yield from last.build()
        bytes_before = self._size_bytes()
        if last.end > last.start:
            sources = [segment for segment in log.segments.closed if segment.base_offset < last.end]
            yield from self._sync(sources)
            while sources:
                sources = yield from self._step(sources)
            if log.compacted_to < last.end:
                yield from self._replace([], last.end)
        return CompactionResult(
            log.compacted_to, last.records_read, self._records_dropped, bytes_before, self._size_bytes()
        )

    def _size_bytes(self) -> int:
        return sum(s.size for s in self._log.segments.closed if s.base_offset < self._last.end)

    def clean_up(self) -> None:
        """Remove the copies that are not part of a decided replacement."""
        for file in self._held:
            file.close()
        if self._outputs:
            for output in self._outputs:
                output.segment.close_file()
            # Files that cannot be removed now are removed when the log is opened.
            with suppress(OSError):
                discard(self._log.files, self._log.directory)

    def _sync(self, sources: list[Segment]) -> Steps[None]:
        """Sync segments that were closed without a sync: a record is dropped only for a durable one."""
        unsynced = [(one, one.pin(), one.size) for one in sources if one.synced_bytes < one.size]

        def sync() -> None:
            for _, file, _ in unsynced:
                file.datasync()
            for directory in (self._log.directory, self._log.directory.parent):
                self._log.files.sync_directory(directory)

        try:
            if unsynced:
                yield sync
        except OSError as error:
            self._log.fail(error)
            raise
        finally:
            for segment, _, _ in unsynced:
                segment.unpin()
        for segment, _, size in unsynced:
            segment.synced_bytes = max(segment.synced_bytes, size)

    # Copying.

    def _step(self, sources: list[Segment]) -> Steps[list[Segment]]:
        """Copy segments up to the size of one, replace them by the copies, and return the remaining
        segments.
        """
        self._has_changed = False
        output = self._begin_output(sources[0])
        for count, segment in enumerate(sources, 1):
            yield from self._copy(segment, output)
            if count == len(sources):
                break
            following = sources[count]
            if self._fits(output, following):
                continue
            if not self._last.crosses_run(following.base_offset):
                break
            output = self._begin_output(following)
        if count == 1 and not self._has_changed:
            self._forget_outputs()
        else:
            end = min(sources[count - 1].next_offset, self._last.end)
            yield from self._replace(sources[:count], max(self._log.compacted_to, end))
        return sources[count:]

    def _begin_output(self, segment: Segment) -> CompactionOutput:
        self._outputs.append(CompactionOutput(self._log, segment.base_offset))
        return self._outputs[-1]

    def _fits(self, output: CompactionOutput, following: Segment) -> bool:
        if output.size + following.size > self._log.settings.segment_bytes:
            return False
        return following.next_offset - output.segment.base_offset <= LARGEST_RELATIVE_OFFSET

    def _copy(self, segment: Segment, output: CompactionOutput) -> Steps[None]:
        is_over, end = self._order.is_slice_over, self._last.end
        group = BatchGroup()
        warmed = 0
        self._last.check_there(segment)
        file = segment.pin()
        try:
            for position, header, batch in walk_batches(file, 0, segment.size):
                if position >= warmed:
                    yield read_ahead(segment, position)
                    warmed = position + CHUNK_BYTES
                if is_over():
                    yield None
                    self._last.check()
                if header.next_offset <= end and group.takes(header) and not self._last.torn:
                    group.add(header, batch)
                    if group.is_full:
                        yield from self._copy_group(group, output)
                    continue
                yield from self._copy_group(group, output)
                if header.is_control:
                    self._copy_marker(header, batch, output)
                elif self._fates.is_aborted(header) and header.next_offset <= end:
                    self._records_dropped += header.record_count
                    self._drop_batch(header, output)
                elif header.next_offset > end:
                    output.keep(header, batch)
                else:
                    yield from self._copy_batch(header, batch, output)
                if output.is_flush_due:
                    yield output.flush
            yield from self._copy_group(group, output)
        finally:
            segment.unpin()

    def _copy_marker(self, header: BatchHeader, batch: Buffer, output: CompactionOutput) -> None:
        """Copy the marker of a transaction, or drop it, or note when it may be dropped."""
        has_batches, aborted = self._fates.end(header)
        horizon = header.delete_horizon_ms
        is_needed = has_batches or header.next_offset > self._last.end or not is_marker(header, batch)
        if is_needed or self._is_remembered_by(header):
            output.keep(header, batch)
            if aborted is not None and is_needed:
                output.segment.note_aborted(aborted)
        elif horizon is None:
            self._has_changed = True
            rewriter = BatchRewriter(header, self._order.now_ms + self._order.delete_retention_ms)
            for offset, record in iterate_records(batch):
                rewriter.add(offset, record)
            rewritten = rewriter.pack()
            output.keep(read_header(rewritten), rewritten)
        elif self._order.now_ms < horizon:
            output.keep(header, batch)
        else:
            self._has_changed = True
            self._records_dropped += header.record_count
            output.last_dropped = header

    def _copy_group(self, group: BatchGroup, output: CompactionOutput) -> Steps[None]:
        """Copy the remaining records of a group of batches."""
        batches = group.take()
        if not batches:
            return
        columns = plain_columns(batches)
        if columns is None or (columns.value_sizes < 0).any() or self._has_expired(columns):
            for header, batch in batches:
                yield from self._copy_batch(header, batch, output)
        else:
            yield from self._copy_columns(batches, columns, output)
        if output.is_flush_due:
            yield output.flush

    def _has_expired(self, columns: RecordColumns) -> bool:
        expired = self._order.expired
        return expired is not None and expired.has_any(columns)

    def _copy_columns(
        self, batches: Sequence[tuple[BatchHeader, Buffer]], columns: RecordColumns, output: CompactionOutput
    ) -> Steps[None]:
        stays = self._last.get_each(keys_of(columns)) <= columns.offsets
        first = offered = 0
        for header, batch in batches:
            end = first + header.record_count
            count = int(np.count_nonzero(stays[first:end]))
            if count:
                yield from self._offer(columns, range(offered, first))
                offered = end
                if count == header.record_count:
                    output.keep(header, batch)
                else:
                    yield from self._copy_batch(header, batch, output)
            else:
                self._records_dropped += header.record_count
                self._drop_batch(header, output)
            first = end
        yield from self._offer(columns, range(offered, first))

    def _offer(self, columns: RecordColumns, rows: range) -> Steps[None]:
        dropped = self._order.dropped
        if rows and dropped is not None:
            dropped.offer_columns(columns, rows)
            if dropped.is_flush_due:
                yield from dropped.flush()

    def _drop_batch(self, header: BatchHeader, output: CompactionOutput) -> None:
        """Drop all records of a batch; keep its header if its producer needs it."""
        if self._is_remembered_by(header):
            batch = emptied(header)
            self._has_changed |= header.record_count > 0
            output.keep(read_header(batch), batch)
        else:
            self._has_changed = True
            output.last_dropped = header

    def _copy_batch(self, header: BatchHeader, batch: Buffer, output: CompactionOutput) -> Steps[None]:
        records = yield from readable(header, batch)
        is_over, dropped = self._order.is_slice_over, self._order.dropped
        # Keep offsets, not records: tens of thousands of objects would make the garbage collector stop the
        # loop.
        kept = array("q")
        is_changed = has_tombstone = False
        for count, (offset, record) in enumerate(iterate_records(records)):
            if count % _LOOK_UP_EVERY == _LOOK_UP_EVERY - 1 and is_over():
                yield None
                self._last.check()
            if dropped is not None and dropped.is_flush_due:
                yield from dropped.flush()
            if not self._stays(header, offset, record):
                continue
            is_changed |= self._plain(record) is not record
            has_tombstone |= record.value is None
            kept.append(offset)
        horizon = None
        if has_tombstone and header.delete_horizon_ms is None:
            horizon = self._order.now_ms + self._order.delete_retention_ms
        if len(kept) == header.record_count and kept and not is_changed and horizon is None:
            output.keep(header, batch)
            return
        if not kept:
            self._drop_batch(header, output)
            return
        batch = yield from self._rewrite(BatchRewriter(header, horizon), records, kept)
        self._has_changed |= header.record_count > 0
        output.keep(read_header(batch), batch)

    def _stays(self, header: BatchHeader, offset: int, record: Record) -> bool:
        if record.key is None or offset in self._last.torn:
            self._records_dropped += 1
            return False
        if self._last.get(record.key) <= offset:
            horizon = header.delete_horizon_ms
            if self._order.expired is not None and self._order.expired.has(record):
                self._records_dropped += 1
                return False
            if record.value is not None or horizon is None or self._order.now_ms < horizon:
                return True
        self._records_dropped += 1
        if self._order.dropped is not None:
            self._order.dropped.offer(offset, self._plain(record))
        return False

    def _plain(self, record: Record) -> Record:
        completeness = self._last.completeness
        if not record.headers or completeness is None:
            return record
        plain = completeness.plain(record.headers)
        return record if len(plain) == len(record.headers) else record._replace(headers=plain)

    def _rewrite(self, rewriter: BatchRewriter, records: Buffer, kept: array[int]) -> Steps[bytes]:
        for count, (offset, record) in enumerate(iterate_records(records)):
            if count % _LOOK_UP_EVERY == _LOOK_UP_EVERY - 1 and self._order.is_slice_over():
                yield None
                self._last.check()
            if rewriter.count < len(kept) and offset == kept[rewriter.count]:
                rewriter.add(offset, self._plain(record))
        if not rewriter.header.codec or rewriter.header.size <= UNPACKED_HERE_BYTES:
            return rewriter.pack()
        packed: list[bytes] = []
        yield lambda: packed.append(rewriter.pack())
        return packed[0]

    def _is_remembered_by(self, header: BatchHeader) -> bool:
        """Return whether this is the last batch of a producer that is not expired."""
        if header.producer_id < 0 or (header.base_sequence < 0 and not header.is_control):
            return False
        is_last = self._last.last_batch_of.get(header.producer_id, -1) <= header.base_offset
        return is_last and header.max_timestamp >= self._order.producers_since_ms

    # Replacing.

    def _replace(self, sources: list[Segment], compacted_to: int) -> Steps[None]:
        log, outputs, dropped = self._log, self._outputs, self._order.dropped
        state = CompactionState(
            compacted_to,
            tuple(segment.base_offset for segment in sources),
            tuple(output.segment.base_offset for output in outputs),
        )

        def make_durable() -> None:
            for output in outputs:
                output.finish()
            prepare(log.files, log.directory, state)

        if dropped is not None:
            yield from dropped.settle()
        yield make_durable
        self._last.check()
        # From the decision on, the copies must not be removed.
        self._outputs = []
        if not (yield from self._decide()):
            self._outputs = outputs
            self._last.check()
        yield from self._wait_for_readers()
        if not all(self._last.is_there(segment) for segment in sources):
            yield from self._settle(log.compacted_to)
            self._outputs = outputs
            raise CompactionCancelled(f"segments of {log.directory} were deleted")
        # Freeing blocks takes long. Open files keep them, and another thread closes these files.
        self._held = [log.files.open(segment.path()) for segment in sources]
        new = [output.segment for output in outputs]
        ends = [segment.base_offset for segment in new[1:]] + [s.next_offset for s in sources[-1:]]
        for segment, end in zip(new, ends, strict=True):
            segment.next_offset = end
        log.replace_segments(sources, new, state)
        yield from self._settle(state.compacted_to)
        self._last.check()

    def _wait_for_readers(self) -> Steps[None]:
        self._last.check()
        while self._log.segments.walks:
            yield None
            self._last.check()

    def _decide(self) -> Steps[bool]:
        decided: list[bool] = []
        try:
            yield lambda: decided.append(self._log.replacement.decide(self._last.generation))
        except OSError as error:
            self._log.fail(error)
            raise
        return decided == [True]

    def _settle(self, compacted_to: int) -> Steps[None]:
        held, self._held = self._held, []

        def settle() -> None:
            for file in held:
                file.close()
            self._log.replacement.settle(compacted_to, self._last.generation)

        try:
            yield settle
        except OSError as error:
            self._log.fail(error)
            raise
        finally:
            for file in held:
                file.close()

    def _forget_outputs(self) -> None:
        for output in self._outputs:
            output.segment.close_file()
        self._outputs = []
        discard(self._log.files, self._log.directory)


def _bounded(order: CompactionOrder, not_beyond: int) -> CompactionOrder:
    return order if order.not_beyond == not_beyond else replace(order, not_beyond=not_beyond)
