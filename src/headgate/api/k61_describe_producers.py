"""DescribeProducers (key 61), version 0: the producers that a partition remembers (KIP-664).

Each has its epoch, its last sequence and timestamp, the epoch of the transaction coordinator that wrote its
last marker, and the first offset of its open transaction; -1 for what it does not have. So an administrator
finds hanging transactions. A partition that is named several times is described once: a small request must
not have a response without bounds.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.domain.topic_names import why_invalid
from headgate.log.header import CorruptBatch
from headgate.security.resources import Operation
from headgate.topics.opening_aside import opened_aside
from headgate.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_AT_ONCE = 50
"""Producers described in one step."""
_UNKNOWN_TOPIC = "This server does not host this topic-partition."
"""Kafka's text for an unknown topic; for an unknown partition it has none."""


def handle(node: Node, call: Call, request: DescribeProducersRequest) -> None:
    """Answer each partition independently."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: DescribeProducersRequest) -> RequestSteps[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    described: set[tuple[str, int]] = set()
    for topic in request.topics:
        answers = TopicResponse(name=topic.name)
        response.topics.append(answers)
        for index in topic.partition_indexes:
            yield None
            if (topic.name, index) not in described:
                described.add((topic.name, index))
                answer = yield from _describe(node, topic.name, index)
                answers.partitions.append(answer)
    return response


def _describe(node: Node, topic_name: str, index: int) -> RequestSteps[PartitionResponse]:
    answer = PartitionResponse(partition_index=index)
    topic = node.topics.by_name(topic_name)
    partition = None if topic is None else topic.find_partition(index)
    if partition is None:
        is_possible = why_invalid(topic_name) is None
        answer.error_code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_possible else ErrorCode.INVALID_TOPIC_EXCEPTION
        )
        answer.error_message = _UNKNOWN_TOPIC if topic is None else None
        return answer
    yield from opened_aside(partition)
    if partition.topic.is_deleted:
        answer.error_code, answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC
        return answer
    try:
        producers = partition.active_producers()
    except (OSError, CorruptBatch):
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    for count, (producer_id, state, first_offset) in enumerate(producers):
        if count % _AT_ONCE == _AT_ONCE - 1:
            yield None
        answer.active_producers.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=first_offset,
            )
        )
    return answer


API = Api(
    key=61,
    name="DescribeProducers",
    min_version=0,
    max_version=0,
    request_type=DescribeProducersRequest,
    response_type=DescribeProducersResponse,
    handle=handle,
    needs=of_topics(Operation.READ),
)
