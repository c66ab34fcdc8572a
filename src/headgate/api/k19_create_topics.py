"""CreateTopics (key 19), versions 2-7: create topics.

Topics are independent; valid ones are created with one sync per hundred, and the response is sent when all
exist. -1 for partitions or replication factor means the broker's default. There is no replication: a factor
above one, or an assignment to another broker, is refused. With `validate_only` the response is the same, with
an id of no topic. From version 5 the response has the partitions and settings, from 7 the topic's id.

Of several mistakes one is told, the first in Kafka's order: a repeated name, the name, the settings, and then
assignments, replication factor and partitions. A request for more partitions than one may create is
refused as a whole before that, as by Kafka.
"""

from __future__ import annotations

from collections import Counter

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.api.topic_answers import create_in_steps, new_topic_id, refuse_assignment, refuse_partitions
from headgate.domain.errors import ErrorCode
from headgate.domain.settings import TOPIC_SETTINGS
from headgate.security.resources import Operation
from headgate.topics.configs import check, describe_topic
from headgate.topics.refusal import Refusal
from headgate.topics.topics import NewTopic
from headgate.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_Described = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""The settings of topics, shared by all topics that have the same of their own: there may be many."""


def handle(node: Node, call: Call, request: CreateTopicsRequest) -> None:
    """Create the topics, and return one result per name."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: CreateTopicsRequest) -> RequestSteps[CreateTopicsResponse]:
    times_named = Counter(topic.name for topic in request.topics)
    too_many = refuse_partitions(
        sum(_partition_count(node, topic) for topic in request.topics if times_named[topic.name] == 1)
    )
    if too_many is not None:
        return CreateTopicsResponse(topics=[_refused(topic.name, too_many) for topic in request.topics])
    results: dict[str, CreatableTopicResult] = {}
    wanted: list[NewTopic] = []
    described: _Described = {}
    for topic in request.topics:
        yield None
        refusal = _refuse_shape(node, topic, times_named)
        if refusal is not None:
            results[topic.name] = _refused(topic.name, refusal)
            continue
        new = _new_topic(node, topic)
        refusal = node.topics.refusal_of(new)
        results[topic.name] = (
            _accepted(node, new, described) if refusal is None else _refused(topic.name, refusal)
        )
        if refusal is None:
            wanted.append(new)
    if wanted and not request.validate_only:
        outcomes = yield from create_in_steps(node, wanted)
        for new, outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                results[new.name] = _refused(new.name, outcome)
    return CreateTopicsResponse(topics=list(results.values()))


def _refuse_shape(node: Node, topic: CreatableTopic, times_named: Counter[str]) -> Refusal | None:
    """Return the first mistake in the request for this topic, in the order of Kafka's checks."""
    if times_named[topic.name] > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    refusal = node.topics.refusal_of_name(topic.name) or _refuse_configs(topic)
    if refusal is not None:
        return refusal
    if topic.assignments:
        return _refuse_assignments(node, topic)
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions == 0 or topic.num_partitions < -1:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if topic.replication_factor > 1:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {topic.replication_factor} time(s): The target replication "
            f"factor of {topic.replication_factor} cannot be reached: only 1 broker(s) are registered.",
        )
    return None


def _refuse_configs(topic: CreatableTopic) -> Refusal | None:
    config_names = [config.name for config in topic.configs]
    if len(set(config_names)) != len(config_names):
        return Refusal(ErrorCode.INVALID_CONFIG, "The same setting is given twice.")
    for config in topic.configs:
        if config.value is None:
            return Refusal(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}"
            )
    return check(TOPIC_SETTINGS, {config.name: config.value for config in topic.configs})


def _refuse_assignments(node: Node, topic: CreatableTopic) -> Refusal | None:
    if topic.replication_factor != -1:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return refuse_assignment(node, [assignment.broker_ids for assignment in topic.assignments])


def _partition_count(node: Node, topic: CreatableTopic) -> int:
    """Return how many partitions the request wants; 0 for what is no number of partitions."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == -1:
        return int(node.settings["num.partitions"])
    return max(0, topic.num_partitions)


def _new_topic(node: Node, topic: CreatableTopic) -> NewTopic:
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    return NewTopic(topic.name, new_topic_id(), _partition_count(node, topic), overrides)


def _accepted(node: Node, new: NewTopic, described: _Described) -> CreatableTopicResult:
    overrides = frozenset(new.overrides.items())
    configs = described.get(overrides)
    if configs is None:
        configs = described[overrides] = [
            CreatableTopicConfigs(name=config.name, value=config.value, config_source=config.source)
            for config in describe_topic(node.settings, new.overrides)
        ]
    return CreatableTopicResult(
        name=new.name,
        topic_id=new.topic_id,
        error_message=None,
        num_partitions=new.partition_count,
        replication_factor=1,
        configs=configs,
    )


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


API = Api(
    key=19,
    name="CreateTopics",
    min_version=2,
    max_version=7,
    request_type=CreateTopicsRequest,
    response_type=CreateTopicsResponse,
    handle=handle,
    needs=of_topics(Operation.CREATE, Operation.CREATE),
)
