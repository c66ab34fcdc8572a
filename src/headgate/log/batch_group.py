"""Some batches that follow each other, to be looked at together by compaction.

A record costs several times as much to look at for itself. In a group are batches that are nothing unusual:
no control batch, none of a transaction, none compressed, none so large that a group of it would take long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.log.record_columns import RecordColumns, read_columns
from headgate.log.rewriting import check_sum

if TYPE_CHECKING:
    from headgate.log.header import BatchHeader, Buffer

MOST_RECORDS: Final = 512
"""When a group is full; one batch may have more."""
LARGEST_BATCH_RECORDS: Final = 2048
LARGEST_BATCH_BYTES: Final = 256 << 10


class BatchGroup:
    """Collects batches; `take` them to go on with an empty group."""

    __slots__ = ("_batches", "record_count")

    def __init__(self) -> None:
        self._batches: list[tuple[BatchHeader, Buffer]] = []
        self.record_count = 0

    @staticmethod
    def takes(header: BatchHeader) -> bool:
        """Whether such a batch may be part of a group."""
        return (
            0 < header.record_count <= LARGEST_BATCH_RECORDS
            and header.size <= LARGEST_BATCH_BYTES
            and not (header.codec or header.is_control or header.is_transactional)
        )

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """One more batch, behind the others."""
        self._batches.append((header, batch))
        self.record_count += header.record_count

    @property
    def is_full(self) -> bool:
        """Whether it is time to look at the group."""
        return self.record_count >= MOST_RECORDS

    def take(self) -> list[tuple[BatchHeader, Buffer]]:
        """The batches; the group is empty then."""
        batches, self._batches = self._batches, []
        self.record_count = 0
        return batches


def plain_columns(batches: list[tuple[BatchHeader, Buffer]]) -> RecordColumns | None:
    """Their records, if all have keys and none has headers. Raises CorruptBatch where a CRC is wrong."""
    for header, batch in batches:
        check_sum(header, batch)
    columns = read_columns(batches)
    if columns is None or columns.has_headers.any() or (columns.key_sizes < 0).any():
        return None
    return columns


def keys_of(columns: RecordColumns) -> list[bytes]:
    """The key of each record; all have one."""
    data = columns.data
    starts = columns.key_starts.tolist()
    ends = (columns.key_starts + columns.key_sizes).tolist()
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]
