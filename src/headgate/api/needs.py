"""The rights that requests need, as in Kafka's `KafkaApis` and `ControllerApis`.

Every registration has `needs`: a function of the request that returns one `Need` for each resource it names.
It is called only if the policy may deny something. For a topic named by id, the need is for the topic with
that id. An unknown id needs nothing: the handler answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from headgate.domain.ids import ZERO_TOPIC_ID, TopicId
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.topics.configs import ResourceType as ConfigType

if TYPE_CHECKING:
    from headgate.api.contract import Call, Node

Needs: TypeAlias = "Callable[[Node, Call, Any], Iterable[Need]]"


def nothing(node: Node, call: Call, request: Any) -> Iterable[Need]:
    """Need no right: every client may send this, as in Kafka."""
    return ()


def of_cluster(operation: Operation) -> Needs:
    """Need a right on the cluster."""
    needs = (Need(operation, CLUSTER),)
    return lambda node, call, request: needs


def of_group(operation: Operation) -> Needs:
    """Need a right on the group that the request names as `group_id`."""
    return lambda node, call, request: (group_need(operation, request.group_id),)


def of_topics(operation: Operation, otherwise: Operation | None = None) -> Needs:
    """Need a right on each topic of the request's `topics`, or else `otherwise` on the cluster."""
    return lambda node, call, request: topic_needs(node, operation, request.topics, otherwise)


def of_groups(operation: Operation, field: str) -> Needs:
    """Need a right on each group in the request's field of this name."""
    return lambda node, call, request: (group_need(operation, name) for name in getattr(request, field))


def of_configs(operation: Operation) -> Needs:
    """Need a right on each of the request's `resources`: topics and groups, and the cluster for brokers and
    client metrics.
    """
    return lambda node, call, request: (
        Need(operation, _config_resource(one.resource_type, one.resource_name)) for one in request.resources
    )


altered_configs = of_configs(Operation.ALTER_CONFIGS)
"""The needs of both APIs that alter settings."""


def _config_resource(config_type: int, name: str) -> Resource:
    if config_type == ConfigType.TOPIC:
        return Resource(ResourceType.TOPIC, name)
    if config_type == ConfigType.GROUP:
        return Resource(ResourceType.GROUP, name)
    return CLUSTER


def of_group_and_topics(group_operation: Operation, topic_operation: Operation) -> Needs:
    """Need a right on the group, and another one on each topic that the request names."""

    def needs(node: Node, call: Call, request: Any) -> Iterator[Need]:
        yield group_need(group_operation, request.group_id)
        yield from topic_needs(node, topic_operation, request.topics or ())

    return needs


def group_need(operation: Operation, group_id: str) -> Need:
    """Return the need of a right on a group."""
    return Need(operation, Resource(ResourceType.GROUP, group_id))


def topic_need(operation: Operation, name: str, otherwise: Operation | None = None) -> Need:
    """Return the need of a right on a topic, or else of `otherwise` on the cluster."""
    instead = None if otherwise is None else Need(otherwise, CLUSTER)
    return Need(operation, Resource(ResourceType.TOPIC, name), instead)


def topic_needs(
    node: Node, operation: Operation, topics: Iterable[Any], otherwise: Operation | None = None
) -> Iterator[Need]:
    """Yield the same for each topic of a request, named by `name`, `topic` or `topic_id`."""
    for topic in topics:
        name = _name_of(node, topic)
        if name is not None:
            yield topic_need(operation, name, otherwise)


def topic_name(node: Node, named: str | bytes) -> str | None:
    """Return the name of a topic given by its name or its id; None for an unknown id."""
    if isinstance(named, str):
        return named
    topic = node.topics.by_id(TopicId(named))
    return None if topic is None else topic.name


def _name_of(node: Node, named: Any) -> str | None:
    """Return the name of a topic of a request; None for an unknown id."""
    topic_id = getattr(named, "topic_id", ZERO_TOPIC_ID)
    if topic_id != ZERO_TOPIC_ID:
        return topic_name(node, topic_id)
    name: str | None = named.topic if hasattr(named, "topic") else named.name
    return name or None
