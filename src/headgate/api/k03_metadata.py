"""Metadata (key 3), versions 0-13: the brokers, which is this one, and the topics with their partitions.

In version 0 an empty list means all topics; from 1 null does, and an empty list means none. A topic asked for
by name may be created, if the broker and, from version 4, the request allow it: the response then includes
it. From version 10 topics have ids, and from 12 they may be asked for by id alone (KIP-516). A topic that is
named more than once is described once, so that a short request has no endless response.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.denials import denied_response
from headgate.api.needs import topic_need, topic_needs
from headgate.api.registration import Api
from headgate.api.topic_answers import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS, find_or_create
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.topics.topic import Topic
from headgate.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NULL_NAMES_SINCE = 12
_TOPICS_AT_ONCE = 100
"""Number of topics that are handled without a pause."""
_SHARED_AT_ONCE = 50


def handle(node: Node, call: Call, request: MetadataRequest) -> None:
    """Describe the topics asked for, in their order."""
    call.answer_in_steps(_respond(node, call, request))


def _respond(node: Node, call: Call, request: MetadataRequest) -> RequestSteps[MetadataResponse]:
    response = MetadataResponse(
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
    _add_brokers(node, response)
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if _is_of_all(call, request):
        for topic in node.topics.all():
            described = yield from _describe(node, topic, operations)
            response.topics.append(described)
        return response
    names: list[str] = []
    asked: dict[str | bytes | None, MetadataRequestTopic] = {}
    for number, wanted in enumerate(request.topics or (), 1):
        if not number % _TOPICS_AT_ONCE:
            yield None
        if wanted.topic_id != ZERO_TOPIC_ID:
            asked.setdefault(wanted.topic_id, wanted)
            continue
        if wanted.name is not None and wanted.name not in asked:
            names.append(wanted.name)
        asked.setdefault(wanted.name, wanted)
    by_name = yield from find_or_create(node, names, may_create=request.allow_auto_topic_creation)
    for number, wanted in enumerate(asked.values(), 1):
        if not number % _TOPICS_AT_ONCE:
            yield None
        answer = yield from _answer(node, wanted, by_name, operations)
        response.topics.append(answer)
    if call.api_version < _NULL_NAMES_SINCE:
        for answer in response.topics:
            answer.name = answer.name or ""
    return response


def _answer(
    node: Node, wanted: MetadataRequestTopic, by_name: dict[str, Topic | ErrorCode], operations: int
) -> RequestSteps[MetadataResponseTopic]:
    if wanted.topic_id != ZERO_TOPIC_ID:
        topic = node.topics.by_id(wanted.topic_id)
        if topic is not None:
            return (yield from _describe(node, topic, operations))
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=wanted.name, topic_id=wanted.topic_id
        )
    if wanted.name is None:
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
    found = by_name[wanted.name]
    if isinstance(found, ErrorCode):
        return MetadataResponseTopic(error_code=found, name=wanted.name)
    return (yield from _describe(node, found, operations))


def _describe(node: Node, topic: Topic, operations: int) -> RequestSteps[MetadataResponseTopic]:
    partitions = yield from _partitions(node.node_id, topic.leader_epoch, topic.partition_count)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partitions(node_id: int, leader_epoch: int, count: int) -> RequestSteps[list[MetadataResponsePartition]]:
    """Return the partitions of any topic with `count` of them: they differ only in their index."""
    partitions: list[MetadataResponsePartition] = []
    for first in range(0, count, _SHARED_AT_ONCE):
        yield None
        partitions += _some_partitions(node_id, leader_epoch, first, min(first + _SHARED_AT_ONCE, count))
    return partitions


@lru_cache(maxsize=4096)
def _some_partitions(
    node_id: int, leader_epoch: int, first: int, end: int
) -> list[MetadataResponsePartition]:
    replicas = [node_id]
    return [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=node_id,
            leader_epoch=leader_epoch,
            replica_nodes=replicas,
            isr_nodes=replicas,
        )
        for index in range(first, end)
    ]


def needs(node: Node, call: Call, request: MetadataRequest) -> Iterator[Need]:
    """Return the needs: DESCRIBE on each topic, and CREATE on a topic to be created, or on the cluster."""
    if _is_of_all(call, request):
        for topic in node.topics.all():
            yield topic_need(Operation.DESCRIBE, topic.name)
        return
    for wanted in request.topics or ():
        yield from topic_needs(node, Operation.DESCRIBE, (wanted,))
        is_new = wanted.topic_id == ZERO_TOPIC_ID and wanted.name and not node.topics.by_name(wanted.name)
        if is_new and request.allow_auto_topic_creation and node.settings["auto.create.topics.enable"]:
            yield from topic_needs(node, Operation.CREATE, (wanted,), Operation.CREATE)


def deny(node: Node, call: Call, request: MetadataRequest, error: ErrorCode) -> None:
    """Return the error in each topic, and the brokers, which a client needs to continue."""
    call.answer_in_steps(_denied(node, call, request, error))


def _denied(
    node: Node, call: Call, request: MetadataRequest, error: ErrorCode
) -> RequestSteps[MetadataResponse]:
    response: MetadataResponse = yield from denied_response(request, call.api_version, error)
    response.error_code = ErrorCode.NONE
    _add_brokers(node, response)
    return response


def _is_of_all(call: Call, request: MetadataRequest) -> bool:
    return request.topics is None or (call.api_version == 0 and not request.topics)


def _add_brokers(node: Node, response: MetadataResponse) -> None:
    response.brokers = [
        MetadataResponseBroker(node_id=node.node_id, host=node.advertised_host, port=node.advertised_port)
    ]
    response.cluster_id = node.cluster_id
    response.controller_id = node.node_id


API = Api(
    key=3,
    name="Metadata",
    min_version=0,
    max_version=13,
    request_type=MetadataRequest,
    response_type=MetadataResponse,
    handle=handle,
    needs=needs,
    deny=deny,
)
