"""Translate between the messages of OffsetFetch and the coordinator's commands.

Up to version 7 a request has one group, with its topics at the top level; from 8 on it has several. An
unknown group or partition is no error: its offset is -1. An unknown topic id is an error of each of its
partitions; such topics come last, as in Kafka's answers. From version 10, an answer for all topics omits
deleted topics, which have no id to name them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.api.contract import Node
from headgate.api.offset_topics import TOPIC_IDS_SINCE_VERSION, find_topic, unknown_topic_error
from headgate.core.offsets.commands import (
    FetchedColumns,
    FetchedOffsets,
    FetchedPartitions,
    FetchOffsets,
)
from headgate.core.offsets.stored import StoredOffset
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
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

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

LEADER_EPOCH_SINCE_VERSION = 5
_GROUPS_SINCE_VERSION = 8
_TOP_LEVEL_ERROR_SINCE_VERSION = 2
NO_OFFSET = -1
MOST_RESPONSE_BYTES = 256 << 20
"""Of the offsets and metadata in one response: those of some millions of partitions."""
_PARTITION_BYTES = 25


class AskedGroup(NamedTuple):
    """The request for one group: the coordinator's part, and the part answered without it."""

    command: FetchOffsets
    topics: Sequence[Topic] = ()
    """From version 10: the topics of the command, unless it asks for all."""
    unknown: Sequence[OffsetFetchRequestTopics] = ()
    """Topics with unknown ids."""


def groups_asked(node: Node, request: OffsetFetchRequest, version: int) -> list[AskedGroup]:
    """Return the requests for each group."""
    is_stable = request.require_stable
    if version < _GROUPS_SINCE_VERSION:
        group_id = GroupId(request.group_id)
        return [AskedGroup(FetchOffsets(group_id, _named(request.topics), require_stable=is_stable))]
    return [_asked(node, group, version, is_stable) for group in request.groups]


def _asked(node: Node, group: OffsetFetchRequestGroup, version: int, is_stable: bool) -> AskedGroup:
    group_id, member_id = GroupId(group.group_id), group.member_id
    member = None if member_id is None else MemberId(member_id)
    topics = group.topics
    if version < TOPIC_IDS_SINCE_VERSION or topics is None:
        return AskedGroup(FetchOffsets(group_id, _named(topics), member, group.member_epoch, is_stable))
    found = [(topic, find_topic(node, version, topic)) for topic in topics]
    known = [(topic, one) for topic, one in found if one is not None]
    named = [(one.name, topic.partition_indexes) for topic, one in known]
    return AskedGroup(
        FetchOffsets(group_id, named, member, group.member_epoch, is_stable),
        [one for _, one in known],
        [topic for topic, one in found if one is None],
    )


def _named(
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
) -> list[tuple[TopicName, Sequence[int]]] | None:
    return None if topics is None else [(TopicName(topic.name), topic.partition_indexes) for topic in topics]


def response_of(
    asked: Sequence[AskedGroup], results: Sequence[FetchedOffsets | ErrorCode], version: int
) -> OffsetFetchResponse:
    """Return the response from the result of each command, or the error of its shard."""
    if version >= _GROUPS_SINCE_VERSION:
        pairs = zip(asked, results, strict=True)
        return OffsetFetchResponse(groups=[_group(group, result, version) for group, result in pairs])
    result = results[0]
    if isinstance(result, FetchedOffsets):
        return OffsetFetchResponse(topics=_topics(result))
    if version >= _TOP_LEVEL_ERROR_SINCE_VERSION:
        return OffsetFetchResponse(error_code=result)
    return OffsetFetchResponse(topics=_refused(asked[0].command, result))


