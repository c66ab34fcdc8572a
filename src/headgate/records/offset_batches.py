"""Committed offsets between the decision and the log: a shape, and its offsets.

Commits of the same partitions differ only in the offsets and the time. The constant part is a shape. It is
created when a request is decoded, kept as long as the request is cached, and compared by identity. The offset
table and the log cache in it the rows of the partitions and their bytes.

There are two kinds of shapes. A `RecordShape` is one partition; an `OffsetBatch` has any number of them, of
any groups. A `ColumnShape` is many partitions of one topic that differ in numbers only; a `ColumnBatch` is
one commit of them. Both are needed, because one array operation takes as long as a dozen single partitions.
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
    """The constant part of a partition's commits without an expiry: all but offset and time."""

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
        """The partition's row in the offset table, valid for `rows_as_of`. Only the table sets both."""
        self.rows_as_of: object = None
        self.outline: object = None
        """The bytes around offset and time. Only the log sets them."""

    def at(self, offset: int, commit_timestamp: Millis) -> OffsetCommit:
        """Return the record of one commit."""
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
    """An offset for each of some shapes, all committed at the same time."""

    __slots__ = ("commit_timestamp", "offsets", "shapes")

    def __init__(self, shapes: list[RecordShape], offsets: list[int], commit_timestamp: Millis) -> None:
        self.shapes = shapes
        self.offsets = offsets
        self.commit_timestamp = commit_timestamp

    def __len__(self) -> int:
        return len(self.shapes)

    def each(self) -> Iterator[OffsetCommit]:
        """Yield the single records, in order."""
        for index, shape in enumerate(self.shapes):
            yield shape.at(self.offsets[index], self.commit_timestamp)

    def offset_bytes(self) -> list[bytes]:
        """Return the offsets as in the records' values."""
        pack = pack_int64
        return [pack(offset) for offset in self.offsets]

    def timestamp_bytes(self) -> bytes:
        """Return the commit timestamp as at the end of the records' values."""
        return pack_int64(self.commit_timestamp)


class ColumnShape:
    """Partitions of one topic that a group commits with the same metadata and without an expiry.

    `partitions` and `leader_epochs` are int64 arrays of the same length. If a partition occurs twice, the
    last offset wins.
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
        """The partitions' rows in the offset table. Only the table sets them."""
        self.is_used_again = False
        self.template: object = None
        """The batch of the last commit, to be copied. Only the log sets it."""

    def __len__(self) -> int:
        return len(self.partitions)

    def encode(self, offsets: Int64s, commit_timestamp: Millis) -> tuple[ByteRows, ByteRows]:
        """Return the keys and the values, one row for each record, with the same bytes as `codec.encode`."""
        keys = keys_of(key_prefix(self.group_id, self.topic), self.partitions)
        value = VALUE_START + pack_int64(0) + self._between + pack_int64(commit_timestamp)
        values = np.empty((len(self), len(value)), np.uint8)
        values[:] = np.frombuffer(value, np.uint8)
        values[:, _OFFSET_AT : _OFFSET_AT + INT64_BYTES] = _big_endian(offsets, ">i8")
        values[:, _EPOCH_AT : _EPOCH_AT + 4] = _big_endian(self.leader_epochs, ">i4")
        return keys, values

    def value_fields(self) -> tuple[tuple[int, str], ...]:
        """Return byte position and numpy type of offset and commit timestamp in each value."""
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

    def between(self, first: int, end: int) -> ColumnBatch:
        """Return the partitions from `first` to `end` (exclusive), as a new shape."""
        whole, part = self.shape, slice(first, end)
        shape = ColumnShape(
            whole.group_id, whole.topic, whole.partitions[part], whole.leader_epochs[part], whole.metadata
        )
        return ColumnBatch(shape, self.offsets[part], self.commit_timestamp)

    def each(self) -> Iterator[OffsetCommit]:
        """Yield the single records, in order."""
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
