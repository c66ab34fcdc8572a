"""ShareGroupDescribe (77), version 1: describe share groups (KIP-932).

A group that is unknown or of another type is GROUP_ID_NOT_FOUND. Partitions of deleted topics are omitted. A
group named more than once is described once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import answer_each
from headgate.api.k15_describe_groups import ALL_GROUP_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.share.membership.commands import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
    ShareGroupRefusal,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.security.resources import Operation
from headgate.wire.messages import share_group_describe as wire


def handle(node: Node, call: Call, request: wire.ShareGroupDescribeRequest) -> None:
    """Describe each group once, in the order asked."""
    operations = ALL_GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    group_ids = [GroupId(group_id) for group_id in dict.fromkeys(request.group_ids)]

    def respond(results: Sequence[Any]) -> RequestSteps[wire.ShareGroupDescribeResponse]:
        response = wire.ShareGroupDescribeResponse()
        for group_id, result in zip(group_ids, results, strict=True):
            yield None
            group = yield from _group(group_id, result)
            if not group.error_code:
                group.authorized_operations = operations
            response.groups.append(group)
        return response

    answer_each(node, call, group_ids, DescribeShareGroup, respond)


def _group(
    group_id: GroupId, result: DescribedShareGroup | ShareGroupRefusal | ErrorCode
) -> RequestSteps[wire.DescribedGroup]:
    match result:
        case ErrorCode():
            return wire.DescribedGroup(group_id=group_id, error_code=result)
        case ShareGroupRefusal(error, message):
            return wire.DescribedGroup(group_id=group_id, error_code=error, error_message=message)
        case DescribedShareGroup():
            described = wire.DescribedGroup(
                group_id=group_id,
                group_state=result.state,
                group_epoch=result.group_epoch,
                assignment_epoch=result.assignment_epoch,
                assignor_name=result.assignor,
            )
            for member in result.members:
                yield None
                described.members.append(_member(member, result.topic_names))
            return described


def _member(member: DescribedShareMember, topic_names: Mapping[TopicId, TopicName]) -> wire.Member:
    assignment = wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(
                topic_id=topic_id, topic_name=topic_names[topic_id], partitions=list(indexes)
            )
            for topic_id, indexes in member.assigned.items()
            if topic_id in topic_names
        ]
    )
    return wire.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=assignment,
    )


API = Api(
    77,
    "ShareGroupDescribe",
    1,
    1,
    wire.ShareGroupDescribeRequest,
    wire.ShareGroupDescribeResponse,
    handle,
    needs=of_groups(Operation.DESCRIBE, "group_ids"),
)
