"""ConsumerGroupDescribe (69), versions 0-1: describe consumer groups (KIP-848).

1 distinguishes members of the classic protocol. A group that is unknown or of another type is
GROUP_ID_NOT_FOUND. Partitions of deleted topics are omitted. A group named more than once is described once.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_descriptions import describe_each, named_topics
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.consumer.commands import (
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    GroupRefusal,
)
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.security.resources import Operation
from headgate.wire.messages import consumer_group_describe as wire

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def handle(node: Node, call: Call, request: wire.ConsumerGroupDescribeRequest) -> None:
    """Describe each group once, in the order asked."""
    describe_each(node, call, request, DescribeConsumerGroup, wire, _group)


def _group(
    group_id: GroupId, result: DescribedConsumerGroup | GroupRefusal
) -> RequestSteps[wire.DescribedGroup]:
    if isinstance(result, GroupRefusal):
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
    member: DescribedConsumerMember, topic_names: Mapping[TopicId, TopicName]
) -> RequestSteps[wire.Member]:
    yield None
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex or "",
        assignment=(yield from _assignment(member.assigned, topic_names)),
        target_assignment=(yield from _assignment(member.target, topic_names)),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(
    partitions: Mapping[TopicId, tuple[int, ...]], topic_names: Mapping[TopicId, TopicName]
) -> RequestSteps[wire.Assignment]:
    topics = yield from named_topics(partitions, topic_names, wire.TopicPartitions)
    return wire.Assignment(topic_partitions=topics)


API = Api(
    69,
    "ConsumerGroupDescribe",
    0,
    1,
    wire.ConsumerGroupDescribeRequest,
    wire.ConsumerGroupDescribeResponse,
    handle,
    needs=of_groups(Operation.DESCRIBE, "group_ids"),
)
