"""The log that a share-partition delivers the records of: where it ends for the group, and reads of it.

All that is read and not sent is lost time, so a read is as large as the wanted records were in the last one.
"""

from __future__ import annotations

from typing import Final

from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.records.share_state_model import ShareKey
from headgate.server.shares.reading import ReadBatches, read_batches
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.partition import Partition, ReadResult

MOST_READ_BYTES: Final = 256 << 10
"""Bytes that one fetch reads of one partition, but at least one batch."""
_LEAST_READ_BYTES: Final = 16 << 10
_READ_BEYOND: Final = 1.25
"""A read is larger by this than what the wanted records have, judging from the last read."""


class SourceLog:
    """The log of one share-partition's records, as its group sees it."""

    def __init__(self, node: Surroundings, key: ShareKey) -> None:
        self._node = node
        self._key = key
        self.is_committed = False
        """Whether the group reads committed records only."""
        self._record_bytes = float(MOST_READ_BYTES)
        """Bytes of a record in the last read, on the average."""

    def partition(self) -> Partition | ErrorCode:
        """Return the partition of the topic, or the error of a fetch."""
        topic = self._node.topics.by_id(self._key.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return topic.find_partition(self._key.partition) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def visible_end(self, partition: Partition) -> int:
        """Return the offset after the records that the group may read. Raises OSError, CorruptBatch."""
        return partition.last_stable_offset if self.is_committed else partition.high_watermark

    def has_records(self, machine: SharePartition) -> bool:
        """Return whether a fetch may get records, or an error. Raises OSError, CorruptBatch."""
        partition = self.partition()
        return isinstance(partition, ErrorCode) or machine.next_offset() < self.visible_end(partition)

    def read(self, partition: Partition, offset: int, most_records: int, most_bytes: int) -> ReadResult:
        """Read batches from an offset on, for so many records: one batch at least."""
        wanted = min(float(MOST_READ_BYTES), most_records * self._record_bytes * _READ_BEYOND)
        enough = max(_LEAST_READ_BYTES, int(wanted))
        return partition.read(
            offset, min(enough, max(0, most_bytes)), minimum_one=True, is_committed=self.is_committed
        )

    def batches_of(self, found: ReadResult, offset: int, last_wanted: int) -> ReadBatches:
        """Return the batches of a read at `offset`, up to the one with the last wanted offset."""
        read = read_batches(offset, found.records, found.aborted, last_wanted)
        self._record_bytes = read.record_bytes
        return read
