"""Between the messages of OffsetFetch and the coordinator's commands.

Up to version 7 a request is about one group, and its topics stand at the top; from 8 on it is about several.
A group or partition that is not known is no error: offset -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.core.offsets.commands import (
    FetchedColumns,
    FetchedOffsets,
    FetchedPartitions,
    FetchOffsets,
)
from headgate.core.offsets.table import StoredOffset
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headgate.wire.wide import WideStructs

LEADER_EPOCH_SINCE_VERSION = 5
_GROUPS_SINCE_VERSION = 8
_TOP_LEVEL_ERROR_SINCE_VERSION = 2
NO_OFFSET = -1


def commands_of(request: OffsetFetchRequest, version: int) -> list[FetchOffsets]:
    """What the coordinator is asked: a command for each group."""
    if version < _GROUPS_SINCE_VERSION:
        return [_command(request.group_id, request.topics)]
    return [
        replace(
            _command(group.group_id, group.topics),
            member_id=None if group.member_id is None else MemberId(group.member_id),
            member_epoch=group.member_epoch,
        )
        for group in request.groups
    ]


def _command(
    group_id: str, topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None
) -> FetchOffsets:
    if topics is None:
        return FetchOffsets(GroupId(group_id), None)
    return FetchOffsets(
        GroupId(group_id), [(TopicName(topic.name), topic.partition_indexes) for topic in topics]
    )


def response_of(
    commands: Sequence[FetchOffsets], results: Sequence[FetchedOffsets | ErrorCode], version: int
) -> OffsetFetchResponse:
    """The response, from the result to each command or the error of the shard that could not give one."""
    if version >= _GROUPS_SINCE_VERSION:
        pairs = zip(commands, results, strict=True)
        return OffsetFetchResponse(groups=[_group(command.group_id, result) for command, result in pairs])
    result = results[0]
    if isinstance(result, FetchedOffsets):
        return OffsetFetchResponse(topics=_topics(result))
    if version >= _TOP_LEVEL_ERROR_SINCE_VERSION:
        return OffsetFetchResponse(error_code=result)
    return OffsetFetchResponse(topics=_refused(commands[0], result))


def _topics(fetched: FetchedOffsets) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(name=topic, partitions=_partitions(OffsetFetchResponsePartition, partitions))
        for topic, partitions in fetched.topics
    ]


def _partitions(
    struct_type: type[OffsetFetchResponsePartition] | type[OffsetFetchResponsePartitions],
    partitions: FetchedPartitions | FetchedColumns,
) -> Any:
    """The answer for each partition, in columns if the offsets are."""
    if isinstance(partitions, FetchedColumns):
        columns = {
            "partition_index": partitions.partitions,
            "committed_offset": partitions.offsets,
            "committed_leader_epoch": partitions.leader_epochs,
        }
        return WideStructs(struct_type(), columns)
    return [_partition(struct_type, index, stored) for index, stored in partitions]


def _partition(
    struct_type: type[OffsetFetchResponsePartition] | type[OffsetFetchResponsePartitions],
    index: int,
    stored: StoredOffset | None,
) -> Any:
    if stored is None:
        return struct_type(partition_index=index, committed_offset=NO_OFFSET)
    return struct_type(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _refused(command: FetchOffsets, error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Version 1 has no place for an error but at each partition."""
    return [
        OffsetFetchResponseTopic(
            name=topic,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=error
                )
                for index in partitions
            ],
        )
        for topic, partitions in command.topics or ()
    ]


def _group(group_id: GroupId, result: FetchedOffsets | ErrorCode) -> OffsetFetchResponseGroup:
    if not isinstance(result, FetchedOffsets):
        return OffsetFetchResponseGroup(group_id=group_id, error_code=result)
    topics = [
        OffsetFetchResponseTopics(
            name=topic, partitions=_partitions(OffsetFetchResponsePartitions, partitions)
        )
        for topic, partitions in result.topics
    ]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)
