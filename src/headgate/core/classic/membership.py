"""Heartbeats, LeaveGroup, and expired sessions."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.classic.commands import (
    NO_MEMBER_ID,
    Heartbeat,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    SyncResult,
)
from headgate.core.classic.context import ClassicContext
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.rebalance import complete_if_all_joined, rebalance_or_complete
from headgate.core.classic.state import ClassicState
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.events import RemovalReason
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId


def heartbeat(context: ClassicContext, group: ClassicGroup, command: Heartbeat) -> ErrorCode:
    """Restart a member's session timer; return REBALANCE_IN_PROGRESS if it must rejoin."""
    error = group.member_error(command.member_id, command.instance_id)
    if error:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[command.member_id]
    context.start_session(group, member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        if member.awaiting_join is None:
            context.awaited(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    if group.state is ClassicState.COMPLETING_REBALANCE and member.member_id in group.pending_syncs:
        context.awaited(group, member)
    return ErrorCode.NONE


def leave(context: ClassicContext, group: ClassicGroup, command: LeaveGroup, token: Token) -> GroupEffects:
    """Remove members; each one has its own error."""
    outcomes, parked = [], []
    for leaving in command.members:
        error, effects = _leave_one(context, group, leaving)
        outcomes.append((leaving, error))
        parked.append(effects)
    reply = answer(token, LeaveResult(members=tuple(outcomes)))
    if all(error for _, error in outcomes):
        return reply
    return together(reply, *parked, _after_removal(context, group))


def _leave_one(
    context: ClassicContext, group: ClassicGroup, leaving: LeavingMember
) -> tuple[ErrorCode, GroupEffects]:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        known = None if leaving.instance_id is None else group.instances.get(leaving.instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, NOTHING
        member_id = known
    elif member_id not in group.pending_joins:
        error = group.member_error(member_id, leaving.instance_id)
        if error:
            return error, NOTHING
    return ErrorCode.NONE, _remove(context, group, member_id, RemovalReason.LEFT, leaving.reason)


def _remove(
    context: ClassicContext,
    group: ClassicGroup,
    member_id: MemberId,
    reason: RemovalReason,
    client_reason: str | None = None,
) -> GroupEffects:
    """Remove a member or a pending member, and answer its parked requests."""
    context.end_session(group, member_id)
    member = group.members.get(member_id)
    if member is None:
        group.remove(member_id)
        return NOTHING
    context.removed(group, member, reason, client_reason)
    join_token, sync_token = group.take_join(member), group.take_sync(member)
    group.remove(member_id)
    return Effects((), list(_gone(join_token, sync_token)))


def _gone(join_token: Token | None, sync_token: Token | None) -> Iterable[Reply]:
    if join_token is not None:
        yield Reply(join_token, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
    if sync_token is not None:
        yield Reply(sync_token, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))


def _after_removal(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        return rebalance_or_complete(context, group)
    return complete_if_all_joined(context, group)


def on_session_deadline(context: ClassicContext, group: ClassicGroup, member_id: MemberId) -> GroupEffects:
    """Remove a member whose session expired. Members with a parked request are kept, unless they are new."""
    if member_id in group.pending_joins:
        group.remove(member_id)
        return complete_if_all_joined(context, group)
    member = group.members.get(member_id)
    if member is None:
        return NOTHING
    is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
    if is_waiting and not member.is_new:
        return NOTHING
    removal = _remove(context, group, member_id, RemovalReason.SESSION_TIMEOUT)
    return together(removal, _after_removal(context, group))
