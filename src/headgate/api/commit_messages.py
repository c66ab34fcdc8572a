"""Between the messages of OffsetCommit and the coordinator's commands.

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION (those of a topic id that is nobody's:
UNKNOWN_TOPIC_ID) and left out of the command; the others wait for its result, in the order asked. A wide
commit stays in columns all the way.
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
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import Int64s, WideStructs

_GROUP_NOT_FOUND_SINCE_VERSION = 9
NO_LEADER_EPOCH = -1

Answers = list[OffsetCommitResponsePartition]
Wanted = list[tuple[TopicName, ToCommit]]


class WideAnswers(NamedTuple):
    """Answers for partitions of which some may have to wait."""

    errors: Int64s
    """Of every partition, to be written into."""
    waiting: Int64s
    """The places of those that wait."""


class SortedCommit(NamedTuple):
    """The response as far as it is known, what is to be committed, and the answers that wait for it."""

    response: OffsetCommitResponse
    wanted: Wanted
    open_answers: list[Answers | WideAnswers]

    @property
    def is_whole(self) -> bool:
        """Whether every partition is to be committed."""
        return len(self.wanted) == len(self.response.topics) and all(
            partition_count(partitions) == len(topic.partitions)
            for (_, partitions), topic in zip(self.wanted, self.response.topics, strict=True)
        )


def sort_out(node: Node, version: int, request: OffsetCommitRequest) -> SortedCommit:
    """Tell the partitions that can be committed from those that do not exist."""
    sorted_commit = SortedCommit(OffsetCommitResponse(), [], [])
    for topic in request.topics:
        _sort_out_topic(node, version, topic, sorted_commit)
    return sorted_commit


def sort_out_in_steps(node: Node, version: int, request: OffsetCommitRequest) -> RequestSteps[SortedCommit]:
    """The same, a topic a step."""
    sorted_commit = SortedCommit(OffsetCommitResponse(), [], [])
    for topic in request.topics:
        yield None
        _sort_out_topic(node, version, topic, sorted_commit)
    return sorted_commit


def _sort_out_topic(
    node: Node, version: int, topic: OffsetCommitRequestTopic, sorted_commit: SortedCommit
) -> None:
    response, wanted, open_answers = sorted_commit
    known = find_topic(node, version, topic)
    if known is not None and not topic.partitions:
        return  # as Kafka: a topic that exists and of which nothing is committed is not answered
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
            wanted.append((known.name, to_commit))
            open_answers.append(to_answer)
    response.topics.append(
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
    )


def command_of(request: OffsetCommitRequest, wanted: Wanted, api_version: int) -> CommitOffsets:
    """What the coordinator is asked to commit."""
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
    """A wide commit as columns."""
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
    """An answer for each, with an error of its own or the same for all."""
    columns = {"partition_index": partitions.columns["partition_index"]}
    if isinstance(errors, ErrorCode):
        return WideStructs(OffsetCommitResponsePartition(error_code=errors), columns)
    return WideStructs(OffsetCommitResponsePartition(), {**columns, "error_code": errors})


def are_there(indexes: Int64s, partition_count: int) -> NDArray[np.bool_]:
    """Which of these partitions a topic of so many has."""
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
    """All answers, those of them that wait for the commit, and what is to be committed."""
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
    """All answers, those of them that wait for the commit, and what is to be committed."""
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
    """Put the coordinator's result into the answers that waited for it."""
    error = error_of(result)
    if error:
        for answers in open_answers:
            if isinstance(answers, WideAnswers):
                answers.errors[answers.waiting] = error
            else:
                for answer in answers:
                    answer.error_code = error
    elif isinstance(result, CommitResult):
        for topic_index, index in result.too_large:
            answers = open_answers[topic_index]
            if isinstance(answers, WideAnswers):
                answers.errors[answers.waiting[index]] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                answers[index].error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
