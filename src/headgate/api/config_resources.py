"""Configuration resources as the APIs that describe and alter them find them: a topic, a group, the broker.

The rules of values are `topics.configs`'; here is which resource a request means, and where its own values
are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from headgate.api.contract import Node, RequestSteps
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.topics.configs import (
    Change,
    ConfigValue,
    ResourceType,
    altered,
    altered_broker,
    check_group,
    describe_all_brokers,
    describe_broker,
    describe_group,
    describe_topic,
)
from headgate.topics.names import why_invalid
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """One resource: its settings in force, its own values, and how to replace those."""

    described: Sequence[ConfigValue]
    overrides: Mapping[str, str]
    altered: Callable[[Mapping[str, str], Sequence[Change]], Mapping[str, str] | Refusal]
    """Own values after changes, or why these cannot be made."""
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
        described = describe_group(node.settings, overrides)
        return ConfigResource(
            described,
            overrides,
            partial(altered, described),
            lambda values: node.topics.set_group_overrides(name, values, node.system_time()),
            lambda values: check_group(node.settings, values),
        )
    if resource_type == ResourceType.BROKER:
        if name not in ("", str(node.node_id)):
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
            )
        return _find_broker(node, name)
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def _find_topic(node: Node, name: str) -> ConfigResource | Refusal:
    problem = why_invalid(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = node.topics.by_name(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    described = describe_topic(node.settings, topic.overrides)
    return ConfigResource(
        described,
        topic.overrides,
        partial(altered, described),
        lambda values: _replace_topic(node, topic, values),
    )


def _replace_topic(node: Node, topic: Topic, values: Mapping[str, str]) -> Refusal | None:
    refusal = node.topics.set_overrides(topic, values, Millis(node.system_time()))
    if refusal is None and topic.policy.is_durable:
        # What was written to the page cache until now is hidden from readers until it is synced.
        for partition in topic.open_partitions():
            if partition.log.needs_sync:
                node.durability.when_durable(partition.log, partition.synced)
    return refusal


def _find_broker(node: Node, name: str) -> ConfigResource:
    """One broker, or without a name what is set for all of them."""
    settings = node.settings
    described = describe_broker(settings, _facts(node)) if name else describe_all_brokers(settings)
    overrides = node.topics.broker_overrides(name)
    return ConfigResource(
        described,
        overrides,
        partial(altered_broker, settings),
        lambda values: node.topics.set_broker_overrides(name, values, node.system_time()),
    )


def _facts(node: Node) -> Mapping[str, str]:
    """What Kafka has as settings and is given in other ways here, or fixed."""
    address = f"PLAINTEXT://{node.advertised_host}:{node.advertised_port}"
    return {
        "advertised.listeners": address,
        "broker.id": str(node.node_id),
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "listeners": address,
        "log.dirs": str(node.topics.data_dir),
        "process.roles": "broker,controller",
    }


class AlterRequest(Protocol):
    """A request to alter resources, each of them named by type and name."""

    resources: Any
    validate_only: bool


def alter(
    node: Node,
    request: AlterRequest,
    decide: Callable[[Any, ConfigResource], Mapping[str, str] | Refusal],
    answer_type: Callable[..., AnswerT],
) -> RequestSteps[list[AnswerT]]:
    """Alter each resource for itself, and answer for each in the order asked.

    `decide` gives the new values of a resource, as the request has it and as it is.
    """
    names = [(wanted.resource_type, wanted.resource_name) for wanted in request.resources]
    times_named = Counter(names)
    answers = []
    for wanted, name in zip(request.resources, names, strict=True):
        yield None
        if times_named[name] > 1:
            refusal: Refusal | None = Refusal(
                ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
            )
        else:
            refusal = _alter_one(node, name, partial(decide, wanted), validate_only=request.validate_only)
        answers.append(
            answer_type(
                error_code=ErrorCode.NONE if refusal is None else refusal.error,
                error_message=None if refusal is None else refusal.message,
                resource_type=wanted.resource_type,
                resource_name=wanted.resource_name,
            )
        )
    return answers


def _alter_one(
    node: Node,
    name: tuple[int, str],
    decide: Callable[[ConfigResource], Mapping[str, str] | Refusal],
    *,
    validate_only: bool,
) -> Refusal | None:
    resource = find_resource(node, *name)
    if isinstance(resource, Refusal):
        return resource
    values = decide(resource)
    if isinstance(values, Refusal):
        return values
    refusal = resource.refusal_of(values)
    return refusal if refusal or validate_only else resource.replace(values)
