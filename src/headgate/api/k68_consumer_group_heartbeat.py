"""ConsumerGroupHeartbeat (68), versions 0-1: join, stay in or leave a consumer group (KIP-848).

In 0 a client may leave its member id to the coordinator; from 1 it makes one itself, and may subscribe by a
regular expression, which is matched after the answer. What a heartbeat leaves out is as it was. The answer
has the assignment when it changed, and whenever the member says all of itself.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Api, Call, Node
from headgate.core.consumer.commands import JOINING, ConsumerHeartbeat, HeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import OwnedPartitions
from headgate.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_MEMBER_ID_SINCE_VERSION = 1


def handle(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Answer when what the heartbeat led to is durable."""

    def on_result(result: Any) -> None:
        if isinstance(result, ErrorCode):
            call.answer(ConsumerGroupHeartbeatResponse(error_code=result))
        else:
            call.answer(_response(result))

    command = _command(node, call, request)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def _command(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    member_id = request.member_id
    is_left_to_us = call.api_version < _MEMBER_ID_SINCE_VERSION and request.member_epoch == JOINING
    if not member_id and is_left_to_us:
        member_id = node.new_member_id(call.client_id)
    names, reported = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=GroupId(request.group_id),
        member_id=MemberId(member_id),
        member_epoch=request.member_epoch,
        instance_id=None if request.instance_id is None else InstanceId(request.instance_id),
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(map(TopicName, names)),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        reported=None if reported is None else [(TopicId(one.topic_id), one.partitions) for one in reported],
        client_id=call.client_id or "",
        client_host=call.client_host,
    )


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assigned is None else _assignment(result.assigned),
    )


def _assignment(assigned: OwnedPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in assigned.items()
        ]
    )


API = Api(
    68, "ConsumerGroupHeartbeat", 0, 1, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, handle
)
