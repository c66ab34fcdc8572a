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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.log.batch_scan import Bits, Ints, gather, only, words_of
from headgate.spark import arrow, commit_kernel
from headgate.spark.arrow import Column, Rows

KEY_VERSIONS = (0, 1)
LAST_VALUE_VERSION = 4
_FIRST_FLEXIBLE_VERSION = 4
_FIRST_VERSION_WITH_LEADER_EPOCH = 3
_VERSION_WITH_EXPIRE_TIMESTAMP = 1


@dataclass(frozen=True, slots=True)
class Commits:
    """The parts of offset commits, for each of some records; `fits` is false for any other record.

    `version` is that of the value, -1 for a tombstone. `is_known` is false for a tombstone and for a future
    version: the columns after it are then undefined, but for `metadata_size`, which is -1.
    """

    fits: Bits
    group_at: Ints
    group_size: Ints
    topic_at: Ints
    topic_size: Ints
    partition: Ints
    version: Ints
    is_known: Bits
    committed_offset: Ints
    leader_epoch: Ints
    metadata_at: Ints
    metadata_size: Ints
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints


def read_commits(records: Records) -> Commits:
    """Find the offset commits among records, readable or with a future version of the value."""
    kernel = commit_kernel.compiled_find_commits()
    return by_numpy(records) if kernel is None else by_kernel(kernel, records)


def is_offset_commit(records: Records) -> Bits:
    """Return which records are offset commits, readable or with a future version of the value."""
    return read_commits(records).fits


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return the offset commits among the records, as `schemas.OFFSET_COMMITS`."""
    return rows_of(records, read_commits(records), where)


def rows_of(records: Records, commits: Commits, where: TopicPartition) -> Rows:
    """Return the offset commits that were found among the records, as `schemas.OFFSET_COMMITS`."""
    records, commits = only(records, commits.fits), only(commits, commits.fits)
    payload, batches = records.payload, records.batches
    count = len(records)
    unknown = None if commits.is_known.all() else ~commits.is_known

    def times(milliseconds: Ints) -> pa.Array:
        return arrow.timestamps(milliseconds if unknown is None else np.where(unknown, -1, milliseconds))

    def leader_epochs() -> pa.Array:
        is_none = commits.leader_epoch < 0
        return arrow.integers(
            commits.leader_epoch, pa.int32(), is_none if unknown is None else is_none | unknown
        )

    def is_transactional() -> pa.Array:
        if not batches.is_transactional.any():
            return arrow.constant(False, count, pa.bool_())
        return pa.array(batches.is_transactional[records.batch])

    columns: dict[str, Column] = {
        "log_partition": lambda: arrow.constant(where.partition, count, pa.int32()),
        "log_offset": lambda: arrow.integers(records.offset, pa.int64()),
        "log_timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "log_leader_epoch": lambda: arrow.leader_epochs(records),
        "group_id": lambda: arrow.strings(payload, commits.group_at, commits.group_size),
        "topic": lambda: arrow.strings(payload, commits.topic_at, commits.topic_size),
        "partition": lambda: arrow.integers(commits.partition, pa.int32()),
        "committed_offset": lambda: arrow.integers(commits.committed_offset, pa.int64(), unknown),
        "leader_epoch": leader_epochs,
        "metadata": lambda: arrow.strings(payload, commits.metadata_at, commits.metadata_size),
        "commit_timestamp": lambda: times(commits.commit_timestamp_ms),
        "expire_timestamp": lambda: times(commits.expire_timestamp_ms),
        "is_tombstone": lambda: pa.array(records.value_size < 0),
        "value_version": lambda: arrow.integers(commits.version, pa.int32(), commits.version < 0),
        "is_transactional": is_transactional,
        "producer_id": lambda: arrow.producer_ids(records),
    }
    return Rows(count, columns)


def by_kernel(find: Callable[..., None], records: Records) -> Commits:
    """Find the offset commits record by record, by machine code."""
    out = np.empty((commit_kernel.COLUMNS, len(records)), np.int64)
    kind = np.zeros(len(records), np.uint8)
    words = words_of(records.payload)
    find(words, records.key_at, records.key_size, records.value_at, records.value_size, out, kind)
    is_known: Bits = kind == commit_kernel.KNOWN
    fits: Bits = kind != commit_kernel.NO_COMMIT
    if records.batches.is_control.any():
        fits &= ~records.is_control
    metadata_at, metadata_size = out[8], out[9]
    if not is_known.all():
        # A column of positions must ascend, also where nothing is there.
        metadata_at = np.where(is_known, metadata_at, records.value_at)
        metadata_size = np.where(is_known, metadata_size, -1)
    return Commits(
        fits=fits,
        group_at=out[0],
        group_size=out[1],
        topic_at=out[2],
        topic_size=out[3],
        partition=out[4],
        version=out[5],
        is_known=is_known,
        committed_offset=out[6],
        leader_epoch=out[7],
        metadata_at=metadata_at,
        metadata_size=metadata_size,
        commit_timestamp_ms=out[10],
        expire_timestamp_ms=out[11],
    )


def by_numpy(records: Records) -> Commits:
    """Find the offset commits field by field, for all records at once."""
    key = _Reader(records.payload, records.key_at, records.key_size)
    key_version = key.number(">i2")
    group_at, group_size = key.string()
    topic_at, topic_size = key.string()
    partition = key.number(">i4")
    is_key = key.fits & np.isin(key_version, KEY_VERSIONS) & (key.at == key.end) & ~records.is_control
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
    is_value = is_tombstone | (has_version & (is_whole | (version > LAST_VALUE_VERSION)))
    return Commits(
        fits=is_key & is_value,
        group_at=group_at,
        group_size=group_size,
        topic_at=topic_at,
        topic_size=topic_size,
        partition=partition,
        version=version,
        is_known=is_known,
        committed_offset=committed_offset,
        leader_epoch=leader_epoch,
        metadata_at=metadata_at,
        metadata_size=np.where(is_known, metadata_size, -1),
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
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
