"""Records of Kafka's metadata log (KIP-631), from their bytes.

A value is `frame version uvarint | API key uvarint | version uvarint | message`, and messages are flexible.
Only the records that matter to an import are read; the others are counted by their API key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from headgate.domain.ids import TopicId
from headgate.domain.topic_names import why_invalid
from headgate.records.reader import Reader

_FRAME_VERSION: Final = 1
_ID_BYTES: Final = 16
_LEADER_TAG: Final = 1
_REPLICAS_TAG: Final = 2
_LEADER_UNCHANGED: Final = -2

_TOPIC, _PARTITION, _CONFIG, _PARTITION_CHANGE, _REMOVE_TOPIC = 2, 3, 4, 5, 9
_PRODUCER_IDS = 15
_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION = 23, 24, 25
ACCESS_CONTROL_ENTRY: Final = 18
SCRAM_CREDENTIAL: Final = 11
CLIENT_QUOTA: Final = 14


@dataclass(frozen=True, slots=True)
class TopicAdded:
    """A topic was created."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionAdded:
    """A partition was created, or is part of a snapshot."""

    topic_id: TopicId
    index: int
    replicas: tuple[int, ...]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """A partition has other replicas (None: the same ones), or another leader, which raises its epoch."""

    topic_id: TopicId
    index: int
    replicas: tuple[int, ...] | None
    has_new_leader: bool


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """A setting of a resource has a new value; None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic was deleted."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class ProducerIdsReserved:
    """The producer ids below `end` were given to brokers."""

    end: int


@dataclass(frozen=True, slots=True)
class TransactionBegins:
    """The records after this one count only when their transaction ends."""


@dataclass(frozen=True, slots=True)
class TransactionEnds:
    """The open transaction of the metadata log ends."""

    is_committed: bool


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A record that an import ignores."""

    api_key: int


MetadataRecord: TypeAlias = (
    TopicAdded
    | PartitionAdded
    | PartitionChanged
    | ConfigSet
    | TopicRemoved
    | ProducerIdsReserved
    | TransactionBegins
    | TransactionEnds
    | OtherRecord
)


def decode_metadata(value: bytes) -> MetadataRecord:
    """Return the record in the value of a record of the metadata log. Raises MalformedRecord."""
    reader = Reader(value, "metadata record")
    frame, api_key, version = reader.varint(), reader.varint(), reader.varint()
    if frame != _FRAME_VERSION:
        raise reader.malformed(f"frame version {frame} is not {_FRAME_VERSION}")
    known = _READERS.get(api_key)
    if known is None:
        return OtherRecord(api_key)
    newest, read = known
    if version > newest:
        raise reader.malformed(f"version {version} of record type {api_key} is newer than {newest}")
    return read(reader, version)


def _topic_id(reader: Reader) -> TopicId:
    return TopicId(reader.take(_ID_BYTES))


def _int32s(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.int32() for _ in range(reader.count(smallest=4, is_flexible=True)))


def _read_topic(reader: Reader, version: int) -> TopicAdded:
    name = reader.text(is_flexible=True)
    reason = why_invalid(name)
    if reason is not None:  # directories are named like topics
        raise reader.malformed(reason)
    return TopicAdded(name, _topic_id(reader))


def _read_partition(reader: Reader, version: int) -> PartitionAdded:
    index, topic_id, replicas = reader.int32(), _topic_id(reader), _int32s(reader)
    for _ in ("in-sync replicas", "removing replicas", "adding replicas"):
        _int32s(reader)
    reader.int32()  # the leader
    return PartitionAdded(topic_id, index, replicas, reader.int32())


def _read_partition_change(reader: Reader, version: int) -> PartitionChanged:
    index, topic_id = reader.int32(), _topic_id(reader)
    fields = reader.tagged_fields()
    leader = _LEADER_UNCHANGED
    if _LEADER_TAG in fields:
        leader = Reader(fields[_LEADER_TAG], "leader").int32()
    replicas = None
    if _REPLICAS_TAG in fields:
        replicas = _int32s(Reader(fields[_REPLICAS_TAG], "replicas"))
    return PartitionChanged(topic_id, index, replicas, leader != _LEADER_UNCHANGED)


def _read_config(reader: Reader, version: int) -> ConfigSet:
    (resource_type,) = reader.take(1)
    resource, name = reader.text(is_flexible=True), reader.text(is_flexible=True)
    return ConfigSet(resource_type, resource, name, reader.nullable_text(is_flexible=True))


def _read_removal(reader: Reader, version: int) -> TopicRemoved:
    return TopicRemoved(_topic_id(reader))


def _read_producer_ids(reader: Reader, version: int) -> ProducerIdsReserved:
    reader.int32()  # the broker
    reader.int64()  # its epoch
    return ProducerIdsReserved(reader.int64())


_READERS: Final[dict[int, tuple[int, Callable[[Reader, int], MetadataRecord]]]] = {
    _TOPIC: (0, _read_topic),
    _PARTITION: (2, _read_partition),
    _CONFIG: (0, _read_config),
    _PARTITION_CHANGE: (2, _read_partition_change),
    _REMOVE_TOPIC: (0, _read_removal),
    _PRODUCER_IDS: (0, _read_producer_ids),
    _BEGIN_TRANSACTION: (0, lambda reader, version: TransactionBegins()),
    _END_TRANSACTION: (0, lambda reader, version: TransactionEnds(is_committed=True)),
    _ABORT_TRANSACTION: (0, lambda reader, version: TransactionEnds(is_committed=False)),
}
"""By API key: the newest version, and the reader."""