def bounded_response_of(
    asked: Sequence[AskedGroup], results: Sequence[Any], version: int
) -> OffsetFetchResponse:
    """Return the response with the results that fit, and INVALID_REQUEST for the groups of all others.

    A short request can name a partition with much metadata any number of times.
    """
    left = MOST_RESPONSE_BYTES
    fitting: list[Any] = []
    for result in results:
        left -= response_bytes(result)
        fitting.append(result if left >= 0 else ErrorCode.INVALID_REQUEST)
    return response_of(asked, fitting, version)


def response_bytes(result: Any) -> int:
    """Return how many bytes a group's offsets take in a response, about."""
    if not isinstance(result, FetchedOffsets):
        return 0
    total = 0
    for _, partitions in result.topics:
        if isinstance(partitions, FetchedColumns):
            total += _PARTITION_BYTES * len(partitions.partitions) + sum(map(len, partitions.metadata))
        else:
            total += _PARTITION_BYTES * len(partitions)
            total += sum(len(stored.metadata) for _, stored in partitions if stored is not None)
    return total


def _topics(fetched: FetchedOffsets) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic,
            partitions=_partitions(OffsetFetchResponsePartition, partitions, fetched.unstable.get(topic)),
        )
        for topic, partitions in fetched.topics
    ]


def _partitions(
    struct_type: type[OffsetFetchResponsePartition] | type[OffsetFetchResponsePartitions],
    partitions: FetchedPartitions | FetchedColumns,
    unstable: Set[int] | None = None,
) -> Any:
    """Return the answer for each partition, in columns if the offsets are."""
    if unstable:
        return _stable_partitions(struct_type, partitions, unstable)
    if isinstance(partitions, FetchedColumns):
        columns = {
            "partition_index": partitions.partitions,
            "committed_offset": partitions.offsets,
            "committed_leader_epoch": partitions.leader_epochs,
        }
        texts = {"metadata": partitions.metadata} if partitions.metadata else {}
        return WideStructs(struct_type(), columns, texts=texts)
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


def _stable_partitions(
    struct_type: type[OffsetFetchResponsePartition] | type[OffsetFetchResponsePartitions],
    partitions: FetchedPartitions | FetchedColumns,
    unstable: Set[int],
) -> list[Any]:
    """Return the answers; partitions in `unstable` get UNSTABLE_OFFSET_COMMIT instead of their offset.

    These are single structs: their errors follow a string, so they cannot be a column.
    """
    if isinstance(partitions, FetchedColumns):
        partitions = partitions.each()
    return [
        struct_type(
            partition_index=index,
            committed_offset=NO_OFFSET,
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
        if index in unstable
        else _partition(struct_type, index, stored)
        for index, stored in partitions
    ]


def _refused(command: FetchOffsets, error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Version 1 has errors of partitions only."""
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


def _group(asked: AskedGroup, result: FetchedOffsets | ErrorCode, version: int) -> OffsetFetchResponseGroup:
    group_id = asked.command.group_id
    if not isinstance(result, FetchedOffsets):
        return OffsetFetchResponseGroup(group_id=group_id, error_code=result)
    topics = [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=_partitions(OffsetFetchResponsePartitions, partitions, result.unstable.get(topic)),
        )
        for topic, partitions in result.topics
    ]
    if version >= TOPIC_IDS_SINCE_VERSION:
        topics = _with_ids(asked, result, topics)
        topics += [_unknown(topic, unknown_topic_error(version)) for topic in asked.unknown]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _with_ids(
    asked: AskedGroup, fetched: FetchedOffsets, topics: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """Return the topics with their ids, without those that have none."""
    if asked.command.topics is None:
        ids = fetched.topic_ids
        topics = [topic for topic in topics if topic.name in ids]
        topic_ids: Sequence[TopicId] = [ids[TopicName(topic.name)] for topic in topics]
    else:
        topic_ids = [topic.topic_id for topic in asked.topics]
    for topic, topic_id in zip(topics, topic_ids, strict=True):
        topic.topic_id = topic_id
    return topics


def _unknown(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)
            for index in topic.partition_indexes
        ],
    )
