"""Who changed offsets, as a record of Headgate's own (key type 1002) in `__consumer_offsets`.

A commit in Kafka's format does not tell who made it. After the records of an administrative change follows
one record for each of its topics, in the same batch or run: the client, which of the records before it are
the change's, and of an undo the time of the change that it undid (tagged). Its key has the group and the
topic, so compaction keeps the last one, and moves the others into the history, as it does with the offsets.
Coordinators ignore it, also those of older versions.
"""

from __future__ import annotations

from typing import Final

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.errors import MalformedRecord
from headgate.records.model import ChangeAuthor
from headgate.records.reader import Reader
from headgate.records.writer import (
    compact_text,
    int16_bytes,
    int32_bytes,
    int64_bytes,
    key_bytes,
    tagged_bytes,
)

KEY_TYPE: Final = 1002
KEY_START: Final = int16_bytes(KEY_TYPE)
_VERSION: Final = 0
_UNDONE_TAG: Final = 0


def encode_author(record: ChangeAuthor) -> tuple[bytes, bytes]:
    """Return the key and the value of a record."""
    value = (
        int16_bytes(_VERSION)
        + int32_bytes(record.back)
        + int32_bytes(record.count)
        + compact_text(record.client_id)
        + compact_text(record.client_host)
        + tagged_bytes({} if record.undone_at is None else {_UNDONE_TAG: int64_bytes(record.undone_at)})
    )
    return key_bytes(KEY_TYPE, record.group_id, record.topic), value


def decode_author(key: Reader, value: bytes | None) -> ChangeAuthor:
    """Read a record. `key` is positioned after the key type. Raises MalformedRecord."""
    group_id, topic = GroupId(key.text()), TopicName(key.text())
    key.finish()
    if value is None:
        raise MalformedRecord("a tombstone of the author of a change, which is never written")
    reader = Reader(value, "value")
    version = reader.int16()
    if version != _VERSION:
        raise MalformedRecord(f"version {version} of the author of a change, which is not known")
    back, count = reader.int32(), reader.int32()
    if not 0 < count <= back:
        raise MalformedRecord(f"the author of {count} of the {back} records before")
    client_id, client_host = reader.text(is_flexible=True), reader.text(is_flexible=True)
    undone = reader.tagged_fields().get(_UNDONE_TAG)
    reader.finish()
    undone_at = None if undone is None else _time(undone)
    return ChangeAuthor(group_id, topic, back, count, client_id, client_host, undone_at)


def _time(content: bytes) -> Millis:
    reader = Reader(content, "time of the undone change")
    time = Millis(reader.int64())
    reader.finish()
    return time
