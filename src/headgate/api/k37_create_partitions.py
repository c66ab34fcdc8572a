"""CreatePartitions (key 37), versions 0-3: raise a topic's number of partitions.

`count` is the new total. An assignment, if given, has one entry for each new partition and names this node.
Internal topics have a fixed number: it determines which partition coordinates a group. Like the creation of
topics, a request that would add more partitions than one may is refused as a whole; Kafka fails to serve it.
"""

from __future__ import annotations

from collections import Counter

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.api.topic_answers import refuse_assignment, refuse_partitions
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.topics.refusal import Refusal
from headgate.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(node: Node, call: Call, request: CreatePartitionsRequest) -> None:
    """Extend each topic independently."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: CreatePartitionsRequest) -> RequestSteps[CreatePartitionsResponse]:
    times_named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    too_many = refuse_partitions(
        sum(_added(node, topic) for topic in request.topics if times_named[topic.name] == 1)
    )
    for topic in request.topics:
        yield None
        if too_many is not None:
            refusal: Refusal | None = too_many
        elif times_named[topic.name] > 1:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        else:
            refusal = _extend(node, topic, validate_only=request.validate_only)
        result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        if refusal is not None:
            result.error_code = refusal.error
            result.error_message = refusal.message
    return CreatePartitionsResponse(results=list(results.values()))


def _added(node: Node, wanted: CreatePartitionsTopic) -> int:
    topic = node.topics.by_name(wanted.name)
    return 0 if topic is None else max(0, wanted.count - topic.partition_count)


def _extend(node: Node, wanted: CreatePartitionsTopic, *, validate_only: bool) -> Refusal | None:
    topic = node.topics.by_name(wanted.name)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    refusal = node.topics.refusal_of_partitions(topic, wanted.count)
    if refusal is None and wanted.assignments is not None:
        added = wanted.count - topic.partition_count
        if len(wanted.assignments) != added:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        refusal = refuse_assignment(node, [assignment.broker_ids for assignment in wanted.assignments])
    if refusal is None and not validate_only:
        refusal = node.topics.add_partitions(topic, wanted.count, node.system_time())
    return refusal


API = Api(
    key=37,
    name="CreatePartitions",
    min_version=0,
    max_version=3,
    request_type=CreatePartitionsRequest,
    response_type=CreatePartitionsResponse,
    handle=handle,
    needs=of_topics(Operation.ALTER),
)
