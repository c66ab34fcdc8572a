"""ConsumerGroupDescribe (69), versions 0-1: describe consumer groups (KIP-848).

1 distinguishes members of the classic protocol. A group that is unknown or of another type is
GROUP_ID_NOT_FOUND. Partitions of deleted topics are omitted. A group named more than once is described once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import answer_each
from headgate.api.k15_describe_groups import ALL_GROUP_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.consumer.commands import (
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    GroupRefusal,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.security.resources import Operation
from headgate.wire.messages import consumer_group_describe as wire

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def handle(node: Node, call: Call, request: wire.ConsumerGroupDescribeRequest) -> None:
    """Describe each group once, in the order asked."""
    operations = ALL_GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    group_ids = [GroupId(group_id) for group_id in dict.fromkeys(request.group_ids)]

    def respond(results: Sequence[Any]) -> RequestSteps[wire.ConsumerGroupDescribeResponse]:
        response = wire.ConsumerGroupDescribeResponse()
        for group_id, result in zip(group_ids, results, strict=True):
            yield None
            group = yield from _group(group_id, result)
            if not group.error_code:
                group.authorized_operations = operations
            response.groups.append(group)
        return response

    answer_each(node, call, group_ids, DescribeConsumerGroup, respond)


def _group(
    group_id: GroupId, result: DescribedConsumerGroup | GroupRefusal | ErrorCode
) -> RequestSteps[wire.DescribedGroup]:
    match result:
        case ErrorCode():
            return wire.DescribedGroup(group_id=group_id, error_code=result)
        case GroupRefusal(error, message):
            return wire.DescribedGroup(group_id=group_id, error_code=error, error_message=message)
        case DescribedConsumerGroup():
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
    assignment = wire.Assignment()
    for topic_id, indexes in partitions.items():
        yield None
        if topic_id in topic_names:
            assignment.topic_partitions.append(
                wire.TopicPartitions(
                    topic_id=topic_id, topic_name=topic_names[topic_id], partitions=list(indexes)
                )
            )
    return assignment


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
