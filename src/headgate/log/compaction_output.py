"""A segment that compaction writes: it takes the kept batches, and becomes complete and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.log.header import BatchHeader, Buffer, read_header
from headgate.log.rewriting import emptied
from headgate.log.segment import Segment
from headgate.log.swap import CLEANED_SUFFIX
from headgate.log.transaction_index import AbortedTransactions

if TYPE_CHECKING:
    from headgate.log.log import Log

_FLUSH_BYTES: Final = 256 << 10


class CompactionOutput:
    """A segment under a temporary name."""

    def __init__(self, log: Log, base_offset: int) -> None:
        self.segment = Segment(log.files, log.directory, base_offset, log.settings.index_interval_bytes)
        self.segment.create_aside(CLEANED_SUFFIX)
        if log.segments.has_aborted:
            # Its file replaces the one of an earlier segment, so it is written even if it is empty.
            self.segment.aborted = AbortedTransactions()
        self.last_dropped: BatchHeader | None = None
        self._data = bytearray()
        self._headers: list[BatchHeader] = []

    @property
    def size(self) -> int:
        """Size of all kept batches, in bytes."""
        return self.segment.size + len(self._data)

    @property
    def is_flush_due(self) -> bool:
        """Whether the collected batches should be written."""
        return len(self._data) >= _FLUSH_BYTES

    def keep(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch."""
        self._data += batch
        self._headers.append(header)

    def flush(self) -> None:
        """Write the collected batches. Runs in another thread."""
        if self._headers:
            data, headers = self._data, self._headers
            self._data, self._headers = bytearray(), []
            self.segment.write(data, headers)

    def finish(self) -> None:
        """Make the segment complete and durable, still under its temporary name. Runs in another thread."""
        if not self.size and self.last_dropped is not None:
            batch = emptied(self.last_dropped)
            self.keep(read_header(batch), batch)
        self.flush()
        self.segment.file().datasync()
        self.segment.save_indexes_aside(CLEANED_SUFFIX)
        self.segment.synced_bytes = self.segment.size
        self.segment.indexes_synced = True
