"""Dead letters as records (KIP-1191): what the broker writes to a dead-letter topic, and finds there again.

A dead letter names the record in headers, whose values are texts. The key and the value are those of the
record, if the group wants copies. The headers of the record are not copied, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headgate.core.share.partition.rejections import Cause
from headgate.log.batch import Record, encode_batch, encode_record, iterate_records
from headgate.log.header import HEADER_BYTES, read_bounds

TOPIC: Final = b"__dlq.errors.topic"
PARTITION: Final = b"__dlq.errors.partition"
OFFSET: Final = b"__dlq.errors.offset"
GROUP: Final = b"__dlq.errors.group"
DELIVERY_COUNT: Final = b"__dlq.errors.delivery.count"
MESSAGE: Final = b"__dlq.errors.message"

_REJECTED: Final = "Offset rejected by client."
_LIMIT: Final = "Offset delivery count exceeded the threshold."
_ARCHIVED: Final = "Offset archived by an administrator."


class Origin(NamedTuple):
    """The share-partition that dead letters come from."""

    group_id: str
    topic: str
    partition: int


class Letter(NamedTuple):
    """One dead letter, before it is written."""

    offset: int
    delivery_count: int
    message: str
    key: bytes | None = None
    value: bytes | None = None


class WrittenLetter(NamedTuple):
    """A dead letter of the dead-letter topic."""

    offset: int
    """The offset of the record that it names."""
    timestamp: int
    """When it was written, system time."""


def message_of(cause: Cause, delivery_count: int, limit: int) -> str:
    """Return the text for people. Without a known cause the delivery count tells, as in Kafka."""
    match cause:
        case Cause.REJECTED:
            return _REJECTED
        case Cause.ARCHIVED:
            return _ARCHIVED
        case Cause.UNKNOWN if delivery_count < limit:
            return _REJECTED
    return _LIMIT


def batch_of(origin: Origin, letters: Sequence[Letter], most_bytes: int, now: int) -> tuple[bytearray, int]:
    """Return the first letters as a batch of at most `most_bytes`, and how many they are: at least one.

    A letter that is too large alone goes without the record's key and value.
    """
    records: list[Record] = []
    left = most_bytes - HEADER_BYTES
    for letter in letters:
        record = _record(origin, letter, now)
        size = _size(record, len(records))
        if size > left and not records:
            record = record._replace(key=None, value=None)
            size = _size(record, 0)
        if size > left and records:
            break
        records.append(record)
        left -= size
    return encode_batch(records), len(records)


def _record(origin: Origin, letter: Letter, now: int) -> Record:
    texts = (
        (TOPIC, origin.topic),
        (PARTITION, str(origin.partition)),
        (OFFSET, str(letter.offset)),
        (GROUP, origin.group_id),
        (DELIVERY_COUNT, str(letter.delivery_count)),
        (MESSAGE, letter.message),
    )
    headers = [(name, text.encode()) for name, text in texts]
    return Record(letter.key, letter.value, now, headers)


def _size(record: Record, delta: int) -> int:
    parts: list[bytes] = []
    encode_record(parts, record.key, record.value, 0, delta, record.headers)
    return sum(map(len, parts))


class Searched(NamedTuple):
    """What a search found in batches of a dead-letter topic."""

    letters: list[WrittenLetter]
    end_offset: int
    """Offset after the last batch."""


def search(records: bytes, origin: Origin) -> Searched:
    """Return the dead letters of one share-partition in batches of a log. Raises CorruptBatch."""
    return Searched(list(_letters_in(records, origin)), _end_of(records))


def _letters_in(records: bytes, origin: Origin) -> Iterator[WrittenLetter]:
    wanted = [
        (TOPIC, origin.topic.encode()),
        (PARTITION, str(origin.partition).encode()),
        (GROUP, origin.group_id.encode()),
    ]
    for _, record in iterate_records(records):
        if len(record.headers) < len(wanted) or not all(one in record.headers for one in wanted):
            continue
        offset = dict(record.headers).get(OFFSET) or b""
        if offset.isdigit():
            yield WrittenLetter(int(offset), record.timestamp)


class SourceRecord(NamedTuple):
    """A record that is due to get a dead letter."""

    offset: int
    key: bytes | None
    value: bytes | None


class SourceRecords(NamedTuple):
    """The records of a read that are due."""

    records: list[SourceRecord]
    end_offset: int
    """Offset after the last batch."""


def source_records(records: bytes, first_offset: int, last_offset: int) -> SourceRecords:
    """Return the records with these offsets in batches of a log. Raises CorruptBatch."""
    found = [
        SourceRecord(at, record.key, record.value)
        for at, record in iterate_records(records)
        if first_offset <= at <= last_offset
    ]
    return SourceRecords(found, _end_of(records))


def _end_of(records: bytes) -> int:
    at, end = 0, 0
    while at < len(records):
        bounds = read_bounds(records, at)
        at, end = at + bounds.size, bounds.last_offset + 1
    return end
