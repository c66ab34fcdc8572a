"""Configuration resources as the APIs that describe and alter them find them: a topic, a group, the broker.

The rules of values are `topics.configs`'; here is which resource a request means, and where its own values
are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headgate.api.contract import Node
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.topics.configs import (
    ConfigValue,
    ResourceType,
    check_group,
    describe_broker,
    describe_group,
    describe_topic,
)
from headgate.topics.names import why_invalid
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """One resource: its settings in force, its own values, and how to replace those."""

    described: Sequence[ConfigValue]
    overrides: Mapping[str, str]
    replace: Callable[[Mapping[str, str]], Refusal | None]
    refusal_of: Callable[[Mapping[str, str]], Refusal | None] = lambda values: None
    """Why these values cannot stand together, though each of them is fit."""


def find_resource(node: Node, resource_type: int, name: str) -> ConfigResource | Refusal:
    """The resource a request names."""
    if resource_type == ResourceType.TOPIC:
        return _find_topic(node, name)
    if resource_type == ResourceType.GROUP:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "The group id must not be empty.")
        overrides = node.topics.group_overrides(name)
        return ConfigResource(
            describe_group(node.settings, overrides),
            overrides,
            lambda values: node.topics.set_group_overrides(name, values, node.now()),
            lambda values: check_group(node.settings, values),
        )
    if resource_type == ResourceType.BROKER:
        if name not in ("", str(node.node_id)):
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
            )
        # Without a name: what was set at run time for all brokers, and nothing can be.
        return ConfigResource(describe_broker(node.settings) if name else (), {}, _refuse_broker)
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def _find_topic(node: Node, name: str) -> ConfigResource | Refusal:
    problem = why_invalid(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = node.topics.by_name(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return ConfigResource(
        describe_topic(node.settings, topic.overrides),
        topic.overrides,
        lambda values: _replace_topic(node, topic, values),
    )


def _replace_topic(node: Node, topic: Topic, values: Mapping[str, str]) -> Refusal | None:
    refusal = node.topics.set_overrides(topic, values, Millis(node.now()))
    if refusal is None and topic.policy.is_durable:
        # What was written to the page cache until now is hidden from readers until it is synced.
        for partition in topic.open_partitions():
            if partition.log.needs_sync:
                node.durability.when_durable(partition.log, partition.synced)
    return refusal


def _refuse_broker(values: Mapping[str, str]) -> Refusal | None:
    if not values:
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs dynamically: {', '.join(sorted(values))}. The broker takes its "
        "settings at start.",
    )


def alter(
    node: Node,
    resources: Sequence[tuple[int, str]],
    decide: Callable[[int, ConfigResource], Mapping[str, str] | Refusal],
    *,
    validate_only: bool,
) -> list[Refusal | None]:
    """Alter each resource for itself; `decide` gives the new values of the resource at an index of the
    list.
    """
    times_named = Counter(resources)
    outcomes: list[Refusal | None] = []
    for index, (resource_type, name) in enumerate(resources):
        if times_named[resource_type, name] > 1:
            outcomes.append(Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
            continue
        resource = find_resource(node, resource_type, name)
        values = resource if isinstance(resource, Refusal) else decide(index, resource)
        if isinstance(resource, Refusal) or isinstance(values, Refusal):
            outcomes.append(values if isinstance(values, Refusal) else None)
        elif resource_type == ResourceType.BROKER:
            outcomes.append(resource.replace(values))
        else:
            refusal = resource.refusal_of(values)
            outcomes.append(refusal if refusal or validate_only else resource.replace(values))
    return outcomes
