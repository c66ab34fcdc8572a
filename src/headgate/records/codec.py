"""Records of `__consumer_offsets` to and from bytes. The first two bytes of a key are the record's type."""

from __future__ import annotations

from dataclasses import replace

from headgate.domain.ids import Millis
from headgate.records import (
    change_author,
    consumer_group,
    group_metadata,
    offset_commit,
    paused_partitions,
    share_group,
)
from headgate.records.consumer_model import NEVER, ConsumerGroupMetadata, is_consumer_record
from headgate.records.errors import MalformedRecord
from headgate.records.model import (
    ChangeAuthor,
    GroupMetadata,
    GroupTombstone,
    OffsetCommit,
    OffsetTombstone,
    Record,
    UnknownRecord,
)
from headgate.records.paused_model import PausedTopicPartitions, PausedTopicPartitionsTombstone
from headgate.records.reader import Reader
from headgate.records.share_group_model import is_share_group_record


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return the record's key and value. The value of a tombstone is None."""
    if type(record) is OffsetCommit:  # first, because it is by far the most frequent
        return offset_commit.encode_commit(record)
    if is_consumer_record(record):
        return consumer_group.encode_consumer(record)
    match record:
        case OffsetCommit():
            return offset_commit.encode_commit(record)
        case OffsetTombstone():
            return offset_commit.encode_tombstone(record)
        case GroupMetadata():
            return group_metadata.encode_group(record)
        case GroupTombstone():
            return group_metadata.encode_tombstone(record)
        case PausedTopicPartitions():
            return paused_partitions.encode_paused(record)
        case PausedTopicPartitionsTombstone():
            return paused_partitions.encode_tombstone(record)
        case ChangeAuthor():
            return change_author.encode_author(record)
        case UnknownRecord():
            return record.key, record.value
        case _:
            assert is_share_group_record(record), "the last kind that there is"
            return share_group.encode_share_group(record)


def decode(key: bytes | None, value: bytes | None, written: Millis = NEVER) -> Record:
    """Return the record of a key and a value. Raises MalformedRecord.

    A record of an unknown key type is an UnknownRecord. `written` is the record's timestamp in the log, in
    ms; ConsumerGroupMetadata keeps it.
    """
    if key is None:
        raise MalformedRecord("a record without a key")
    if key.startswith(offset_commit.KEY_STARTS):
        return offset_commit.decode_offset(key, value)
    reader = Reader(key, "key")
    key_type = reader.int16()
    if key_type == group_metadata.KEY_TYPE:
        return group_metadata.decode_group(reader, value)
    if key_type in consumer_group.KEY_TYPES:
        record = consumer_group.decode_consumer(key_type, reader, value)
        if written != NEVER and isinstance(record, ConsumerGroupMetadata):
            return replace(record, written=written)
        return record
    if key_type in share_group.KEY_TYPES:
        return share_group.decode_share_group(key_type, reader, value)
    if key_type == paused_partitions.KEY_TYPE:
        return paused_partitions.decode_paused(reader, value)
    if key_type == change_author.KEY_TYPE:
        return change_author.decode_author(reader, value)
    return UnknownRecord(key_type, key, value)
