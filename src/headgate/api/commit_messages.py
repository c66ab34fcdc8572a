"""Converts between the messages of OffsetCommit and the coordinator's commands.

Unknown partitions are answered with UNKNOWN_TOPIC_OR_PARTITION (those of an unknown topic id with
UNKNOWN_TOPIC_ID) and are left out of the command. The answers of the others are filled in from its result, in
the order of the request. A wide commit remains in columns throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.api.contract import Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.offset_topics import find_topic, unknown_topic_error
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    OffsetColumns,
    OffsetToCommit,
    ToCommit,
    partition_count,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicName
from headgate.topics.topic import Topic
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.repeats import WrittenResponse
from headgate.wire.wide import Int64s, WideStructs

_GROUP_NOT_FOUND_SINCE_VERSION = 9
NO_LEADER_EPOCH = -1

Answers = list[OffsetCommitResponsePartition]
Wanted = list[tuple[TopicName, ToCommit]]


class WideAnswers(NamedTuple):
    """Answers of a wide topic, some of which depend on the commit's result."""

    errors: Int64s
    """The error of each partition; filled in later for those in `waiting`."""
    waiting: Int64s
    """The positions of the partitions in the command."""


class SortedCommit:
    """The response so far, the partitions to commit, and their answers, which the result fills in."""

    __slots__ = ("open_answers", "response", "topics", "wanted")

    def __init__(self) -> None:
        self.response = OffsetCommitResponse()
        self.wanted: Wanted = []
        self.topics: list[Topic] = []
        """The topic of each of `wanted`."""
        self.open_answers: list[Answers | WideAnswers] = []

    def refuse_deleted(self, error: ErrorCode) -> None:
        """Refuse what was to be committed in topics that were deleted since. The offsets of their names may
        be removed already, and those of a commit now would belong to the next topics of these names.
        """
        if not any(topic.is_deleted for topic in self.topics):
            return
        left = []
        for topic, wanted, answers in zip(self.topics, self.wanted, self.open_answers, strict=True):
            if topic.is_deleted:
                _refuse(answers, error)
            else:
                left.append((topic, wanted, answers))
        self.topics = [topic for topic, _, _ in left]
        self.wanted = [wanted for _, wanted, _ in left]
        self.open_answers = [answers for _, _, answers in left]

    @property
    def is_whole(self) -> bool:
        """Return whether every partition is to be committed."""
        return len(self.wanted) == len(self.response.topics) and all(
            partition_count(partitions) == len(topic.partitions)
            for (_, partitions), topic in zip(self.wanted, self.response.topics, strict=True)
        )


class PreparedCommit:
    """A commit for the coordinator, and its response if all its partitions are accepted."""

    __slots__ = ("command", "sorted", "written")

    def __init__(self, command: CommitOffsets, sorted_commit: SortedCommit) -> None:
        self.command = command
        self.sorted = sorted_commit
        self.written: WrittenResponse | None = None
        """The encoded response, if a `Repeat` needed it before the answer."""


def sort_out(node: Node, version: int, request: OffsetCommitRequest) -> SortedCommit:
    """Separate the partitions that exist from unknown ones."""
    sorted_commit = SortedCommit()
    for topic in request.topics:
        _sort_out_topic(node, version, topic, sorted_commit)
    return sorted_commit


def sort_out_in_steps(node: Node, version: int, request: OffsetCommitRequest) -> RequestSteps[SortedCommit]:
    """As `sort_out`, one topic a step."""
    sorted_commit = SortedCommit()
    for topic in request.topics:
        yield None
        _sort_out_topic(node, version, topic, sorted_commit)
    return sorted_commit


def _sort_out_topic(
    node: Node, version: int, topic: OffsetCommitRequestTopic, sorted_commit: SortedCommit
) -> None:
    known = find_topic(node, version, topic)
    if known is not None and not topic.partitions:
        return  # as Kafka: the response omits an existing topic without partitions
    answers: Any
    to_commit: ToCommit
    to_answer: Answers | WideAnswers
    if known is None:
        answers = _all_refused(topic.partitions, unknown_topic_error(version))
    else:
        if isinstance(topic.partitions, WideStructs):
            answers, to_answer, to_commit = _in_columns(topic.partitions, known.partition_count)
        else:
            answers, to_answer, to_commit = _one_by_one(topic.partitions, known.partition_count)
        if partition_count(to_commit):
            sorted_commit.wanted.append((known.name, to_commit))
            sorted_commit.topics.append(known)
            sorted_commit.open_answers.append(to_answer)
    sorted_commit.response.topics.append(
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
    )


