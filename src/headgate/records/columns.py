"""A commit of many partitions as one value: columns of numbers for many records of the log.

The partitions of a wide commit differ in two or three numbers. As columns they are checked, encoded and
stored in a few array operations. `each()` yields the single records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.model import OffsetCommit, Record
from headgate.records.offset_blocks import ByteRows, keys_of
from headgate.records.offset_commit import WRITTEN_VERSION, key_prefix
from headgate.records.offset_rows import OffsetRows
from headgate.records.standing_commits import StandingCommits

Int64s = NDArray[np.int64]

_head = struct.Struct(">hqih")
_timestamp = struct.Struct(">q")


@dataclass(slots=True, eq=False)
class OffsetCommits:
    """Committed offsets of one group in one topic, all with the same metadata, none with an expiry.

    `partitions`, `offsets` and `leader_epochs` are int64 arrays of the same length. If a partition occurs
    twice, the last offset wins.
    """

    group_id: GroupId
    topic: TopicName
    partitions: Int64s
    offsets: Int64s
    leader_epochs: Int64s
    metadata: str
    commit_timestamp: Millis

    def __len__(self) -> int:
        return len(self.partitions)

    def each(self) -> Iterator[OffsetCommit]:
        """Yield the single records, in order."""
        columns = zip(
            self.partitions.tolist(), self.offsets.tolist(), self.leader_epochs.tolist(), strict=True
        )
        for partition, offset, leader_epoch in columns:
            yield OffsetCommit(
                self.group_id,
                self.topic,
                partition,
                offset,
                leader_epoch,
                self.metadata,
                self.commit_timestamp,
            )

    def encode(self) -> tuple[ByteRows, ByteRows]:
        """Return the keys and the values, one row for each record, with the same bytes as `codec.encode`."""
        count = len(self)
        keys = keys_of(key_prefix(self.group_id, self.topic), self.partitions)
        metadata = self.metadata.encode()
        template = (
            _head.pack(WRITTEN_VERSION, 0, 0, len(metadata))
            + metadata
            + _timestamp.pack(self.commit_timestamp)
        )
        values = np.empty((count, len(template)), np.uint8)
        values[:] = np.frombuffer(template, np.uint8)
        values[:, 2:10] = _big_endian(self.offsets, ">i8")
        values[:, 10:14] = _big_endian(self.leader_epochs, ">i4")
        return keys, values

    def value_fields(self) -> tuple[tuple[int, str], ...]:
        """Return byte position and numpy type of offset, leader epoch and commit timestamp in each value."""
        return (2, ">i8"), (10, ">i4"), (_head.size + len(self.metadata.encode()), ">i8")


def _big_endian(numbers: Int64s, layout: str) -> ByteRows:
    return numbers.astype(layout).view(np.uint8).reshape(len(numbers), -1)


_MANY = OffsetCommits, OffsetRows, StandingCommits
Change = Record | OffsetCommits | OffsetRows | StandingCommits
"""A change of state that a shard decides: one record, or many records as one value."""


def records_of(change: Change) -> Iterable[Record]:
    """Return the single records of a change, in order."""
    return change.each() if isinstance(change, _MANY) else (change,)


def record_count(change: Change) -> int:
    """Return the number of records of a change."""
    return len(change) if isinstance(change, _MANY) else 1
