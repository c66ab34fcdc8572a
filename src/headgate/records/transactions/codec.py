"""The records of `__transaction_state` to and from bytes: Kafka's TransactionLogKey and TransactionLogValue.

Values are written in version 1, which is flexible, and read in versions 0 and 1. All tagged fields are
written, defaults too. Therefore a record has the same size whatever its state, as long as its partitions are
the same: a transaction that could be recorded can also be ended. One tagged field is Headgate's: 1000 is the
last producer epoch, which Kafka forgets at a restart. Other readers skip it.
"""

from __future__ import annotations

import struct
from typing import Final

from headgate.domain.ids import Millis, TopicName
from headgate.records.errors import MalformedRecord
from headgate.records.reader import Reader
from headgate.records.transactions.model import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Partitions,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)
from headgate.records.writer import (
    compact_int32s,
    compact_text,
    int16_bytes,
    int64_bytes,
    key_bytes,
    tagged_bytes,
    varint_bytes,
)

_KEY_VERSION: Final = 0
_VERSION: Final = 1
_FLEXIBLE_SINCE: Final = 1
_START: Final = struct.Struct(">hqhib")  # version, producer id, its epoch, timeout, state
_END: Final = struct.Struct(">qq")  # last update, start of the transaction
_NULL: Final = b"\x00"
_NO_TAGS: Final = b"\x00"
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION, _LAST_PRODUCER_EPOCH = 0, 1, 2, 1000
_SMALLEST_TOPIC = 3
_LONGEST_SHORT = 0x7F
"""The greatest length, plus one, that a varint of one byte has."""
_NUMBERS: Final = [struct.Struct(f">{count}i") for count in range(_LONGEST_SHORT)]
_ONE_PARTITION: Final = struct.Struct(">BiB")  # length plus one, partition, number of tagged fields
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")


# --- writing ---


def encode_transaction(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return a record's key and value; a tombstone has no value.

    Raises struct.error for a transactional id over 32,767 bytes, and for numbers that do not fit.
    """
    key = key_bytes(_KEY_VERSION, record.transactional_id)
    if isinstance(record, TransactionTombstone):
        return key, None
    start = _START.pack(_VERSION, record.producer_id, record.producer_epoch, record.timeout_ms, record.state)
    end = _END.pack(record.last_update_timestamp, record.start_timestamp)
    return key, b"".join((start, _partitions(record), end, _tags(record)))


def _partitions(record: TransactionMetadata) -> bytes:
    """Encode the partitions, as Kafka: null for an id whose transaction has not begun."""
    if record.state is TransactionState.EMPTY:
        assert not record.partitions, "an empty transaction has no partitions"
        return _NULL
    parts = [varint_bytes(len(record.partitions) + 1)]
    for topic in sorted(record.partitions):
        partitions = record.partitions[topic]
        if len(partitions) == 1:
            (one,) = partitions
            parts += (compact_text(topic), _ONE_PARTITION.pack(2, one, 0))
        else:
            parts += (compact_text(topic), compact_int32s(sorted(partitions)), _NO_TAGS)
    return b"".join(parts)


def _tags(record: TransactionMetadata) -> bytes:
    return tagged_bytes(
        {
            _PREVIOUS_PRODUCER_ID: int64_bytes(record.previous_producer_id),
            _NEXT_PRODUCER_ID: int64_bytes(record.next_producer_id),
            _CLIENT_VERSION: int16_bytes(record.client_transaction_version),
            _LAST_PRODUCER_EPOCH: int16_bytes(record.last_producer_epoch),
        }
    )


# --- reading ---


def decode_transaction(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Return the record of a key and a value. Raises MalformedRecord."""
    if key is None:
        raise MalformedRecord("a record without a key")
    reader = Reader(key, "key of a transaction")
    version = reader.int16()
    if version != _KEY_VERSION:
        raise reader.malformed(f"version {version} is not known")
    transactional_id = reader.text()
    reader.finish()
    if value is None:
        return TransactionTombstone(transactional_id)
    return _read_value(transactional_id, Reader(value, "transaction"))


def _read_value(transactional_id: str, reader: Reader) -> TransactionMetadata:
    version = reader.int16()
    if not 0 <= version <= _VERSION:
        raise reader.malformed(f"version {version} is not known")
    is_flexible = version >= _FLEXIBLE_SINCE
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = _read_state(reader)
    partitions = _read_partitions(reader, is_flexible)
    last_update, start = reader.int64(), reader.int64()
    tags = reader.tagged_fields() if is_flexible else {}
    reader.finish()
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=_tag(tags, _LAST_PRODUCER_EPOCH, _INT16, NO_EPOCH),
        previous_producer_id=_tag(tags, _PREVIOUS_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        next_producer_id=_tag(tags, _NEXT_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_timestamp=Millis(start),
        last_update_timestamp=Millis(last_update),
        client_transaction_version=_tag(tags, _CLIENT_VERSION, _INT16, 0),
    )


def _read_state(reader: Reader) -> TransactionState:
    (number,) = reader.take(1)
    try:
        return TransactionState(number)
    except ValueError:
        raise reader.malformed(f"state {number} is not known") from None


def _read_partitions(reader: Reader, is_flexible: bool) -> Partitions:
    left = reader.nullable_count(smallest=_SMALLEST_TOPIC, is_flexible=is_flexible) or 0
    partitions: dict[TopicName, frozenset[int]] = {}
    while left:
        if is_flexible:
            left -= _read_short(reader, left, partitions)
        if left:
            _read_topic(reader, partitions, is_flexible=is_flexible)
            left -= 1
    return partitions


def _read_topic(reader: Reader, partitions: dict[TopicName, frozenset[int]], *, is_flexible: bool) -> None:
    topic = TopicName(reader.text(is_flexible=is_flexible))
    indexes = [reader.int32() for _ in range(reader.count(smallest=4, is_flexible=is_flexible))]
    if is_flexible:
        reader.tagged_fields()
    if indexes:
        partitions[topic] = partitions.get(topic, frozenset()).union(indexes)


def _read_short(reader: Reader, most: int, partitions: dict[TopicName, frozenset[int]]) -> int:
    """Read topics as long as they have the usual form: a record may have thousands. Return how many.

    They have a name and partitions, of less than 127 each, no tagged field, and are named once.
    """
    data, start = reader.data, reader.position
    at, end = start, len(data)
    count = 0
    while count < most:
        name_end = at + data[at] if at < end else end
        if not at + 1 < name_end < end or data[at] > _LONGEST_SHORT:
            break
        numbers = data[name_end] - 1
        numbers_end = name_end + 1 + 4 * numbers
        if not 0 < numbers < _LONGEST_SHORT or numbers_end >= end or data[numbers_end]:
            break
        try:
            topic = TopicName(data[at + 1 : name_end].decode())
        except UnicodeDecodeError:
            break
        if topic in partitions:
            break
        partitions[topic] = frozenset(_NUMBERS[numbers].unpack_from(data, name_end + 1))
        at = numbers_end + 1
        count += 1
    reader.take(at - start)
    return count


def _tag(tags: dict[int, bytes], tag: int, form: struct.Struct, default: int) -> int:
    content = tags.get(tag)
    if content is None:
        return default
    if len(content) != form.size:
        raise MalformedRecord(f"transaction: tagged field {tag} has {len(content)} bytes")
    return int(form.unpack(content)[0])
