"""The transactional batches of a Produce request: which partitions the transaction coordinator must confirm.

A partition where the producer's transaction is open at the epoch of the batch was confirmed before. Only
the others are asked for, all of a request at once. A request has batches of one transactional producer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

from headgate.api.contract import Node, RequestSteps
from headgate.api.transaction_checks import Check, PartitionErrors, check_partitions
from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.log.header import HEADER_BYTES, LENGTH_FIELD_END, MAGIC, TRANSACTIONAL
from headgate.topics.admission import AppendResult
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition
from headgate.topics.transactions import Verification
from headgate.wire.messages.produce import ProduceRequest, TopicProduceData

_ADDS_SINCE: Final = 12
_KNOWS_ABORTABLE_SINCE: Final = 11
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
"""Position of the low byte of a batch's attributes."""
_PRODUCER_AT: Final = 43
_PRODUCER: Final = Struct(">qh")

_RETRIED_AS_NOT_ENOUGH_REPLICAS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

_SEVERAL_PRODUCERS: Final = "Transactional records contained more than one producer ID"

Find = Callable[[TopicProduceData, int], Partition | None]


class Verified(NamedTuple):
    """What the coordinator said: the partitions that may not be written, and the word for all others."""

    verification: Verification
    errors: PartitionErrors
    ends: Mapping[tuple[str, int], int] = {}
    """The ends of the logs before the coordinator was asked. A batch may be appended much later, if another
    thread checks it: a marker that was written meanwhile has ended its transaction.
    """
    message: str | None = None
    """Explains the errors, if they need it."""


NOT_VERIFIED: Final = Verified(Verification.NONE, {})


def is_transactional(records: bytes | None) -> bool:
    """Return whether the attributes of a batch have the transactional bit."""
    return (
        records is not None
        and len(records) >= HEADER_BYTES
        and records[_MAGIC_AT] == MAGIC
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL != 0
    )


def _begins_transaction(records: bytes) -> bool:
    """Return whether this is a transactional batch, and no more than one: all else is refused later."""
    is_one = int.from_bytes(records[_LENGTH_AT:LENGTH_FIELD_END], "big") == len(records) - LENGTH_FIELD_END
    return is_one and is_transactional(records)


def verify(node: Node, request: ProduceRequest, version: int, find: Find) -> RequestSteps[Verified]:
    """Ask the coordinator for the partitions whose first batch of a transaction this is, in steps."""
    verification = Verification.VERIFIED if version < _ADDS_SINCE else Verification.VERIFIED_VERSION_2
    unconfirmed: dict[TopicName, set[int]] = {}
    ends: dict[tuple[str, int], int] = {}
    unreadable: PartitionErrors = {}
    producers: set[Producer] = set()
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            yield None
            if data.records is None or not _begins_transaction(data.records):
                continue
            producer = Producer(*_PRODUCER.unpack_from(data.records, _PRODUCER_AT))
            producers.add(producer)
            partition = find(topic_data, data.index)
            if partition is None:
                continue
            try:
                if not (yield from _is_open(partition, producer, ends)):
                    unconfirmed.setdefault(TopicName(partition.topic.name), set()).add(data.index)
            except OSError:  # an append may succeed later: nobody would end the transaction here
                unreadable[partition.topic.name, data.index] = ErrorCode.KAFKA_STORAGE_ERROR
    partitions = {topic: frozenset(indexes) for topic, indexes in unconfirmed.items()}
    if len(producers) > 1:
        errors = dict.fromkeys(ends, ErrorCode.INVALID_PRODUCER_ID_MAPPING) | unreadable
        return Verified(verification, errors, ends, _SEVERAL_PRODUCERS)
    check = _check(node, version)
    if not partitions or check is None:
        return Verified(verification, unreadable, ends)
    assert request.transactional_id is not None
    (producer,) = producers
    errors = yield from check_partitions(node, request.transactional_id, producer, partitions, check)
    return Verified(verification, errors | unreadable, ends)


def _is_open(
    partition: Partition, producer: Producer, ends: dict[tuple[str, int], int]
) -> RequestSteps[bool]:
    """Return whether the producer's transaction is open in the partition, in this epoch, and note its end.

    Raises OSError.
    """
    yield from opened_aside(partition)
    ends[partition.topic.name, partition.index] = partition.log_end_offset
    known = partition.open_transaction_of(producer.producer_id)
    return known is not None and known.epoch == producer.epoch


def _check(node: Node, version: int) -> Check | None:
    """Return what the version of the request asks for; None if partitions are not verified."""
    if version >= _ADDS_SINCE:
        return Check.ADD
    if not node.settings["transaction.partition.verification.enable"]:
        return None
    return Check.VERIFY_ABORTABLE if version >= _KNOWS_ABORTABLE_SINCE else Check.VERIFY


def refusal_of(error: ErrorCode, version: int, message: str | None = None) -> AppendResult:
    """Return the refusal of a batch in a partition that the coordinator did not confirm.

    A retriable error that clients do not retry everywhere is NOT_ENOUGH_REPLICAS, as in Kafka.
    """
    if error == ErrorCode.INVALID_TXN_STATE:
        return AppendResult(error, message="Partition was not added to the transaction")
    is_retried = error in _RETRIED_AS_NOT_ENOUGH_REPLICAS
    if is_retried or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_SINCE):
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}"
        )
        return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, message=message)
    return AppendResult(error, message=message)
