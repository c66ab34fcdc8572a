"""The records of `__share_group_state` to and from bytes: key types 0 (snapshot) and 1 (update).

The schemas are Kafka's; values have version 0, flexible. A tombstone has the key of a snapshot. One tagged
field is ours, which Kafka skips: the `DeadLetterMark`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records.errors import MalformedRecord
from headgate.records.offset_commit import text_bytes
from headgate.records.reader import Reader
from headgate.records.share_batches import FEW, NO_BATCHES, BatchRows, StateBatch, StateBatches
from headgate.records.share_state_model import (
    UNKNOWN_COUNT,
    DeadLetterMark,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
    UnknownShareRecord,
)
from headgate.records.writer import int16_bytes, int32_bytes, tagged_bytes, varint_bytes

SNAPSHOT: Final = 0
UPDATE: Final = 1
KEY_TYPES: Final = frozenset({SNAPSHOT, UPDATE})

_VERSION: Final = 0
_COUNT_TAG: Final = 0
_DEAD_LETTERS_TAG: Final = 20_001
_TOPIC_ID_BYTES: Final = 16
_mark: Final = struct.Struct(">16siq")
_snapshot_head: Final = struct.Struct(">hiiiq")
_update_head: Final = struct.Struct(">hiiq")
_times: Final = struct.Struct(">qq")
_ROW: Final = np.dtype([("first", ">i8"), ("last", ">i8"), ("state", "i1"), ("count", ">i2"), ("tags", "u1")])
"""A batch in a value: the last byte is the number of its tagged fields."""
_COLUMNS: Final = ("first", "last", "state", "count")
_row: Final = struct.Struct(">qqbhB")
_NO_TAGS: Final = 0


def encode_share(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and value. The value of a tombstone is None."""
    match record:
        case ShareSnapshot():
            return _key(SNAPSHOT, record.key), _snapshot_value(record)
        case ShareUpdate():
            return _key(UPDATE, record.key), _update_value(record)
        case ShareTombstone():
            return _key(SNAPSHOT, record.key), None
        case UnknownShareRecord():
            return record.key_bytes, record.value_bytes


def decode_share(key: bytes | None, value: bytes | None, written: Millis) -> ShareRecord:
    """Return the record of a key and a value. Raises MalformedRecord.

    A record of an unknown key type is an UnknownShareRecord; `written`, the time in the log, is not used.
    """
    if key is None:
        raise MalformedRecord("a record without a key")
    reader = Reader(key, "key of a share state")
    key_type = reader.int16()
    if key_type not in KEY_TYPES:
        return UnknownShareRecord(key, value)
    share_key = ShareKey(GroupId(reader.text()), TopicId(reader.take(_TOPIC_ID_BYTES)), reader.int32())
    reader.finish()
    if value is None:
        return ShareTombstone(share_key)
    return _read_snapshot(share_key, value) if key_type == SNAPSHOT else _read_update(share_key, value)


# --- writing ---


def _key(key_type: int, key: ShareKey) -> bytes:
    return int16_bytes(key_type) + text_bytes(key.group_id) + key.topic_id + int32_bytes(key.partition)


def _snapshot_value(record: ShareSnapshot) -> bytes:
    head = _snapshot_head.pack(
        _VERSION, record.snapshot_epoch, record.state_epoch, record.leader_epoch, record.start_offset
    )
    times = _times.pack(record.created, record.written)
    return head + times + _batches(record.batches) + _tags(record)


def _update_value(record: ShareUpdate) -> bytes:
    head = _update_head.pack(_VERSION, record.snapshot_epoch, record.leader_epoch, record.start_offset)
    return head + _batches(record.batches) + _tags(record)


