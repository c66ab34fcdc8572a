"""The record of a group's paused partitions (key type 1000) to and from bytes: value version 0, flexible.

The schemas are those of KIP-1249, which does not define the type of the key yet. Two tagged fields of
Headgate, both with tag 1000, have the time, the caller and the reason of pauses: that of the value lists the
pauses, that of a topic has the pause of each partition (one number if all have the same). Other readers skip
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records.paused_model import Pause, PausedTopicPartitions, PausedTopicPartitionsTombstone
from headgate.records.reader import Reader
from headgate.records.writer import (
    compact_array,
    compact_int32s,
    compact_text,
    int16_bytes,
    int64_bytes,
    key_bytes,
    tagged_bytes,
)

KEY_TYPE: Final = 1000
_VERSION: Final = 0
_PAUSES_TAG: Final = 1000
_PAUSE_OF_PARTITIONS_TAG: Final = 1000
_TOPIC_ID_BYTES: Final = 16
_SMALLEST_TOPIC: Final = _TOPIC_ID_BYTES + 2
_SMALLEST_PAUSE: Final = 11
_UNKNOWN: Final = Pause()


# --- writing ---


def encode_paused(record: PausedTopicPartitions) -> tuple[bytes, bytes]:
    """Return the key and the value of a record."""
    numbers: dict[Pause, int] = {}
    topics = [
        topic_id + _partitions(partitions, numbers)
        for topic_id, partitions in sorted(record.partitions.items())
    ]
    fields = {} if numbers.keys() <= {_UNKNOWN} else {_PAUSES_TAG: compact_array(map(_pause, numbers))}
    return _key(record.group_id), int16_bytes(_VERSION) + compact_array(topics) + tagged_bytes(fields)


def encode_tombstone(record: PausedTopicPartitionsTombstone) -> tuple[bytes, None]:
    """Return the key of a record that takes the other one away."""
    return _key(record.group_id), None


def _key(group_id: GroupId) -> bytes:
    return key_bytes(KEY_TYPE, group_id)


def _partitions(partitions: Mapping[int, Pause], numbers: dict[Pause, int]) -> bytes:
    indexes = sorted(partitions)
    # Partitions of one request share the object, and mostly there is one: it is found without a look at each.
    ids = set(map(id, partitions.values()))
    some = indexes[:1] if len(ids) == 1 else indexes
    each = [numbers.setdefault(partitions[index], len(numbers)) for index in some]
    if len(set(each)) == 1:
        each = each[:1]
    fields = {} if each in ([0], []) else {_PAUSE_OF_PARTITIONS_TAG: compact_int32s(each)}
    return compact_int32s(indexes) + tagged_bytes(fields)


def _pause(pause: Pause) -> bytes:
    return (
        int64_bytes(pause.since) + compact_text(pause.caller) + compact_text(pause.reason) + tagged_bytes({})
    )


# --- reading ---


def decode_paused(key: Reader, value: bytes | None) -> PausedTopicPartitions | PausedTopicPartitionsTombstone:
    """Return the record of a key, its type read already, and a value. Raises MalformedRecord."""
    group_id = GroupId(key.text())
    key.finish()
    if value is None:
        return PausedTopicPartitionsTombstone(group_id)
    reader = Reader(value, "paused partitions")
    version = reader.int16()
    if version != _VERSION:
        raise reader.malformed(f"version {version} is not known")
    count = reader.count(smallest=_SMALLEST_TOPIC, is_flexible=True)
    topics = [_read_topic(reader) for _ in range(count)]
    pauses = _read_pauses(reader.tagged_fields().get(_PAUSES_TAG))
    reader.finish()
    partitions: dict[TopicId, dict[int, Pause]] = {}
    for topic_id, indexes, numbers in topics:
        if max(numbers) >= len(pauses) or min(numbers) < 0:
            raise reader.malformed("a pause that is not listed")
        of_topic = partitions.setdefault(topic_id, {})
        if len(numbers) == 1:
            of_topic.update(dict.fromkeys(indexes, pauses[numbers[0]]))
        else:
            of_topic.update((index, pauses[number]) for index, number in zip(indexes, numbers, strict=True))
    paused = {topic_id: indexes for topic_id, indexes in partitions.items() if indexes}
    return PausedTopicPartitions(group_id=group_id, partitions=paused)


def _read_topic(reader: Reader) -> tuple[TopicId, list[int], list[int]]:
    """A topic, its partitions, and the number of each one's pause, or of all of them."""
    topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
    indexes = _int32s(reader)
    content = reader.tagged_fields().get(_PAUSE_OF_PARTITIONS_TAG)
    if content is None:
        return topic_id, indexes, [0]
    numbers = _int32s(inner := Reader(content, "paused partitions, pauses of a topic"))
    inner.finish()
    if len(numbers) not in (1, len(indexes)):
        raise reader.malformed(f"{len(numbers)} pauses of {len(indexes)} partitions")
    return topic_id, indexes, numbers or [0]


def _int32s(reader: Reader) -> list[int]:
    return [reader.int32() for _ in range(reader.count(smallest=4, is_flexible=True))]


def _read_pauses(content: bytes | None) -> list[Pause]:
    if content is None:
        return [_UNKNOWN]
    reader = Reader(content, "paused partitions, pauses")
    pauses = []
    for _ in range(reader.count(smallest=_SMALLEST_PAUSE, is_flexible=True)):
        since = Millis(reader.int64())
        caller, reason = reader.text(is_flexible=True), reader.text(is_flexible=True)
        reader.tagged_fields()
        pauses.append(Pause(since, caller, reason))
    reader.finish()
    return pauses
