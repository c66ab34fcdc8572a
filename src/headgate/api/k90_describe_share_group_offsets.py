"""DescribeShareGroupOffsets (90), versions 0-1: the start offsets of share-partitions (KIP-932).

1 adds the lag (KIP-1226): records above the start offset whose delivery is not complete. Without topics, all
share-partitions of a group that have a state are described. A share-partition without a state has start
offset -1, also in a group that does not exist or is of another type. (Kafka does not answer for a partition
that does not exist.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.api.shard_replies import SUBMITTED_AT_ONCE, replies_to
from headgate.api.share_initialization import ask_group
from headgate.core.share.membership.commands import ListSharePartitions, SharePartitions
from headgate.core.share.state.commands import (
    UNKNOWN_COUNT,
    UNKNOWN_START,
    ReadSummary,
    ShareKey,
    SummaryResult,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.log.batch import CorruptBatch
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition
from headgate.wire.messages import describe_share_group_offsets as wire

_UNKNOWN_LAG = -1
_READ_COMMITTED = "read_committed"

_Partition = wire.DescribeShareGroupOffsetsResponsePartition
_Asked = list[tuple[str, Sequence[int]]]


def handle(node: Node, call: Call, request: wire.DescribeShareGroupOffsetsRequest) -> None:
    """Describe each group, in the order asked."""
    call.answer_in_steps(_described(node, request))


def _described(
    node: Node, request: wire.DescribeShareGroupOffsetsRequest
) -> RequestSteps[wire.DescribeShareGroupOffsetsResponse]:
    response = wire.DescribeShareGroupOffsetsResponse()
    for asked in request.groups:
        yield None
        response.groups.append((yield from _group(node, GroupId(asked.group_id), asked.topics)))
    return response


def _group(
    node: Node, group_id: GroupId, topics: list[wire.DescribeShareGroupOffsetsRequestTopic] | None
) -> RequestSteps[wire.DescribeShareGroupOffsetsResponseGroup]:
    group = wire.DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
    if not group_id:
        group.error_code = ErrorCode.INVALID_GROUP_ID
        return group
    found = yield from ask_group(node, group_id, ListSharePartitions(group_id))
    if isinstance(found, ErrorCode):
        group.error_code = found
        return group
    asked: _Asked = []
    if topics is not None:
        for topic in topics:
            yield None
            asked.append((topic.topic_name, topic.partitions))
    elif isinstance(found, SharePartitions):  # a group of another type has none
        asked = [(name, indexes) for name, indexes in found.partitions.values()]
    for name, indexes in asked:
        yield None
        group.topics.append((yield from _topic(node, group_id, name, indexes)))
    return group


def _topic(
    node: Node, group_id: GroupId, name: str, indexes: Sequence[int]
) -> RequestSteps[wire.DescribeShareGroupOffsetsResponseTopic]:
    topic = node.topics.by_name(TopicName(name))
    described = wire.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    if topic is None:
        for index in indexes:
            yield None
            described.partitions.append(_unknown(index))
        return described
    described.topic_id = topic.topic_id
    uses_stable = node.topics.group_overrides(group_id).get("share.isolation.level") == _READ_COMMITTED
    for first in range(0, len(indexes), SUBMITTED_AT_ONCE):
        some = indexes[first : first + SUBMITTED_AT_ONCE]
        keys = [ShareKey(group_id, topic.topic_id, index) for index in some]
        results = yield from replies_to(
            partial(node.share_state.submit, key.name, ReadSummary(key=key)) for key in keys
        )
        for index, result in zip(some, results, strict=True):
            yield None
            partition = topic.find_partition(index)
            if partition is None:
                described.partitions.append(_unknown(index))
                continue
            yield from opened_aside(partition)
            described.partitions.append(_partition(partition, result, uses_stable=uses_stable))
    return described


def _partition(partition: Partition, result: SummaryResult | ErrorCode, *, uses_stable: bool) -> _Partition:
    index = partition.index
    if isinstance(result, ErrorCode):
        return _failed(index, result)
    if result.error:
        return _failed(index, result.error, result.message)
    lag = _UNKNOWN_LAG
    if result.start_offset != UNKNOWN_START and result.delivery_complete_count != UNKNOWN_COUNT:
        try:
            end = partition.last_stable_offset if uses_stable else partition.high_watermark
        except (OSError, CorruptBatch):
            return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
        lag = max(end - result.start_offset - result.delivery_complete_count, 0)
    return _Partition(
        partition_index=index, start_offset=result.start_offset, leader_epoch=result.leader_epoch, lag=lag
    )


def _unknown(index: int) -> _Partition:
    return _failed(
        index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )


def _failed(index: int, error: ErrorCode, message: str | None = None) -> _Partition:
    return _Partition(
        partition_index=index, start_offset=UNKNOWN_START, error_code=error, error_message=message
    )


def needs(node: Node, call: Call, request: wire.DescribeShareGroupOffsetsRequest) -> Iterator[Need]:
    """Return the needs: DESCRIBE on each group and topic."""
    for group in request.groups:
        yield group_need(Operation.DESCRIBE, group.group_id)
        for topic in group.topics or ():
            yield topic_need(Operation.DESCRIBE, topic.topic_name)


API = Api(
    90,
    "DescribeShareGroupOffsets",
    0,
    1,
    wire.DescribeShareGroupOffsetsRequest,
    wire.DescribeShareGroupOffsetsResponse,
    handle,
    needs=needs,
)
