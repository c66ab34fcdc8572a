"""OffsetFetch (9), versions 1-9: where a group is in each partition.

From 2 null topics mean all and an error stands at the top, 3 has the throttle time, 5 the leader epoch, 6
is flexible, 7 may require stable offsets (KIP-447; without transactions all are), 8 asks for several groups
at once, 9 may name a member, which classic groups ignore. Version 10 with topic ids is not offered yet. A
group or partition that is not known is no error: offset -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.api.contract import Api, Call, Node
from headgate.api.group_answers import submit_each
from headgate.core.offsets.commands import (
    FetchedColumns,
    FetchedOffsets,
    FetchedPartitions,
    FetchOffsets,
)
from headgate.core.offsets.table import StoredOffset
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
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

_GROUPS_SINCE_VERSION = 8
_TOP_LEVEL_ERROR_SINCE_VERSION = 2
NO_OFFSET = -1


def handle(node: Node, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse | None:
    """Answer with the offsets of one group, or of each group asked for."""
    if call.api_version >= _GROUPS_SINCE_VERSION:
        _fetch_groups(node, call, request)
    else:
        _fetch_one(node, call, request)
    return None


def _command(
    group_id: str, topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None
) -> FetchOffsets:
    if topics is None:
        return FetchOffsets(GroupId(group_id), None)
    return FetchOffsets(
        GroupId(group_id), [(TopicName(topic.name), topic.partition_indexes) for topic in topics]
    )


def _fetch_one(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    def on_result(result: Any) -> None:
        if isinstance(result, FetchedOffsets):
            call.answer(OffsetFetchResponse(topics=_topics(result)))
        elif call.api_version >= _TOP_LEVEL_ERROR_SINCE_VERSION:
            call.answer(OffsetFetchResponse(error_code=result))
        else:
            call.answer(OffsetFetchResponse(topics=_refused(request.topics or [], result)))

    command = _command(request.group_id, request.topics)
    node.coordinator.submit(command.group_id, command, on_result)


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


def _refused(topics: Sequence[OffsetFetchRequestTopic], error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Version 1 has no place for an error but at each partition."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=error
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def _fetch_groups(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    commands = [_command(group.group_id, group.topics) for group in request.groups]

    def on_results(results: list[Any]) -> None:
        call.answer(
            OffsetFetchResponse(
                groups=[
                    _group(command.group_id, result)
                    for command, result in zip(commands, results, strict=True)
                ]
            )
        )

    submit_each(node, [(command.group_id, command) for command in commands], on_results)


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


API = Api(9, "OffsetFetch", 1, 9, OffsetFetchRequest, OffsetFetchResponse, handle)
