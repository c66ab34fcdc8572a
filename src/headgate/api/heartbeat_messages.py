"""Heartbeats of both protocols: request to command, result to response."""

from __future__ import annotations

from headgate.core.classic.commands import Heartbeat
from headgate.core.consumer.commands import ConsumerHeartbeat, HeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import OwnedPartitions
from headgate.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def command_of(
    request: ConsumerGroupHeartbeatRequest, client_id: str | None, client_host: str
) -> ConsumerHeartbeat:
    """Return the command of a request, with the client's id and host."""
    names, reported = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        member_epoch=request.member_epoch,
        instance_id=None if request.instance_id is None else InstanceId(request.instance_id),
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(map(TopicName, names)),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        reported=None if reported is None else [(TopicId(one.topic_id), one.partitions) for one in reported],
        client_id=client_id or "",
        client_host=client_host,
    )


def response_of(result: HeartbeatResult | ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a result; an `ErrorCode` is that of a shard that cannot answer."""
    if isinstance(result, ErrorCode):
        return ConsumerGroupHeartbeatResponse(error_code=result)
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


def classic_command_of(request: HeartbeatRequest) -> Heartbeat:
    """Return the command of a classic heartbeat."""
    instance_id = request.group_instance_id
    return Heartbeat(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=request.generation_id,
        instance_id=None if instance_id is None else InstanceId(instance_id),
    )


def classic_response_of(error: ErrorCode) -> HeartbeatResponse:
    """Return the response to it; NONE while the group is loading, as in Kafka.

    Session timers restart after the load, and an error would only make clients look for another coordinator.
    """
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)
