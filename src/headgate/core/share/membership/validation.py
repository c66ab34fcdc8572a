"""Checks of a heartbeat that are independent of the group, one per line, in Kafka's order (F1)."""

from __future__ import annotations

from headgate.core.group_bytes import TOO_LONG, are_too_long
from headgate.core.share.membership.commands import JOINING, LEAVING, ShareGroupRefusal, ShareHeartbeat
from headgate.domain.errors import ErrorCode

LONGEST_MEMBER_ID = 36


def invalid_heartbeat(command: ShareHeartbeat) -> ShareGroupRefusal | None:
    """Return why the heartbeat is invalid, else None."""
    if not command.member_id:
        return _invalid("MemberId can't be empty.")
    if len(command.member_id) > LONGEST_MEMBER_ID:
        return _invalid(f"MemberId is longer than {LONGEST_MEMBER_ID} characters.")
    if not command.group_id:
        return _invalid("GroupId can't be empty.")
    if command.rack_id == "":
        return _invalid("RackId can't be empty.")
    if command.member_epoch == JOINING and not command.subscribed_topic_names:
        return _invalid("SubscribedTopicNames must be set in first request.")
    if command.member_epoch < LEAVING:
        return _invalid("MemberEpoch is invalid.")
    if are_too_long(command.subscribed_topic_names):
        return _invalid(TOO_LONG)
    return None


def _invalid(message: str) -> ShareGroupRefusal:
    return ShareGroupRefusal(ErrorCode.INVALID_REQUEST, message)
