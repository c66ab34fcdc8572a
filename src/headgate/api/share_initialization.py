"""Initialize the states of a group's share-partitions at the share coordinator, and tell the group.

The group's shard has recorded the request before. If this node stops in the middle, a later heartbeat of the
group requests the rest again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headgate.api.contract import Node, RequestSteps
from headgate.api.shard_replies import replies_to, reply_to
from headgate.core.share.membership.commands import (
    Initialization,
    PartitionsInitialized,
    StatePartitions,
    StateRemoval,
    StatesRemoved,
)
from headgate.core.share.state.commands import UNKNOWN_START, DeleteState, InitializeState, ShareKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId

NO_GROUP_ID = "The group id is empty."

_HAVE_STATES = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""Results of partitions that have a state: a new one, or that whose dead letters are due."""

StartOffsets = Mapping[tuple[TopicId, int], int]


def initialize_states(
    node: Node, asked: Initialization, starts: StartOffsets | None = None
) -> RequestSteps[dict[tuple[TopicId, int], tuple[ErrorCode, str | None]]]:
    """Initialize the states, and record those that succeeded. Return the error of each partition.

    `starts` has the start offsets; without them the first reader of each partition chooses one. A state whose
    records wait for their dead letters stays as it is, and the group goes on with it.
    """

    def command(topic_id: TopicId, index: int) -> InitializeState:
        key = ShareKey(asked.group_id, topic_id, index)
        start = UNKNOWN_START if starts is None else starts[topic_id, index]
        return InitializeState(key=key, state_epoch=asked.state_epoch, start_offset=start, keeps_letters=True)

    results = yield from _each(node, asked.group_id, asked.partitions, command)
    done: dict[TopicId, tuple[int, ...]] = {}
    for topic_id, (_, indexes) in asked.partitions.items():
        good = tuple(index for index in indexes if results[topic_id, index][0] in _HAVE_STATES)
        if good:
            done[topic_id] = good
    if done:
        error = yield from _of_group(node, asked.group_id, PartitionsInitialized(asked.group_id, done))
        if error:
            results = {one: (result if result[0] else (error, None)) for one, result in results.items()}
    return results


def delete_states(
    node: Node, asked: StateRemoval
) -> RequestSteps[dict[TopicId, tuple[ErrorCode, str | None]]]:
    """Delete the states, and record the topics of which nothing is left. Return the error of each topic."""

    def command(topic_id: TopicId, index: int) -> DeleteState:
        return DeleteState(key=ShareKey(asked.group_id, topic_id, index))

    results = yield from _each(node, asked.group_id, asked.partitions, command)
    errors: dict[TopicId, tuple[ErrorCode, str | None]] = {}
    for topic_id, (_, indexes) in asked.partitions.items():
        failed = (results[topic_id, index] for index in indexes if results[topic_id, index][0])
        errors[topic_id] = next(failed, (ErrorCode.NONE, None))
    done = [topic_id for topic_id, (error, _) in errors.items() if not error]
    if done:
        error = yield from _of_group(node, asked.group_id, StatesRemoved(asked.group_id, done))
        if error:
            errors = {one: (result if result[0] else (error, None)) for one, result in errors.items()}
    return errors


def _each(
    node: Node, group_id: GroupId, partitions: StatePartitions, command_of: Callable[[TopicId, int], Any]
) -> RequestSteps[dict[tuple[TopicId, int], tuple[ErrorCode, str | None]]]:
    """Submit a command for each share-partition, a limited number at a time. Return their errors.

    The deliveries of this node forget what they know of these share-partitions.
    """
    places = [(topic_id, index) for topic_id, (_, indexes) in partitions.items() for index in indexes]

    def submit(place: tuple[TopicId, int], take: Callable[[Any], None]) -> None:
        command = command_of(*place)
        done = partial(_changed, node, group_id, place, take)
        node.share_state.submit(command.key.name, command, done)

    results = yield from replies_to(partial(submit, place) for place in places)
    return dict(zip(places, results, strict=True))


def _changed(
    node: Node, group_id: GroupId, place: tuple[TopicId, int], take: Callable[[Any], None], result: Any
) -> None:
    """Forget what was delivered from the former state: at once, before anybody has read the new one.

    Unless nothing was changed: dead letters, for example, still have to be written.
    """
    if isinstance(result, ErrorCode) or not result.error:
        node.shares.forget(group_id, place)
    take((result, None) if isinstance(result, ErrorCode) else (result.error, result.message))


def _of_group(node: Node, group_id: GroupId, command: Any) -> RequestSteps[ErrorCode]:
    result = yield from ask_group(node, group_id, command)
    return result if isinstance(result, ErrorCode) else ErrorCode.NONE


def ask_group(node: Node, group_id: GroupId, command: Any) -> RequestSteps[Any]:
    """Submit a command to a group's shard and return its result."""
    return (yield from reply_to(partial(node.router.owner_of(group_id).submit, group_id, command)))


def ask_groups(node: Node, commands: Sequence[tuple[GroupId, Any]]) -> RequestSteps[list[Any]]:
    """Submit commands to the shards of their groups, a limited number at a time; return all results."""
    return (
        yield from replies_to(
            partial(node.router.owner_of(group_id).submit, group_id, command)
            for group_id, command in commands
        )
    )
