"""Committed offsets on their way from a decision to the log: a shape, and offsets for it.

From one commit of the same partitions to the next only the offsets and the time differ. The rest is a
shape. It is made when a request is read, kept as long as the request is remembered, and equal to no other
shape. The offset table and the log keep in it what they find out: the rows of these partitions, their bytes.

There are two kinds. A `RecordShape` is one partition; an `OffsetBatch` holds any number of them, of any
groups. A `ColumnShape` is many partitions of one topic that differ in numbers only; a `ColumnBatch` is one
commit of them. Both are needed: one array operation costs as much as a dozen partitions one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.model import OffsetCommit
from headgate.records.offset_blocks import ByteRows, keys_of
from headgate.records.offset_commit import (
    INT64_BYTES,
    VALUE_START,
    between_offset_and_timestamp,
    key_prefix,
    pack_int64,
)

Int64s = NDArray[np.int64]

NO_ROW = -1
_OFFSET_AT = len(VALUE_START)
_EPOCH_AT = _OFFSET_AT + INT64_BYTES


class RecordShape:
    """One partition that a group commits, without an expiry: all but offset and time."""

    __slots__ = ("group_id", "leader_epoch", "metadata", "outline", "partition", "row", "rows_as_of", "topic")

    def __init__(
        self, group_id: GroupId, topic: TopicName, partition: int, leader_epoch: int, metadata: str = ""
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.row = NO_ROW
        """Where the offset table has this partition, as of `rows_as_of`; both are the table's."""
        self.rows_as_of: object = None
        self.outline: object = None
        """The bytes around offset and time; the log's."""

    def at(self, offset: int, commit_timestamp: Millis) -> OffsetCommit:
        """The record of one commit."""
        return OffsetCommit(
            self.group_id,
            self.topic,
            self.partition,
            offset,
            self.leader_epoch,
            self.metadata,
            commit_timestamp,
        )


class OffsetBatch:
    """An offset for each of some shapes, all committed at one time."""

    __slots__ = ("commit_timestamp", "offsets", "shapes")

    def __init__(self, shapes: list[RecordShape], offsets: list[int], commit_timestamp: Millis) -> None:
        self.shapes = shapes
        self.offsets = offsets
        self.commit_timestamp = commit_timestamp

    def __len__(self) -> int:
        return len(self.shapes)

    def each(self) -> Iterator[OffsetCommit]:
        """The records this stands for, in order."""
        for index, shape in enumerate(self.shapes):
            yield shape.at(self.offsets[index], self.commit_timestamp)

    def offset_bytes(self) -> list[bytes]:
        """The offsets as they stand in the records' values."""
        pack = pack_int64
        return [pack(offset) for offset in self.offsets]

    def timestamp_bytes(self) -> bytes:
        """The time as it stands at the end of each of the values."""
        return pack_int64(self.commit_timestamp)


class ColumnShape:
    """Partitions of one topic that a group commits with the same metadata and without an expiry.

    `partitions` and `leader_epochs` are int64 arrays of one length. A partition that is named twice is
    committed twice; the last one wins.
    """

    __slots__ = (
        "group_id",
        "is_used_again",
        "leader_epochs",
        "metadata",
        "partitions",
        "rows",
        "template",
        "topic",
    )

    def __init__(
        self, group_id: GroupId, topic: TopicName, partitions: Int64s, leader_epochs: Int64s, metadata: str
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partitions = partitions
        self.leader_epochs = leader_epochs
        self.metadata = metadata
        self.rows: object = None
        """Where the offset table has these partitions; the table's."""
        self.is_used_again = False
        self.template: object = None
        """The batch of the last commit, to copy from; the log's."""

    def __len__(self) -> int:
        return len(self.partitions)

    def encode(self, offsets: Int64s, commit_timestamp: Millis) -> tuple[ByteRows, ByteRows]:
        """Keys and values, a row each, as `encode` writes them one by one."""
        keys = keys_of(key_prefix(self.group_id, self.topic), self.partitions)
        value = VALUE_START + pack_int64(0) + self._between + pack_int64(commit_timestamp)
        values = np.empty((len(self), len(value)), np.uint8)
        values[:] = np.frombuffer(value, np.uint8)
        values[:, _OFFSET_AT : _OFFSET_AT + INT64_BYTES] = _big_endian(offsets, ">i8")
        values[:, _EPOCH_AT : _EPOCH_AT + 4] = _big_endian(self.leader_epochs, ">i4")
        return keys, values

    def value_fields(self) -> tuple[tuple[int, str], ...]:
        """Where offset and commit timestamp stand in each value, and as which numpy type."""
        return (_OFFSET_AT, ">i8"), (_EPOCH_AT + len(self._between), ">i8")

    @property
    def _between(self) -> bytes:
        return between_offset_and_timestamp(0, self.metadata)


@dataclass(slots=True, eq=False)
class ColumnBatch:
    """One commit of a shape: an int64 array with an offset for each partition, and the time."""

    shape: ColumnShape
    offsets: Int64s
    commit_timestamp: Millis

    def __len__(self) -> int:
        return len(self.offsets)

    def each(self) -> Iterator[OffsetCommit]:
        """The records this stands for, in order."""
        shape = self.shape
        columns = zip(
            shape.partitions.tolist(), self.offsets.tolist(), shape.leader_epochs.tolist(), strict=True
        )
        for partition, offset, leader_epoch in columns:
            yield OffsetCommit(
                shape.group_id,
                shape.topic,
                partition,
                offset,
                leader_epoch,
                shape.metadata,
                self.commit_timestamp,
            )


def _big_endian(numbers: Int64s, layout: str) -> ByteRows:
    return numbers.astype(layout).view(np.uint8).reshape(len(numbers), -1)
