"""Offsets of many partitions, committed at once: one value for as many records of the log, in columns.

A wide commit differs from partition to partition in two or three numbers. Kept as columns of numbers it is
checked, recorded and remembered in a few array operations; `each()` tells what it stands for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.model import OffsetCommit, Record
from headgate.records.offset_blocks import Rows, keys_of
from headgate.records.offset_commit import WRITTEN_VERSION, key_prefix
from headgate.records.offset_rows import OffsetRows
from headgate.records.standing_commits import StandingCommits

Int64s = NDArray[np.int64]

_head = struct.Struct(">hqih")
_timestamp = struct.Struct(">q")


@dataclass(slots=True, eq=False)
class OffsetCommits:
    """Committed offsets of one group in one topic, all with the same metadata and none with an expiry.

    `partitions`, `offsets` and `leader_epochs` are int64 arrays of one length; a partition that stands
    twice is committed twice, the last one wins.
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
        """The records this stands for, in order."""
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

    def encode(self) -> tuple[Rows, Rows]:
        """Keys and values, a row each, as `encode` writes them one by one."""
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
        """Where offset, leader epoch and commit timestamp stand in each value, and as which numpy type."""
        return (2, ">i8"), (10, ">i4"), (_head.size + len(self.metadata.encode()), ">i8")


def _big_endian(numbers: Int64s, layout: str) -> Rows:
    return numbers.astype(layout).view(np.uint8).reshape(len(numbers), -1)


_MANY = OffsetCommits, OffsetRows, StandingCommits
Change = Record | OffsetCommits | OffsetRows | StandingCommits
"""What a shard decides: one record, or many as one value."""


def records_of(change: Change) -> Iterable[Record]:
    """The records that a change stands for, in order."""
    return change.each() if isinstance(change, _MANY) else (change,)


def record_count(change: Change) -> int:
    """How many records of the log a change takes."""
    return len(change) if isinstance(change, _MANY) else 1
