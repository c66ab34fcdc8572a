"""The batches of a commit too large for one batch: a run, whose records hold their place in it (R3.12).

Columns are encoded as columns: as many of their rows as a batch can hold in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.log.builder import BatchBuilder, ByteRows, RecordBlock, most_record_bytes
from headgate.records.runs import RUN_HEADERS_BYTES, RunPlace, run_headers

RECORD_OVERHEAD = 16
"""Upper bound of a record's size without key and value."""
_HEADER_OVERHEAD = 40


class RunBatches:
    """Splits the records of one run, added in order, into batches.

    `start` is the place of the first record. A batch is full when its records exceed `batch_bytes`.
    """

    __slots__ = ("_batch_bytes", "_batches", "_part", "_place", "_timestamp")

    def __init__(self, start: RunPlace, timestamp: int, batch_bytes: int) -> None:
        self._place = start
        """Place of the next record."""
        self._batch_bytes = batch_bytes
        self._timestamp = timestamp
        self._batches: list[bytearray] = []
        self._part = BatchBuilder(timestamp)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Append one record."""
        size = len(key) + len(value or b"") + RECORD_OVERHEAD + _HEADER_OVERHEAD
        self._part.add(key, value, size, (self._place.header(),))
        self._taken(1)

    def add_columns(self, keys: ByteRows, values: ByteRows) -> None:
        """Append a record for each row of `keys` and `values`."""
        size = most_record_bytes(keys.shape[1], values.shape[1], RUN_HEADERS_BYTES)
        first = 0
        while first < len(keys):
            end = min(first + (self._batch_bytes - self._part.size_bytes) // size + 1, len(keys))
            headers = run_headers(self._place, end - first)
            self._part.add_columns(keys[first:end], values[first:end], headers)
            self._taken(end - first)
            first = end

    def add_blocks(self, blocks: Sequence[RecordBlock]) -> None:
        """Append the records of all blocks, merged by their places."""
        sizes = np.empty(sum(len(block.places) for block in blocks), np.int64)
        for places, keys, values in blocks:
            value_size = 0 if values is None else values.shape[1]
            sizes[places] = most_record_bytes(keys.shape[1], value_size, RUN_HEADERS_BYTES)
        ends = np.cumsum(sizes)
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            full_at = before + self._batch_bytes - self._part.size_bytes
            end = min(int(np.searchsorted(ends, full_at, side="right")) + 1, len(ends))
            part = [block.between(first, end) for block in blocks]
            self._part.add_blocks(part, run_headers(self._place, end - first))
            self._taken(end - first)
            first = end

    def _taken(self, count: int) -> None:
        self._place = self._place._replace(before=self._place.before + count)
        if self._part.size_bytes > self._batch_bytes:
            self._close_part()

    def _close_part(self) -> None:
        if self._part.record_count:
            self._batches.append(self._part.build())
            self._part = BatchBuilder(self._timestamp)

    def build(self) -> list[bytearray]:
        """Return the batches, after all records of the run were added."""
        assert self._place.before == self._place.total, "a run says how long it is"
        self._close_part()
        return self._batches
