"""Between the messages of OffsetCommit and the coordinator's commands.

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION (those of a topic id that is nobody's:
UNKNOWN_TOPIC_ID) and left out of the command; the others wait for its result, in the order asked. A wide
commit stays in columns all the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headgate.api.contract import Node
from headgate.api.group_answers import error_of
from headgate.api.offset_topics import find_topic, unknown_topic_error
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    OffsetColumns,
    OffsetToCommit,
    partition_count,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicName
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import WideStructs

_GROUP_NOT_FOUND_SINCE_VERSION = 9
NO_LEADER_EPOCH = -1

WideAnswers = WideStructs[OffsetCommitResponsePartition]
Answers = list[OffsetCommitResponsePartition]
Wanted = list[tuple[TopicName, Sequence[OffsetToCommit] | OffsetColumns]]


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
    response, wanted, open_answers = sorted_commit
    for topic in request.topics:
        known = find_topic(node, version, topic)
        if known is not None and not topic.partitions:
            continue  # as Kafka: a topic that exists and of which nothing is committed is not answered
        answers: Any
        if known is None:
            answers = _all_refused(topic.partitions, unknown_topic_error(version))
        elif (columns := columns_of(topic.partitions, known.partition_count)) is not None:
            answers = WideStructs(OffsetCommitResponsePartition(), {"partition_index": columns.partitions})
            wanted.append((known.name, columns))
            open_answers.append(answers)
        else:
            answers, to_answer, to_commit = _one_by_one(topic.partitions, known.partition_count)
            if to_commit:
                wanted.append((known.name, to_commit))
                open_answers.append(to_answer)
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return sorted_commit


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


def columns_of(
    partitions: Sequence[OffsetCommitRequestPartition], partition_count: int
) -> OffsetColumns | None:
    """A wide commit of partitions that are all there, as columns; None for any other."""
    if not isinstance(partitions, WideStructs):
        return None
    indexes = partitions.columns["partition_index"]
    if indexes.min() < 0 or indexes.max() >= partition_count:
        return None
    epochs = partitions.columns.get("committed_leader_epoch")
    if epochs is None:
        epochs = np.full(len(indexes), NO_LEADER_EPOCH)
    metadata = partitions.template.committed_metadata or ""
    return OffsetColumns(indexes, partitions.columns["committed_offset"], epochs, metadata)


def _all_refused(partitions: Sequence[OffsetCommitRequestPartition], error: ErrorCode) -> Answers:
    return [
        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
        for one in partitions
    ]


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
            for answer in (answers.template,) if isinstance(answers, WideStructs) else answers:
                answer.error_code = error
    elif isinstance(result, CommitResult) and result.too_large:
        for topic_index, index in result.too_large:
            answers = open_answers[topic_index]
            # In columns all metadata is the same, and so is its length.
            answer = answers.template if isinstance(answers, WideStructs) else answers[index]
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
