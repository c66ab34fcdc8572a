"""Consecutive batches that compaction processes together.

Processing each record by itself costs several times as much. A group has only ordinary batches: no control
batch, no transactional one, no compressed one, and none of a size that would make a slice long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.log.record_columns import RecordColumns, read_columns
from headgate.log.rewriting import check_sum

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader, Buffer

MOST_RECORDS: Final = 512
"""A group with at least so many records is full; a single batch may have more."""
LARGEST_BATCH_RECORDS: Final = 2048
LARGEST_BATCH_BYTES: Final = 256 << 10


class BatchGroup:
    """Collects batches; `take` returns them and empties the group."""

    __slots__ = ("_batches", "record_count")

    def __init__(self) -> None:
        self._batches: list[tuple[BatchHeader, Buffer]] = []
        self.record_count = 0

    @staticmethod
    def takes(header: BatchHeader) -> bool:
        """Return whether a group may have such a batch."""
        return (
            0 < header.record_count <= LARGEST_BATCH_RECORDS
            and header.size <= LARGEST_BATCH_BYTES
            and not (header.codec or header.is_control or header.is_transactional)
        )

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch after the others."""
        self._batches.append((header, batch))
        self.record_count += header.record_count

    @property
    def is_full(self) -> bool:
        """Whether the group should be processed now."""
        return self.record_count >= MOST_RECORDS

    def take(self) -> list[tuple[BatchHeader, Buffer]]:
        """Return the batches and empty the group."""
        batches, self._batches = self._batches, []
        self.record_count = 0
        return batches


def plain_columns(batches: list[tuple[BatchHeader, Buffer]]) -> RecordColumns | None:
    """Return the records as columns if all have keys and none has headers, else None. Raises CorruptBatch."""
    for header, batch in batches:
        check_sum(header, batch)
    columns = read_columns(batches)
    if columns is None or columns.has_headers.any() or (columns.key_sizes < 0).any():
        return None
    return columns


def keys_of(columns: RecordColumns) -> list[bytes]:
    """Return the key of each record; all records have one."""
    data = columns.data
    starts = columns.key_starts.tolist()
    ends = (columns.key_starts + columns.key_sizes).tolist()
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]
