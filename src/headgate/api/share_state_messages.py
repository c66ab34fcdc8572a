"""The RPCs of the share coordinator (83 to 87): a command for each share-partition that a request names."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.api.shard_replies import SUBMITTED_AT_ONCE, replies_to
from headgate.core.share.state.commands import ShareKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.security.resources import Operation

NEEDS = of_cluster(Operation.CLUSTER_ACTION)
"""The right that brokers have among each other."""


@dataclass(frozen=True, slots=True)
class StateRpc:
    """The parts in which the RPCs differ."""

    command_of: Callable[[ShareKey, Any], Any]
    """Returns the command of a partition in a request."""
    result_of: Callable[[int, Any], Generator[None, None, Any]]
    """Returns a partition's result in the response, in steps; not called for errors of the runtime."""
    error_type: type[Any]
    """The type of a partition's result."""
    topic_type: type[Any]
    response_type: type[Any]


def answer_state_rpc(node: Node, call: Call, request: Any, rpc: StateRpc) -> None:
    """Submit the commands of a request, a limited number at a time, and answer with their results."""
    call.answer_in_steps(_answered(node, request, rpc))


def _answered(node: Node, request: Any, rpc: StateRpc) -> RequestSteps[Any]:
    response = rpc.response_type()

    def submit(topic_id: TopicId, partition: Any, take: Callable[[Any], None]) -> None:
        key = ShareKey(GroupId(request.group_id), topic_id, partition.partition)
        node.share_state.submit(key.name, rpc.command_of(key, partition), take)

    for topic in request.topics:
        answered = rpc.topic_type(topic_id=topic.topic_id)
        for first in range(0, len(topic.partitions), SUBMITTED_AT_ONCE):
            some = topic.partitions[first : first + SUBMITTED_AT_ONCE]
            results = yield from replies_to(partial(submit, TopicId(topic.topic_id), one) for one in some)
            for partition, result in zip(some, results, strict=True):
                answered.partitions.append((yield from _result(rpc, partition.partition, result)))
        response.results.append(answered)
    return response


def _result(rpc: StateRpc, partition: int, result: Any) -> Generator[None, None, Any]:
    if isinstance(result, ErrorCode):
        return rpc.error_type(partition=partition, error_code=result)
    if result.error:
        return rpc.error_type(partition=partition, error_code=result.error, error_message=result.message)
    return (yield from rpc.result_of(partition, result))


def plain(result_type: type[Any]) -> Callable[[int, Any], Generator[None, None, Any]]:
    """Return the result of a change: the partition alone."""

    def result_of(partition: int, result: Any) -> Generator[None, None, Any]:
        yield None
        return result_type(partition=partition)

    return result_of
