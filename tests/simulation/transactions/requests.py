"""The requests of transactional producers, and the errors in their responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors after which a client repeats its request."""

Place = tuple[str, int]


def init_producer_id(
    transactional_id: str, timeout_seconds: float, expected: Producer | None
) -> InitProducerIdRequest:
    """Ask for a producer id and an epoch; `expected` are those that the client had."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=int(1000 * timeout_seconds)
    )
    if expected is not None:
        request.producer_id, request.producer_epoch = expected
    return request


def add_partitions(
    transactional_id: str, producer: Producer, places: Sequence[Place]
) -> AddPartitionsToTxnRequest:
    """Add partitions, in version 3."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=of) for name, of in by_topic.items()
        ],
    )


def add_offsets(transactional_id: str, producer: Producer, group_id: str) -> AddOffsetsToTxnRequest:
    """Add a group."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )


def batch_of(producer: Producer, sequence: int, values: Sequence[bytes], now_ms: int) -> bytes:
    """Encode a batch of a transaction; the keys are the values, so that none replaces another."""
    records = [Record(value, value, now_ms) for value in values]
    return bytes(
        encode_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


def produce(transactional_id: str, batches: Mapping[Place, bytes]) -> ProduceRequest:
    """Produce a batch to each of some partitions."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for (topic, index), batch in batches.items():
        topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=batch))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
    )


def transactional_commit(
    transactional_id: str, producer: Producer, group_id: str, offsets: Mapping[Place, int], **member: Any
) -> TxnOffsetCommitRequest:
    """Commit offsets of a group in a transaction."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        topics.setdefault(topic, []).append(partition)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=of) for name, of in topics.items()],
        **member,
    )


def end(transactional_id: str, producer: Producer, *, is_committed: bool) -> EndTxnRequest:
    """Commit or abort."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=is_committed,
    )


def plain_commit(group_id: str, place: Place, offset: int) -> OffsetCommitRequest:
    """Commit one offset outside of transactions."""
    topic, index = place
    partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def removal(group_id: str, place: Place) -> OffsetDeleteRequest:
    """Remove one offset."""
    topic, index = place
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


_PARTS = ("topics", "partitions", "responses", "partition_responses", "results_by_topic_v3_and_below")


def errors_in(response: Any) -> Iterator[ErrorCode]:
    """Yield all errors of a response."""
    for name in ("error_code", "partition_error_code"):
        if getattr(response, name, 0):
            yield ErrorCode(getattr(response, name))
    for name in (*_PARTS, "results_by_partition"):
        for part in getattr(response, name, ()):
            yield from errors_in(part)
