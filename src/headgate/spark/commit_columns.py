"""Read offset commits from the coordinator's log, all records of a chunk at once.

Layouts, from Kafka's record schemas (all integers big-endian, strings after an int16 size):

    key    0, 1   int16 version, group string, topic string, partition int32
    value  0, 2   int16 version, offset int64, metadata string, commit timestamp int64
    value  1      the same, then expire timestamp int64
    value  3      int16 version, offset int64, leader epoch int32, metadata string, commit timestamp int64
    value  4      as 3, but metadata after an unsigned varint of its size + 1, and tagged fields at the end

`group_events` has all records with another layout, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.log.batch_scan import Bits, Ints, gather, only
from headgate.spark import arrow
from headgate.spark.arrow import Column, Rows

KEY_VERSIONS = (0, 1)
LAST_VALUE_VERSION = 4
_FIRST_FLEXIBLE_VERSION = 4
_FIRST_VERSION_WITH_LEADER_EPOCH = 3
_VERSION_WITH_EXPIRE_TIMESTAMP = 1


@dataclass(frozen=True, slots=True)
class _Keys:
    """Positions of the parts of offset commit keys; `fits` is false for any other key."""

    group_at: Ints
    group_size: Ints
    topic_at: Ints
    topic_size: Ints
    partition_at: Ints
    fits: Bits


@dataclass(frozen=True, slots=True)
class _Values:
    """The parts of offset commit values; `version` is -1 for a tombstone, `fits` false for an invalid value.

    `is_known` is false for a tombstone and for a future version: the other columns are then undefined.
    """

    version: Ints
    is_known: Bits
    committed_offset: Ints
    leader_epoch: Ints
    metadata_at: Ints
    metadata_size: Ints
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints
    fits: Bits


def is_offset_commit(records: Records) -> Bits:
    """Return which records are offset commits, readable or with a future version of the value."""
    return _keys(records).fits & _values(records).fits


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return the offset commits among the records, as `schemas.OFFSET_COMMITS`."""
    keys, values = _keys(records), _values(records)
    chosen = keys.fits & values.fits
    records, keys, values = only(records, chosen), only(keys, chosen), only(values, chosen)
    payload, batches = records.payload, records.batches
    count = len(records)
    unknown = ~values.is_known
    no_epoch = unknown | (values.leader_epoch < 0)
    producer_id = batches.producer_id[records.batch]
    columns: dict[str, Column] = {
        "log_partition": lambda: arrow.constant(where.partition, count, pa.int32()),
        "log_offset": lambda: arrow.integers(records.offset, pa.int64()),
        "log_timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "log_leader_epoch": lambda: arrow.leader_epochs(records),
        "group_id": lambda: arrow.strings(payload, keys.group_at, keys.group_size),
        "topic": lambda: arrow.strings(payload, keys.topic_at, keys.topic_size),
        "partition": lambda: arrow.integers(_number(payload, ">i4", keys.partition_at), pa.int32()),
        "committed_offset": lambda: arrow.integers(values.committed_offset, pa.int64(), unknown),
        "leader_epoch": lambda: arrow.integers(values.leader_epoch, pa.int32(), no_epoch),
        "metadata": lambda: arrow.strings(payload, values.metadata_at, values.metadata_size),
        "commit_timestamp": lambda: arrow.timestamps(np.where(unknown, -1, values.commit_timestamp_ms)),
        "expire_timestamp": lambda: arrow.timestamps(np.where(unknown, -1, values.expire_timestamp_ms)),
        "is_tombstone": lambda: pa.array(records.value_size < 0),
        "value_version": lambda: arrow.integers(values.version, pa.int32(), values.version < 0),
        "is_transactional": lambda: pa.array(batches.is_transactional[records.batch]),
        "producer_id": lambda: arrow.integers(producer_id, pa.int64(), producer_id < 0),
    }
    return Rows(count, columns)


def _keys(records: Records) -> _Keys:
    read = _Reader(records.payload, records.key_at, records.key_size)
    version = read.number(">i2")
    group_at, group_size = read.string()
    topic_at, topic_size = read.string()
    partition_at = read.at
    read.number(">i4")
    fits = read.fits & np.isin(version, KEY_VERSIONS) & (read.at == read.end) & ~records.is_control
    return _Keys(group_at, group_size, topic_at, topic_size, partition_at, fits)


def _values(records: Records) -> _Values:
    is_tombstone = records.value_size < 0
    read = _Reader(records.payload, records.value_at, records.value_size)
    version = np.where(is_tombstone, -1, read.number(">i2"))
    has_version = read.fits.copy()
    is_known = has_version & (version >= 0) & (version <= LAST_VALUE_VERSION)
    committed_offset = read.number(">i8")
    leader_epoch = read.number(">i4", version >= _FIRST_VERSION_WITH_LEADER_EPOCH)
    metadata_at, metadata_size = read.string(version >= _FIRST_FLEXIBLE_VERSION)
    commit_timestamp_ms = read.number(">i8")
    expire_timestamp_ms = read.number(">i8", version == _VERSION_WITH_EXPIRE_TIMESTAMP)
    is_whole = read.fits & ((read.at == read.end) | (version >= _FIRST_FLEXIBLE_VERSION))
    return _Values(
        version=version,
        is_known=is_known,
        committed_offset=committed_offset,
        leader_epoch=leader_epoch,
        metadata_at=metadata_at,
        metadata_size=np.where(is_known, metadata_size, -1),
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        fits=is_tombstone | (has_version & (is_whole | (version > LAST_VALUE_VERSION))),
    )


def _number(payload: bytes | bytearray, kind: str, at: Ints) -> Ints:
    return gather(payload, kind, at).astype(np.int64)


class _Reader:
    """Reads the same field of many keys or values at once, and advances each.

    A key or value that is too short is marked in `fits`, and read at its end from then on, which the padding
    allows.
    """

    def __init__(self, payload: bytes | bytearray, at: Ints, size: Ints) -> None:
        self.payload = payload
        self.at = at
        self.end = at + np.maximum(size, 0)
        self.fits: Bits = size >= 0

    def number(self, kind: str, present: Bits | None = None) -> Ints:
        """Read a number of this numpy type; -1, without advancing, where it is not `present`."""
        width = np.dtype(kind).itemsize
        value = _number(self.payload, kind, self.at)
        if present is None:
            self._move(self.at + width)
            return value
        self._move(self.at + np.where(present, width, 0))
        return np.where(present, value, -1)

    def string(self, is_compact: Bits | None = None) -> tuple[Ints, Ints]:
        """Read a string after an int16 size; where `is_compact`, after an unsigned varint of its size + 1."""
        size = _number(self.payload, ">i2", self.at)
        width = np.full_like(size, 2)
        if is_compact is not None and is_compact.any():
            rows = np.flatnonzero(is_compact)
            size[rows], width[rows] = self._compact_size(rows)
        self.fits &= size >= 0
        self._move(self.at + width)
        at = self.at
        self._move(at + np.maximum(size, 0))
        return at, size

    def _compact_size(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the size of compact strings and the width of its varint, of which five bytes are read at
        most.
        """
        at = self.at[rows]
        size, width = np.zeros_like(at), np.zeros_like(at)
        more = np.ones(len(at), dtype=np.bool_)
        for index in range(5):
            octet = _number(self.payload, "u1", at + index)
            size += np.where(more, (octet & 0x7F) << (7 * index), 0)
            width += more
            more &= octet >= 0x80
        return size - 1, width

    def _move(self, at: Ints) -> None:
        over = at > self.end
        if over.any():
            self.fits &= ~over
            at = np.where(over, self.end, at)
        self.at = at
