"""Checks of commits and deletions of offsets in a classic group, and the clock of their expiry."""

from __future__ import annotations

from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.deadlines import Deadlines
from headgate.core.offsets.commands import CommitOffsets
from headgate.core.offsets.expiry import GroupClock, group_clock
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis


def commit_error(group: ClassicGroup, command: CommitOffsets) -> ErrorCode:
    """Return the error of a commit, in Kafka's order of checks.

    A transactional commit needs no member, because early versions cannot name one, and may come during a
    rebalance.
    """
    if command.generation < 0 and group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    if command.generation >= 0 or command.member_id or command.instance_id is not None:
        error = group.member_error(command.member_id, command.instance_id)
        if error:
            return error
        if command.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif group.state is not ClassicState.EMPTY and not command.is_transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.COMPLETING_REBALANCE and not command.is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def on_commit(deadlines: Deadlines[Timer], now: Millis, group: ClassicGroup, command: CommitOffsets) -> None:
    """Restart the session timer of a member that commits."""
    member = group.members.get(command.member_id)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        timer = Timer(TimerKind.SESSION, group.group_id, member.member_id)
        deadlines.set(timer, Millis(now + member.session_timeout_ms))


def delete_error(group: ClassicGroup) -> ErrorCode:
    """Return the error of any deletion of offsets; without one, those of subscribed topics are still kept."""
    if group.state is not ClassicState.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def clock_of(group: ClassicGroup) -> GroupClock:
    """Return since when the group's offsets age."""
    return group_clock(
        protocol_type=group.protocol_type or "",
        is_empty=group.state is ClassicState.EMPTY,
        is_stable=group.state is ClassicState.STABLE,
        state_timestamp=Millis(group.state_timestamp),
        knows_subscription=group.subscription is not None,
    )