def _tags(record: ShareSnapshot | ShareUpdate) -> bytes:
    fields: dict[int, bytes] = {}
    if record.delivery_complete_count != UNKNOWN_COUNT:
        fields[_COUNT_TAG] = int32_bytes(record.delivery_complete_count)
    if record.dead_letters is not None:
        fields[_DEAD_LETTERS_TAG] = _mark.pack(*record.dead_letters)
    return tagged_bytes(fields)


def _batches(batches: StateBatches) -> bytes:
    few = batches.few
    if few is not None:
        return varint_bytes(len(few) + 1) + b"".join([_row.pack(*batch, _NO_TAGS) for batch in few])
    return varint_bytes(len(batches) + 1) + b"".join(map(_rows_bytes, batches.parts))


def _rows_bytes(part: BatchRows) -> bytes:
    rows = np.zeros(len(part), _ROW)
    for column, values in zip(_COLUMNS, part.T, strict=True):
        rows[column] = values
    return rows.tobytes()


# --- reading ---


def _read_snapshot(key: ShareKey, value: bytes) -> ShareSnapshot:
    reader = _reader(value, "share snapshot")
    snapshot_epoch, state_epoch, leader_epoch = reader.int32(), reader.int32(), reader.int32()
    start_offset, created, written = reader.int64(), reader.int64(), reader.int64()
    batches = _read_batches(reader)
    fields = reader.tagged_fields()
    reader.finish()
    return ShareSnapshot(
        key=key,
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=_read_count(fields),
        created=Millis(created),
        written=Millis(written),
        batches=batches,
        dead_letters=_read_mark(fields),
    )


def _read_update(key: ShareKey, value: bytes) -> ShareUpdate:
    reader = _reader(value, "share update")
    snapshot_epoch, leader_epoch, start_offset = reader.int32(), reader.int32(), reader.int64()
    batches = _read_batches(reader)
    fields = reader.tagged_fields()
    reader.finish()
    return ShareUpdate(
        key=key,
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=_read_count(fields),
        batches=batches,
        dead_letters=_read_mark(fields),
    )


def _reader(value: bytes, what: str) -> Reader:
    reader = Reader(value, what)
    version = reader.int16()
    if version != _VERSION:
        raise reader.malformed(f"version {version} is not {_VERSION}")
    return reader


def _read_count(fields: Mapping[int, bytes]) -> int:
    if _COUNT_TAG not in fields:
        return UNKNOWN_COUNT
    reader = Reader(fields[_COUNT_TAG], "delivery complete count")
    count = reader.int32()
    reader.finish()
    return count


def _read_mark(fields: Mapping[int, bytes]) -> DeadLetterMark | None:
    if _DEAD_LETTERS_TAG not in fields:
        return None
    reader = Reader(fields[_DEAD_LETTERS_TAG], "mark of dead letters")
    mark = DeadLetterMark(TopicId(reader.take(_TOPIC_ID_BYTES)), reader.int32(), reader.int64())
    reader.finish()
    return mark


def _read_batches(reader: Reader) -> StateBatches:
    """Read the batches; all at once, unless another writer put tagged fields into them."""
    count = reader.count(smallest=_ROW.itemsize, is_flexible=True)
    if not count:
        return NO_BATCHES
    if count <= FEW:
        return _read_few(reader, count)
    rows = np.frombuffer(reader.data, _ROW, count, reader.position)
    if rows["tags"].any():
        raise reader.malformed("a state batch with tagged fields")
    reader.take(count * _ROW.itemsize)
    columns: BatchRows = np.empty((count, len(_COLUMNS)), np.int64)
    for at, column in enumerate(_COLUMNS):
        columns[:, at] = rows[column]
    return StateBatches(columns)


def _read_few(reader: Reader, count: int) -> StateBatches:
    found: list[StateBatch] = []
    for first, last, state, delivery_count, tags in _row.iter_unpack(reader.take(count * _row.size)):
        if tags:
            raise reader.malformed("a state batch with tagged fields")
        found.append(StateBatch(first, last, state, delivery_count))
    return StateBatches.of_few(tuple(found))
