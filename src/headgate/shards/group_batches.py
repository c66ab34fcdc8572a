"""The batches of one loop iteration of a group shard: single records, and offsets in columns.

A commit in columns whose shape was written before becomes a batch of its own, copied from an earlier one. A
copy is faster than encoding the records again. The shape stores the encoded bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, cast

from headgate.core.contract import Producer
from headgate.domain.ids import Millis
from headgate.log.builder import BatchBuilder, RecordBlock, RecordOutline
from headgate.log.template import BatchTemplate
from headgate.records import Change, ColumnBatch, OffsetBatch, Record, RecordShape, encode
from headgate.records.offset_blocks import blocks_of
from headgate.records.offset_commit import INT64_BYTES, VALUE_START, between_offset_and_timestamp, offset_key
from headgate.records.offset_rows import OffsetRows
from headgate.runtime.record_batches import LARGEST_INT32, RecordBatches, is_over_batch
from headgate.runtime.run_batches import RECORD_OVERHEAD, RunBatches

NARROWEST_TEMPLATE: Final = 16


class TurnBatches(RecordBatches):
    """Encodes the batches of one shard's loop iterations."""

    def __init__(
        self, largest_batch_bytes: Callable[[], int] = lambda: LARGEST_INT32, may_be_runs: bool = True
    ) -> None:
        super().__init__(encode, largest_batch_bytes, may_be_runs)

    def add_transactional(self, changes: Sequence[Change], producer: Producer, now: Millis) -> int:
        """Encode records of a producer's open transaction; see `RecordBatches.add_transactional`."""
        parts = [part for change in changes for part in _parts_of_batches(change)]
        for part in parts:
            if part.count == 1:
                self._check_size(part.size)
        self._close_before(now)
        builder = BatchBuilder(now)
        for part in parts:
            if builder.record_count and is_over_batch(builder.size_bytes + part.size):
                self._close_part(builder, producer)
                builder = BatchBuilder(now)
            part.add_to(builder)
        self._close_part(builder, producer)
        return sum(part.count for part in parts)

    def _add_changes(self, changes: Sequence[Change], first_offset: int) -> int:
        return (
            self._add_batch(changes)
            or self._add_copy(changes)
            or self._add_singles(changes)
            or self._add(changes, first_offset)
        )

    def _add_batch(self, changes: Sequence[Change]) -> int:
        """Add offsets of any number of shapes. Return their number, or 0: other changes, or too many."""
        batch = changes[0]
        if len(changes) > 1 or type(batch) is not OffsetBatch:
            return 0
        outlines: list[RecordOutline] = []
        size = 0
        for shape in batch.shapes:
            outline = _outline_of(shape) if shape.outline is None else cast(RecordOutline, shape.outline)
            outlines.append(outline)
            size += outline.size_bytes
        if is_over_batch(size):
            return 0
        self._make_room(size)
        self._shared.add_outlined(outlines, batch.offset_bytes(), batch.timestamp_bytes(), size)
        return len(outlines)

    def _add_singles(self, changes: Sequence[Change]) -> int:
        """Add changes of one record each. Return their number, or 0: other changes, or too many."""
        encoded = []
        size = 0
        for change in changes:
            if isinstance(change, (ColumnBatch, OffsetRows, OffsetBatch)):
                return 0
            key, value = encode(change)
            encoded.append((key, value))
            size += len(key) + len(value or b"") + RECORD_OVERHEAD
        if is_over_batch(size):
            for key, value in encoded:
                self._check_size(len(key) + len(value or b""))
            return 0
        self._make_room(size)
        self._shared.add_all(encoded, size)
        return len(encoded)

    def _add_copy(self, changes: Sequence[Change]) -> int:
        """Add a commit in columns as a copy of an earlier batch. Return its number of records, or 0."""
        batch = changes[0]
        if len(changes) > 1 or type(batch) is not ColumnBatch:
            return 0
        template = _template_of(batch)
        if template is None:
            return 0
        self._close_shared()
        self._batches.append(template.batch(self._shared.timestamp, batch.offsets, batch.commit_timestamp))
        return len(batch)

    def _add(self, changes: Sequence[Change], first_offset: int) -> int:
        """Add a command's records to the shared batch, or as a run. Return how many there are."""
        parts = [_part_of(one) for one in _split(changes)]
        size = sum(part.size for part in parts)
        count = sum(part.count for part in parts)
        self._make_room(size)
        if self._is_run(size, count):
            run = self._run(first_offset, count)
            for part in parts:
                part.add_to_run(run)
            self._batches += run.build()
        else:
            for part in parts:
                part.add_to(self._shared)
        return count


