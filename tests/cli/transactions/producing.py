"""A transactional producer that sends single requests, for tests of commands that describe and end it."""

from __future__ import annotations

from tests.topics.transactions import transactional

from headgate.admin import Admin, TopicPartition
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TIMEOUT_MS = 20_000


def begin(admin: Admin, transactional_id: str) -> tuple[int, int]:
    """Get a producer id and an epoch for a transactional id."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    answer = admin.cluster.retrying(lambda: admin.cluster.any_node().request(request, 5))
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def write(admin: Admin, producer: tuple[int, int], where: TopicPartition, name: str, version: int) -> int:
    """Produce one record of a transaction; return its offset. Version 11 tells no coordinator."""
    records = transactional(producer[0], b"value", epoch=producer[1])
    data = [PartitionProduceData(index=where.partition, records=records)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        transactional_id=name,
        topic_data=[TopicProduceData(name=where.topic, partition_data=data)],
    )
    answer = admin.cluster.any_node().request(request, version)
    (written,) = answer.responses[0].partition_responses
    assert written.error_code == ErrorCode.NONE
    return written.base_offset


def commit(
    admin: Admin, producer: tuple[int, int], where: TopicPartition, name: str, group_id: str, offset: int
) -> None:
    """Commit an offset in a transaction, and tell no coordinator."""
    partition = TxnOffsetCommitRequestPartition(partition_index=where.partition, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=where.topic, partitions=[partition])],
    )
    answer = admin.cluster.any_node().request(request, 3)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def stable_offset(admin: Admin, where: TopicPartition, group_id: str) -> bool:
    """Return whether a group has a stable offset of a partition, or none at all."""
    topics = [OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=True)
    answer = admin.cluster.any_node().request(request, 8)
    error = ErrorCode(answer.groups[0].topics[0].partitions[0].error_code)
    assert error in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return error is ErrorCode.NONE
