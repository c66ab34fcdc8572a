"""DescribeTopicPartitions (key 75), version 0: describe topics in pages (KIP-966).

Topics are sorted by name; an empty list means all. A page has at most `response_partition_limit` partitions,
and never more than 2000; the cursor in the response is the start of the next page.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import topic_need
from headgate.api.registration import Api
from headgate.api.topic_answers import TOPIC_OPERATIONS
from headgate.domain.errors import ErrorCode
from headgate.domain.topic_names import why_invalid
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.topics.topic import Topic
from headgate.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_MAXIMUM_PAGE = 2000
"""Kafka's `max.request.partition.size.limit`."""


def handle(node: Node, call: Call, request: DescribeTopicPartitionsRequest) -> None:
    """Answer with one page."""
    call.answer_in_steps(_answer(node, request))


def _answer(
    node: Node, request: DescribeTopicPartitionsRequest
) -> RequestSteps[DescribeTopicPartitionsResponse]:
    names = {topic.name for topic in request.topics}
    cursor = request.cursor
    # The cursor must name a topic asked for, and a partition.
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        return DescribeTopicPartitionsResponse(
            topics=[_missing(name, ErrorCode.INVALID_REQUEST) for name in sorted(names)]
        )
    wanted = sorted(names) or sorted(topic.name for topic in node.topics.all())
    if cursor is not None:
        wanted = [name for name in wanted if name >= cursor.topic_name]
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, _MAXIMUM_PAGE))
    for name in wanted:
        yield None
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            return response
        topic = node.topics.by_name(name)
        if topic is None:
            is_possible = why_invalid(name) is None
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_possible else ErrorCode.INVALID_TOPIC_EXCEPTION
            missing = _missing(name, error)
            missing.topic_authorized_operations = TOPIC_OPERATIONS
            response.topics.append(missing)
            continue
        end = min(topic.partition_count, first + left)
        response.topics.append(_describe(node, topic, range(first, end)))
        left -= max(end - first, 0)
        if end < topic.partition_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            return response
    return response


def _missing(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


def _describe(node: Node, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    replicas = [node.node_id]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=node.node_id,
                leader_epoch=topic.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=replicas,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in indexes
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def needs(node: Node, call: Call, request: DescribeTopicPartitionsRequest) -> Iterator[Need]:
    """Return the needs: DESCRIBE on each topic; none named means all."""
    for name in [topic.name for topic in request.topics or node.topics.all()]:
        yield topic_need(Operation.DESCRIBE, name)


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    min_version=0,
    max_version=0,
    request_type=DescribeTopicPartitionsRequest,
    response_type=DescribeTopicPartitionsResponse,
    handle=handle,
    needs=needs,
)