def command_of(request: OffsetCommitRequest, wanted: Wanted, api_version: int) -> CommitOffsets:
    """Return the command that commits these partitions."""
    instance_id = request.group_instance_id
    return CommitOffsets(
        GroupId(request.group_id),
        wanted,
        MemberId(request.member_id),
        request.generation_id_or_member_epoch,
        None if instance_id is None else InstanceId(instance_id),
        request.retention_time_ms,
        api_version >= _GROUP_NOT_FOUND_SINCE_VERSION,
    )


def columns_of(partitions: WideStructs[OffsetCommitRequestPartition]) -> OffsetColumns:
    """Return the partitions of a wide commit as columns."""
    columns = partitions.columns
    indexes = columns["partition_index"]
    epochs = columns.get("committed_leader_epoch")
    if epochs is None:
        epochs = np.full(len(indexes), NO_LEADER_EPOCH)
    texts = partitions.texts.get("committed_metadata")
    if texts is None:
        metadata: str | list[str] = partitions.template.committed_metadata or ""
    else:
        metadata = [text or "" for text in texts]
    return OffsetColumns(indexes, columns["committed_offset"], epochs, metadata)


def wide_answers(
    partitions: WideStructs[OffsetCommitRequestPartition], errors: Int64s | ErrorCode
) -> WideStructs[OffsetCommitResponsePartition]:
    """Return an answer for each partition, with its own error or one error for all."""
    columns = {"partition_index": partitions.columns["partition_index"]}
    if isinstance(errors, ErrorCode):
        return WideStructs(OffsetCommitResponsePartition(error_code=errors), columns)
    return WideStructs(OffsetCommitResponsePartition(), {**columns, "error_code": errors})


def are_there(indexes: Int64s, partition_count: int) -> NDArray[np.bool_]:
    """Return which of these partition indexes exist in a topic with `partition_count` partitions."""
    return (indexes >= 0) & (indexes < partition_count)


def _all_refused(partitions: Sequence[OffsetCommitRequestPartition], error: ErrorCode) -> Any:
    if isinstance(partitions, WideStructs):
        return wide_answers(partitions, error)
    return [
        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
        for one in partitions
    ]


def _in_columns(
    partitions: WideStructs[OffsetCommitRequestPartition], partition_count: int
) -> tuple[WideStructs[OffsetCommitResponsePartition], WideAnswers, OffsetColumns]:
    """Return all answers, those of them that depend on the commit, and the partitions to commit."""
    columns = columns_of(partitions)
    is_there = are_there(columns.partitions, partition_count)
    errors = np.where(is_there, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    places = np.flatnonzero(is_there)
    if len(places) < len(errors):
        columns = columns.at(places)
    return wide_answers(partitions, errors), WideAnswers(errors, places), columns


def _one_by_one(
    partitions: Sequence[OffsetCommitRequestPartition], partition_count: int
) -> tuple[Answers, Answers, list[OffsetToCommit]]:
    """Return all answers, those of them that depend on the commit, and the partitions to commit."""
    answers, to_answer, to_commit = [], [], []
    for partition in partitions:
        index = partition.partition_index
        answer = OffsetCommitResponsePartition(partition_index=index)
        answers.append(answer)
        if not 0 <= index < partition_count:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        to_answer.append(answer)
        to_commit.append(
            OffsetToCommit(
                index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
            )
        )
    return answers, to_answer, to_commit


def fill_in(open_answers: Sequence[Answers | WideAnswers], result: Any) -> None:
    """Fill the coordinator's result into the answers that depend on it."""
    error = error_of(result)
    if error:
        for answers in open_answers:
            _refuse(answers, error)
    elif isinstance(result, CommitResult):
        for topic_index, index in result.too_large:
            answers = open_answers[topic_index]
            if isinstance(answers, WideAnswers):
                answers.errors[answers.waiting[index]] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                answers[index].error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE


def _refuse(answers: Answers | WideAnswers, error: ErrorCode) -> None:
    if isinstance(answers, WideAnswers):
        answers.errors[answers.waiting] = error
    else:
        for answer in answers:
            answer.error_code = error