def _outline_of(shape: RecordShape) -> RecordOutline:
    key = offset_key(shape.group_id, shape.topic, shape.partition)
    between = between_offset_and_timestamp(shape.leader_epoch, shape.metadata)
    shape.outline = outline = RecordOutline(key, VALUE_START, INT64_BYTES, between, INT64_BYTES)
    return outline


def _template_of(batch: ColumnBatch) -> BatchTemplate | None:
    """Return the batch to copy; None for a shape that is new, narrow, or too large for a batch."""
    shape = batch.shape
    if shape.template is not None:
        return cast(BatchTemplate, shape.template)
    if not shape.is_used_again or len(shape) < NARROWEST_TEMPLATE:
        shape.is_used_again = True
        return None
    keys, values = shape.encode(batch.offsets, batch.commit_timestamp)
    if is_over_batch(keys.size + values.size + len(shape) * RECORD_OVERHEAD):
        return None
    shape.template = template = BatchTemplate(keys, values, shape.value_fields())
    return template


def _parts_of_batches(change: Change) -> Iterator[_Single | _Columns | _Blocks]:
    """Yield the records of a change in parts that fit into a batch, unless a single record does not."""
    if isinstance(change, OffsetBatch):
        yield from map(_Single, change.each())
        return
    part = _part_of(change)
    if isinstance(change, (ColumnBatch, OffsetRows)) and part.count > 1 and is_over_batch(part.size):
        middle = part.count // 2
        yield from _parts_of_batches(change.between(0, middle))
        yield from _parts_of_batches(change.between(middle, part.count))
    else:
        yield part


def _split(changes: Iterable[Change]) -> Iterator[Record | ColumnBatch | OffsetRows]:
    for change in changes:
        if isinstance(change, OffsetBatch):
            yield from change.each()
        else:
            yield change


def _part_of(change: Record | ColumnBatch | OffsetRows) -> _Single | _Columns | _Blocks:
    match change:
        case ColumnBatch():
            return _Columns(change)
        case OffsetRows():
            return _Blocks(change)
        case _:
            return _Single(change)


class _Single:
    """One encoded record."""

    __slots__ = ("_key", "_value", "size")
    count = 1

    def __init__(self, record: Record) -> None:
        self._key, self._value = encode(record)
        self.size = len(self._key) + len(self._value or b"") + RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        """Append the records to a shared batch."""
        builder.add(self._key, self._value, self.size)

    def add_to_run(self, run: RunBatches) -> None:
        """Append the records to a run."""
        run.add(self._key, self._value)


class _Columns:
    """The encoded records of a commit in columns, one for each partition."""

    __slots__ = ("_keys", "_values", "count", "size")

    def __init__(self, batch: ColumnBatch) -> None:
        self._keys, self._values = batch.shape.encode(batch.offsets, batch.commit_timestamp)
        self.count = len(batch)
        self.size = self._keys.size + self._values.size + self.count * RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        """Append the records to a shared batch."""
        builder.add_columns(self._keys, self._values)

    def add_to_run(self, run: RunBatches) -> None:
        """Append the records to a run."""
        run.add_columns(self._keys, self._values)


class _Blocks:
    """Encoded records that differ in more than numbers."""

    __slots__ = ("_blocks", "count", "size")

    def __init__(self, rows: OffsetRows) -> None:
        self._blocks = [RecordBlock(*block) for block in blocks_of(rows)]
        self.count = len(rows)
        self.size = self.count * RECORD_OVERHEAD + sum(
            keys.size + (0 if values is None else values.size) for _, keys, values in self._blocks
        )

    def add_to(self, builder: BatchBuilder) -> None:
        """Append the records to a shared batch."""
        builder.add_blocks(self._blocks)

    def add_to_run(self, run: RunBatches) -> None:
        """Append the records to a run."""
        run.add_blocks(self._blocks)
