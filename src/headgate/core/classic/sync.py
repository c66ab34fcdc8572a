"""SyncGroup: the leader sends the assignment, each member receives its part."""

from __future__ import annotations

from headgate.core.classic.commands import SyncGroup, SyncResult
from headgate.core.classic.context import ClassicContext
from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.classic.state import ClassicState
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.group_bytes import MOST_BYTES, bytes_of
from headgate.domain.errors import ErrorCode


def sync_error(group: ClassicGroup, command: SyncGroup) -> ErrorCode:
    """Return the error of a sync, in Kafka's order of checks."""
    if group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.member_error(command.member_id, command.instance_id)
    if error:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(command.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differs(command.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def sync(context: ClassicContext, group: ClassicGroup, command: SyncGroup, token: Token) -> GroupEffects:
    """Answer a member with its assignment, now or when the leader has sent it."""
    error = sync_error(group, command)
    if not error and group.leader == command.member_id and not _fits(command):
        error = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka
    if error:
        return answer(token, SyncResult(error=error))
    group.pending_syncs.pop(command.member_id, None)
    if not group.pending_syncs:
        context.stop_waiting_for_syncs(group)
    member = group.members[command.member_id]
    if group.state is ClassicState.STABLE:
        return answer(token, _assigned(group, member))
    older, member.awaiting_sync = member.awaiting_sync, token
    superseded = NOTHING
    if older is not None:
        superseded = answer(older, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader != member.member_id:
        return superseded
    return together(superseded, _stabilize(context, group, command))


def _fits(command: SyncGroup) -> bool:
    """Return whether the assignments of all members fit into the group's record."""
    return bytes_of(command.assignments) <= MOST_BYTES


def _stabilize(context: ClassicContext, group: ClassicGroup, command: SyncGroup) -> GroupEffects:
    """Apply the leader's assignment; members that it omits get an empty one."""
    assignments = dict(command.assignments)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.become(ClassicState.STABLE, context.system_time)
    replies = []
    for member in group.members.values():
        token = group.take_sync(member)
        if token is not None:
            replies.append(Reply(token, _assigned(group, member)))
            context.start_session(group, member)
    return Effects((group.metadata(),), replies)


def _assigned(group: ClassicGroup, member: Member) -> SyncResult:
    return SyncResult(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
