"""OffsetCommit with conditions: "set x if and only if the committed offset is y" (R3.16).

A partition of the request carries y as the tagged field `expected_offset`; -1 expects that nothing is
committed. Then the request is all or nothing, whatever stands in the way, and an x of -1 removes the offset.
If nothing is done, partitions get

    INVALID_UPDATE_VERSION        its condition failed; the tagged field `current_offset` is what is committed
    UNKNOWN_TOPIC_OR_PARTITION    it could not be committed in any case; likewise OFFSET_METADATA_TOO_LARGE
    OPERATION_NOT_ATTEMPTED       nothing is wrong with it

and where the group refuses the member, all have the group's error, as without conditions. A node that knows
this advertises FEATURE: one that does not would skip the field and commit.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.group_answers import error_of
from headgate.core.offsets.commands import CommitOffsets, CommitResult, OffsetToCommit, Place
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicName
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import WideStructs

FEATURE = CONDITIONAL_COMMIT
SINCE_VERSION = 8
_GROUP_NOT_FOUND_SINCE_VERSION = 9


def is_wanted(request: OffsetCommitRequest) -> bool:
    """Whether a partition of the request has a condition."""
    for topic in request.topics:
        partitions = topic.partitions
        if isinstance(partitions, WideStructs):
            if partitions.template.expected_offset is not None:
                return True
        elif any(partition.expected_offset is not None for partition in partitions):
            return True
    return False


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Answer with an error for each partition, in the order asked."""
    expected: dict[Place, int] = {}
    wanted: list[tuple[TopicName, list[OffsetToCommit]]] = []
    response = OffsetCommitResponse()
    for topic_index, topic in enumerate(request.topics):
        to_commit = []
        for index, partition in enumerate(topic.partitions):
            to_commit.append(
                OffsetToCommit(
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                )
            )
            if partition.expected_offset is not None:
                expected[topic_index, index] = partition.expected_offset
        wanted.append((TopicName(topic.name), to_commit))
        answers = [OffsetCommitResponsePartition(partition_index=each.partition) for each in to_commit]
        response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    if _refuse_unknown(node, response):
        return response

    def on_result(result: Any) -> None:
        _fill(response, result)
        call.answer(response)

    instance_id = request.group_instance_id
    command = CommitOffsets(
        GroupId(request.group_id),
        wanted,
        MemberId(request.member_id),
        request.generation_id_or_member_epoch,
        None if instance_id is None else InstanceId(instance_id),
        knows_group_not_found=call.api_version >= _GROUP_NOT_FOUND_SINCE_VERSION,
        expected=expected,
    )
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
    return None


def _refuse_unknown(node: Node, response: OffsetCommitResponse) -> bool:
    """Whether a partition does not exist, so that nothing is done; the answers say which."""
    is_refused = False
    for topic in response.topics:
        known = node.topics.by_name(topic.name)
        partition_count = known.partition_count if known is not None else 0
        for answer in topic.partitions:
            if not 0 <= answer.partition_index < partition_count:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                is_refused = True
    if is_refused:
        _not_attempted(response)
    return is_refused


def _fill(response: OffsetCommitResponse, result: Any) -> None:
    error = error_of(result)
    if error:
        for topic in response.topics:
            for answer in topic.partitions:
                answer.error_code = error
    elif isinstance(result, CommitResult) and not result.is_attempted:
        for topic_index, index in result.too_large:
            answer = response.topics[topic_index].partitions[index]
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        for (topic_index, index), current in (result.current or {}).items():
            answer = response.topics[topic_index].partitions[index]
            answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
            answer.current_offset = current
        _not_attempted(response)


def _not_attempted(response: OffsetCommitResponse) -> None:
    """Say so of every partition that nothing else is said of."""
    for topic in response.topics:
        for answer in topic.partitions:
            if answer.error_code == ErrorCode.NONE:
                answer.error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
