"""Checks of a heartbeat that are independent of the group, one per line, in Kafka's order."""

from __future__ import annotations

from headgate.core.consumer.commands import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    UNCHANGED_MS,
    ConsumerHeartbeat,
    GroupRefusal,
)
from headgate.core.group_bytes import TOO_LONG, are_too_long
from headgate.domain.errors import ErrorCode


def _invalid(message: str) -> GroupRefusal:
    return GroupRefusal(ErrorCode.INVALID_REQUEST, message)


def invalid_heartbeat(command: ConsumerHeartbeat, assignors: tuple[str, ...]) -> GroupRefusal | None:
    """Return why the heartbeat is invalid, else None; `assignors` are those that members may ask for."""
    if not command.member_id:
        return _invalid("MemberId can't be empty.")
    if not command.group_id:
        return _invalid("GroupId can't be empty.")
    if command.instance_id == "":
        return _invalid("InstanceId can't be empty.")
    if command.rack_id == "":
        return _invalid("RackId can't be empty.")
    if command.member_epoch == JOINING:
        refusal = _invalid_join(command)
        if refusal is not None:
            return refusal
    if command.member_epoch == LEAVING_FOR_A_WHILE and command.instance_id is None:
        return _invalid("InstanceId can't be null.")
    if command.member_epoch < LEAVING_FOR_A_WHILE:
        return _invalid("MemberEpoch is invalid.")
    if are_too_long(command.subscribed_topic_names):
        return _invalid(TOO_LONG)
    if command.server_assignor is not None and command.server_assignor not in assignors:
        return GroupRefusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _invalid_join(command: ConsumerHeartbeat) -> GroupRefusal | None:
    if command.rebalance_timeout_ms == UNCHANGED_MS:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    if command.reported is None or command.reported:
        return _invalid("TopicPartitions must be empty when (re-)joining.")
    if command.subscribed_topic_names is None and command.subscribed_topic_regex is None:
        return _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null.")
    return None
