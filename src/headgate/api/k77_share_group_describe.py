"""ShareGroupDescribe (77), version 1: describe share groups (KIP-932).

A group that is unknown or of another type is GROUP_ID_NOT_FOUND. Partitions of deleted topics are omitted. A
group named more than once is described once.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_descriptions import describe_each, named_topics
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.share.membership.commands import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
    ShareGroupRefusal,
)
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.security.resources import Operation
from headgate.wire.messages import share_group_describe as wire


def handle(node: Node, call: Call, request: wire.ShareGroupDescribeRequest) -> None:
    """Describe each group once, in the order asked."""
    describe_each(node, call, request, DescribeShareGroup, wire, _group)


def _group(
    group_id: GroupId, result: DescribedShareGroup | ShareGroupRefusal
) -> RequestSteps[wire.DescribedGroup]:
    if isinstance(result, ShareGroupRefusal):
        return wire.DescribedGroup(group_id=group_id, error_code=result.error, error_message=result.message)
    described = wire.DescribedGroup(
        group_id=group_id,
        group_state=result.state,
        group_epoch=result.group_epoch,
        assignment_epoch=result.assignment_epoch,
        assignor_name=result.assignor,
    )
    for member in result.members:
        described.members.append((yield from _member(member, result.topic_names)))
    return described


def _member(
    member: DescribedShareMember, topic_names: Mapping[TopicId, TopicName]
) -> RequestSteps[wire.Member]:
    yield None
    topics = yield from named_topics(member.assigned, topic_names, wire.TopicPartitions)
    return wire.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=wire.Assignment(topic_partitions=topics),
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
