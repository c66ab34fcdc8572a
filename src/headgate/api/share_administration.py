"""What DescribeShareDeliveries (20007) and AlterShareDeliveries (20008) have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import Needs, group_need, topic_need
from headgate.api.share_initialization import ask_group
from headgate.core.share.membership.commands import ListSharePartitions, SharePartitions
from headgate.core.share.sessions import PartitionKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.security.authorizer import Need
from headgate.security.resources import Operation


class SharePartitionRequest(Protocol):
    """A request that names one share-partition."""

    group_id: str
    topic_name: str
    partition_index: int


class Problem(NamedTuple):
    """Why a request is refused."""

    error: ErrorCode
    message: str


def share_partition_of(node: Node, request: SharePartitionRequest) -> RequestSteps[PartitionKey | Problem]:
    """Return the share-partition that a request names, if the group has it; else an error and its reason."""
    group_id, index = GroupId(request.group_id), request.partition_index
    topic = node.topics.by_name(TopicName(request.topic_name))
    if topic is None or not 0 <= index < topic.partition_count:
        message = f"{request.topic_name}-{index} does not exist."
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    found = yield from ask_group(node, group_id, ListSharePartitions(group_id))
    if isinstance(found, ErrorCode):
        return Problem(found, f"The coordinator of the group answered {found.name}; try again.")
    if not isinstance(found, SharePartitions) or not found.partitions:
        message = f"There is no share group {group_id} with share-partitions."
        return Problem(ErrorCode.GROUP_ID_NOT_FOUND, message)
    known = found.partitions.get(topic.topic_id)
    if known is None or index not in known.partitions:
        message = f"The share group {group_id} does not have {request.topic_name}-{index}."
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return topic.topic_id, index


def needs_of(group_operation: Operation, topic_operation: Operation) -> Needs:
    """Need a right on the group and one on the topic."""

    def needs(node: Node, call: Call, request: SharePartitionRequest) -> Iterator[Need]:
        yield group_need(group_operation, request.group_id)
        yield topic_need(topic_operation, request.topic_name)

    return needs
