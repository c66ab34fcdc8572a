"""Common parts of PausePartitions and ResumePartitions: one command for all partitions, answered in steps.

Unknown partitions are answered UNKNOWN_TOPIC_OR_PARTITION; the others are changed. An error of the group is
that of the whole response, which then has no topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from headgate.api.contract import Node, RequestSteps
from headgate.core.pause.commands import (
    PartitionsByTopic,
    PausePartitions,
    PauseResult,
    PauseState,
    ResumePartitions,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.wire.extensions.paused_topics import ChangedPartition, ChangedTopic, TopicToChange

READ_ASIDE_BYTES: Final = 4096
"""A larger request is decoded in a thread: it has a struct for each partition."""
_MOST_AT_ONCE: Final = 500
"""Partitions that one step checks and answers."""
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NO_TOPIC: Final = "There is no such topic."


class Outcome(NamedTuple):
    """The result of a request: an error of the whole request, or an answer for each topic."""

    error: ErrorCode
    message: str | None
    topics: list[ChangedTopic]


class _Existing(NamedTuple):
    """Existing partitions of a topic, by their entries in the response."""

    topic_id: TopicId
    answers: list[ChangedPartition]


def change_pauses(
    node: Node,
    group_id: GroupId,
    topics: Sequence[TopicToChange],
    command_of: Callable[[PartitionsByTopic], PausePartitions | ResumePartitions],
) -> RequestSteps[Outcome]:
    """Submit the existing partitions to the group's shard, as one command."""
    answers: list[ChangedTopic] = []
    wanted: list[_Existing] = []
    for topic in topics:
        yield from _sort_out(node, topic, answers, wanted)
    partitions: list[tuple[TopicId, list[int]]] = []
    for one in wanted:
        partitions.append((one.topic_id, [answer.partition_index for answer in one.answers]))
        yield None
    there: Future[Any] = Future()
    command = command_of(partitions)
    node.router.owner_of(group_id).submit(group_id, command, there.set_result)
    yield there
    result = there.result()
    if isinstance(result, ErrorCode):
        return Outcome(result, None, [])
    assert isinstance(result, PauseResult)
    if result.error:
        return Outcome(result.error, result.message, [])
    followed: Future[None] = Future()
    node.shares.repaused(group_id, lambda: followed.set_result(None))
    yield followed if not followed.done() else None
    for existing, states in zip(wanted, result.states, strict=True):
        for answer, state in zip(existing.answers, states, strict=True):
            key = existing.topic_id, answer.partition_index
            is_held = state is PauseState.PAUSED and node.shares.is_being_released(group_id, key)
            answer.state = PauseState.PAUSING if is_held else state
        if isinstance(command, PausePartitions) and states[0] is PauseState.NOT_PAUSED:
            for answer in existing.answers:  # the topic was deleted meanwhile
                answer.error_code, answer.error_message = _UNKNOWN, _NO_TOPIC
        yield None
    return Outcome(ErrorCode.NONE, None, answers)


def changed_partitions(topics: Sequence[ChangedTopic]) -> str:
    """Return the partitions without an error, for a log line: `orders:0,1 payments:2`."""
    told = []
    for topic in topics:
        indexes = [str(one.partition_index) for one in topic.partitions if not one.error_code]
        if indexes:
            told.append(f"{topic.name}:{','.join(indexes)}")
    return " ".join(told)


def _sort_out(
    node: Node, topic: TopicToChange, answers: list[ChangedTopic], wanted: list[_Existing]
) -> RequestSteps[None]:
    """Separate existing partitions of a topic from unknown ones."""
    known = node.topics.by_name(topic.name)
    partition_count = 0 if known is None else known.partition_count
    # One text for all: with the names in it, a response could be far larger than its request.
    problem = _NO_TOPIC if known is None else f"The topic has {partition_count} partitions."
    answer = ChangedTopic(name=topic.name)
    answers.append(answer)
    existing: list[ChangedPartition] = []
    for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
        for asked in topic.partitions[first : first + _MOST_AT_ONCE]:
            one = ChangedPartition(partition_index=asked.partition_index)
            answer.partitions.append(one)
            if 0 <= one.partition_index < partition_count:
                existing.append(one)
            else:
                one.error_code = _UNKNOWN
                one.error_message = problem
        yield None
    if known is not None:
        answer.topic_id = known.topic_id
        if existing:
            wanted.append(_Existing(known.topic_id, existing))
