"""OffsetCommit with conditions: "set x if and only if the committed offset is y" (R3.16).

A partition of the request has y in the tagged field `expected_offset`; -1 expects that nothing is committed.
Such a request is all or nothing, and an x of -1 removes the offset. If it is refused, partitions get

    INVALID_UPDATE_VERSION        its condition failed; the tagged field `current_offset` has the offset
    UNKNOWN_TOPIC_OR_PARTITION    it is unknown; likewise UNKNOWN_TOPIC_ID (from version 10)
    OFFSET_METADATA_TOO_LARGE     its metadata is too long
    OPERATION_NOT_ATTEMPTED       it has no error of its own

and if the group refuses the member, all have the group's error, as without conditions. A node that supports
conditions advertises FEATURE: another one would ignore the field and commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.api.authors import author_of_commit
from headgate.api.commit_messages import Wanted, are_there, columns_of, command_of, wide_answers
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.offset_topics import find_topic, unknown_topic_error
from headgate.core.offsets.commands import (
    CommitResult,
    ExpectedOffsets,
    Moved,
    OffsetToCommit,
    ToCommit,
    expected_offsets,
)
from headgate.core.offsets.conditions import NOTHING_MOVED
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import TopicName
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import Int64s, SomeNumbers, WideStructs

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

FEATURE = CONDITIONAL_COMMIT
SINCE_VERSION = 8
MOST_TOPICS_AT_ONCE = 1000
"""A commit of more topics looks them up in steps."""
Errors = list[int] | Int64s
"""The error of each partition of a topic; in columns if the request has them so."""
_NONE = np.empty(0, np.int64)
_NOTHING_EXPECTED = ExpectedOffsets(_NONE, _NONE)


def is_wanted(request: OffsetCommitRequest) -> bool:
    """Return whether a partition of the request has a condition."""
    for topic in request.topics:
        partitions = topic.partitions
        if isinstance(partitions, WideStructs):
            if len(_expected(partitions).indexes):
                return True
        elif any(partition.expected_offset is not None for partition in partitions):
            return True
    return False


def _expected(partitions: WideStructs[OffsetCommitRequestPartition]) -> ExpectedOffsets:
    """Return the conditions of a wide commit."""
    some = partitions.some.get("expected_offset")
    if some is not None:
        indexes = np.flatnonzero(some.is_there)
        return ExpectedOffsets(indexes, some.numbers[indexes])
    offsets = partitions.columns.get("expected_offset")
    if offsets is None:
        if partitions.template.expected_offset is None:
            return _NOTHING_EXPECTED
        offsets = np.full(len(partitions), partitions.template.expected_offset)
    return ExpectedOffsets(np.arange(len(offsets)), offsets)


class _Sorted:
    """The topics of a request: what is known of them, and what the command gets of each."""

    __slots__ = ("errors", "expected", "has_unknown", "topics", "wanted")

    def __init__(self) -> None:
        self.topics: list[Topic | None] = []
        self.errors: list[Errors] = []
        """Of each partition of each topic before the command runs: unknown, or none."""
        self.has_unknown = False
        self.wanted: Wanted = []
        self.expected: list[ExpectedOffsets] = []

    def add(self, node: Node, version: int, topic: OffsetCommitRequestTopic) -> None:
        """Add the next topic of the request."""
        known = find_topic(node, version, topic)
        errors = _errors(topic.partitions, known, unknown_topic_error(version))
        self.topics.append(known)
        self.errors.append(errors)
        self.has_unknown = self.has_unknown or _has_other(errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
        if not self.has_unknown:
            partitions, conditions = _of_topic(topic.partitions)
            # An unknown topic has no partitions here; it keeps the indexes of the others in order.
            self.wanted.append((TopicName(topic.name) if known is None else known.name, partitions))
            self.expected.append(conditions)

    def refuse_deleted(self, request: OffsetCommitRequest, error: ErrorCode) -> None:
        """Note the topics that were deleted since they were added."""
        for number, known in enumerate(self.topics):
            if known is not None and known.is_deleted:
                self.errors[number] = _errors(request.topics[number].partitions, None, error)
                self.has_unknown = True


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> None:
    """Answer with an error code for each partition, in the order asked."""
    if len(request.topics) > MOST_TOPICS_AT_ONCE:
        steps = _sorted_in_steps(node, call.api_version, request)
        call.in_steps(steps, lambda found: _commit_later(node, call, request, found))
        return
    found = _Sorted()
    for topic in request.topics:
        found.add(node, call.api_version, topic)
    _commit(node, call, request, found)


def _sorted_in_steps(node: Node, version: int, request: OffsetCommitRequest) -> RequestSteps[_Sorted]:
    found = _Sorted()
    for topic in request.topics:
        yield None
        found.add(node, version, topic)
    return found


def _commit_later(node: Node, call: Call, request: OffsetCommitRequest, found: _Sorted) -> None:
    found.refuse_deleted(request, unknown_topic_error(call.api_version))
    _commit(node, call, request, found)


def _commit(node: Node, call: Call, request: OffsetCommitRequest, found: _Sorted) -> None:
    """Send the command and answer with its result, or at once if a partition is unknown."""

    def answer(make: Callable[[], OffsetCommitResponse]) -> None:
        if len(request.topics) <= MOST_TOPICS_AT_ONCE:
            call.answer(make())
        else:
            call.answer_aside(make)

    def on_result(result: Any) -> None:
        if isinstance(result, CommitResult) and not result.is_attempted:
            for number, index in result.too_large:
                found.errors[number][index] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            answer(lambda: _not_done(request, found.errors, result.moved))
        else:
            answer(lambda: _alike(request, error_of(result)))

    if found.has_unknown:
        answer(lambda: _not_done(request, found.errors, ()))
        return
    command = command_of(request, found.wanted, call.api_version)
    command.expected = found.expected
    command.author = author_of_commit(call, request, has_conditions=True)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def _errors(
    partitions: Sequence[OffsetCommitRequestPartition], topic: Topic | None, unknown_topic: ErrorCode
) -> Errors:
    """Return the error of each partition of a topic before the command runs: unknown, or none."""
    if not isinstance(partitions, WideStructs):
        if topic is None:
            return [unknown_topic] * len(partitions)
        count = topic.partition_count
        return [
            ErrorCode.OPERATION_NOT_ATTEMPTED
            if 0 <= one.partition_index < count
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for one in partitions
        ]
    errors = np.full(len(partitions), ErrorCode.OPERATION_NOT_ATTEMPTED)
    if topic is None:
        errors[:] = unknown_topic
    else:
        is_there = are_there(partitions.columns["partition_index"], topic.partition_count)
        errors[~is_there] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _has_other(errors: Errors, usual: ErrorCode) -> bool:
    if isinstance(errors, list):
        return any(one != usual for one in errors)
    return bool((errors != usual).any())


def _of_topic(partitions: Sequence[OffsetCommitRequestPartition]) -> tuple[ToCommit, ExpectedOffsets]:
    """Return what is to be committed, and the conditions. All partitions exist."""
    if isinstance(partitions, WideStructs):
        return columns_of(partitions), _expected(partitions)
    to_commit = [
        OffsetToCommit(
            one.partition_index,
            one.committed_offset,
            one.committed_leader_epoch,
            one.committed_metadata or "",
        )
        for one in partitions
    ]
    conditions = {
        index: one.expected_offset for index, one in enumerate(partitions) if one.expected_offset is not None
    }
    return to_commit, expected_offsets(conditions)


def _alike(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return a response with the same error for every partition."""
    topics = []
    for topic in request.topics:
        if isinstance(topic.partitions, WideStructs):
            answers: Any = wide_answers(topic.partitions, error)
        else:
            answers = [
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                for one in topic.partitions
            ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return OffsetCommitResponse(topics=topics)


def _not_done(
    request: OffsetCommitRequest, errors: Sequence[Errors], moved: Sequence[Moved]
) -> OffsetCommitResponse:
    """Return a response with the current offsets of failed conditions, and these errors for the others."""
    topics = []
    for topic, errors_of_topic, moved_of_topic in zip_longest(request.topics, errors, moved):
        partitions = _answers(topic.partitions, errors_of_topic, moved_of_topic or NOTHING_MOVED)
        topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return OffsetCommitResponse(topics=topics)


def _answers(partitions: Sequence[OffsetCommitRequestPartition], errors: Errors, moved: Moved) -> Any:
    """Return the answers for the partitions of one topic; `moved` has those whose condition failed."""
    if not isinstance(partitions, WideStructs):
        answers = [
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one, error in zip(partitions, errors, strict=True)
        ]
        for index, offset in zip(moved.indexes.tolist(), moved.offsets.tolist(), strict=True):
            answers[index].error_code = ErrorCode.INVALID_UPDATE_VERSION
            answers[index].current_offset = offset
        return answers
    has_moved = np.zeros(len(errors), np.bool_)
    has_moved[moved.indexes] = True
    current = np.zeros(len(errors), np.int64)
    current[moved.indexes] = moved.offsets
    return WideStructs(
        OffsetCommitResponsePartition(),
        {
            "partition_index": partitions.columns["partition_index"],
            "error_code": np.where(has_moved, ErrorCode.INVALID_UPDATE_VERSION, errors),
        },
        {"current_offset": SomeNumbers(has_moved, current)},
    )
