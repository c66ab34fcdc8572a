"""JoinGroup: check a join, choose the member id, and decide whether the group must rebalance.

The order of the checks is Kafka's. If a member joins again while an older join is parked, the older one is
answered REBALANCE_IN_PROGRESS; Kafka never answers it.
"""

from __future__ import annotations

from headgate.core.classic.commands import NO_MEMBER_ID, JoinGroup, JoinResult, SyncResult
from headgate.core.classic.context import NEW_MEMBER_TIMEOUT_MS, ClassicContext, ClassicSettings
from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.classic.rebalance import (
    complete_if_all_joined,
    joined,
    prepare_rebalance,
    rebalance_or_complete,
)
from headgate.core.classic.state import ClassicState
from headgate.core.classic.subscription import claims_too_much
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.events import RemovalReason
from headgate.core.group_bytes import MOST_BYTES, bytes_of, ids_bytes
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId


def invalid_join(command: JoinGroup, settings: ClassicSettings) -> ErrorCode:
    """Return the error of a join that is independent of the group."""
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if command.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
        claims_too_much(metadata) for _, metadata in command.protocols
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def join(context: ClassicContext, group: ClassicGroup, command: JoinGroup, token: Token) -> GroupEffects:
    """Handle a join to an existing group."""
    member_id = command.member_id
    if not _has_room(group, member_id, context.settings.max_size):
        return together(
            _refuse(token, NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED),
            _drop_refused(context, group, member_id),
        )
    if not _fits(group, command):
        return _refuse(token, member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(command.protocol_type, command.protocols):
        return _refuse(token, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id == NO_MEMBER_ID:
        return _join_without_id(context, group, command, token)
    if member_id in group.pending_joins and command.instance_id is None:
        return _join_new(context, group, command, token)
    error = group.member_error(member_id, command.instance_id)
    if error:
        return _refuse(token, member_id, error)
    return _join_again(context, group, command, token)


def _refuse(token: Token, member_id: MemberId, error: ErrorCode) -> GroupEffects:
    return answer(token, JoinResult(error=error, member_id=member_id))


def _has_room(group: ClassicGroup, member_id: MemberId, max_size: int) -> bool:
    match group.state:
        case ClassicState.EMPTY | ClassicState.DEAD:
            return True
        case ClassicState.PREPARING_REBALANCE:
            # Members without a parked join do not count: the first to join get the places.
            member = group.members.get(member_id)
            return (member is not None and member.awaiting_join is not None) or (
                group.awaiting_joins < max_size
            )
        case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
            return member_id in group.members or len(group.members) < max_size


def _fits(group: ClassicGroup, command: JoinGroup) -> bool:
    """Return whether the metadata of all members fits into the group's record."""
    known = group.instances.get(command.instance_id) if command.instance_id is not None else None
    before = group.members.get(known or command.member_id)
    replaced = 0 if before is None else bytes_of(before.protocols)
    ids = command.member_id or command.new_member_id, command.instance_id or "", command.client_id
    added = bytes_of(command.protocols) + (ids_bytes(*ids, command.client_host) if before is None else 0)
    return group.metadata_bytes - replaced + added <= MOST_BYTES


def _drop_refused(context: ClassicContext, group: ClassicGroup, member_id: MemberId) -> GroupEffects:
    """Remove a member that was refused for the group's size."""
    if member_id not in group.members and member_id not in group.pending_joins:
        return NOTHING
    parked = group.remove(member_id)
    assert not parked, "a member with a parked join has a place"
    context.end_session(group, member_id)
    return complete_if_all_joined(context, group)


def _join_without_id(
    context: ClassicContext, group: ClassicGroup, command: JoinGroup, token: Token
) -> GroupEffects:
    if command.instance_id is not None:
        known = group.instances.get(command.instance_id)
        if known is not None:
            return _replace_static(context, group, command, token)
        return _join_new(context, group, command, token)
    if not command.must_know_member_id:
        return _join_new(context, group, command, token)
    group.pending_joins[command.new_member_id] = None
    context.expect(group.group_id, command.new_member_id, command.session_timeout_ms)
    return _refuse(token, command.new_member_id, ErrorCode.MEMBER_ID_REQUIRED)


def _join_new(context: ClassicContext, group: ClassicGroup, command: JoinGroup, token: Token) -> GroupEffects:
    """Add a new member."""
    if not group.members:
        group.protocol_type = command.protocol_type
    member = Member(
        member_id=command.member_id or command.new_member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        session_timeout_ms=command.session_timeout_ms,
        protocols=command.protocols,
        is_new=True,
    )
    if group.state is ClassicState.PREPARING_REBALANCE and group.initial_remaining_ms is not None:
        group.has_new_members = True
    context.joined(group, member)
    group.add(member)
    group.park_join(member, token)
    context.expect(group.group_id, member.member_id, NEW_MEMBER_TIMEOUT_MS)
    return rebalance_or_complete(context, group)


def _join_again(
    context: ClassicContext, group: ClassicGroup, command: JoinGroup, token: Token
) -> GroupEffects:
    """Handle the join of a known member: for a rebalance, to start one, or after a lost response."""
    member = group.members[command.member_id]
    is_same = member.protocols == command.protocols
    match group.state:
        case ClassicState.COMPLETING_REBALANCE if is_same:
            return answer(token, joined(group, member))
        case ClassicState.STABLE if is_same and group.leader != member.member_id:
            return answer(token, joined(group, member))
        case ClassicState.PREPARING_REBALANCE | ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
            group.update(member, command)
            return together(_park(group, member, token), rebalance_or_complete(context, group))
        case ClassicState.EMPTY | ClassicState.DEAD:
            return _refuse(token, command.member_id, ErrorCode.UNKNOWN_MEMBER_ID)


def _park(group: ClassicGroup, member: Member, token: Token) -> GroupEffects:
    older = group.park_join(member, token)
    return NOTHING if older is None else _refuse(older, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)


def _replace_static(
    context: ClassicContext, group: ClassicGroup, command: JoinGroup, token: Token
) -> GroupEffects:
    """Handle a static member that returns without its id: it gets a new one, and the old one is fenced.

    A stable group does not rebalance for it if the selected protocol remains the same, even with other
    metadata.
    """
    instance_id = InstanceId(command.instance_id or "")
    old = group.members[group.instances[instance_id]]
    fenced = _fence(group, old)
    context.end_session(group, old.member_id)
    old_leader = group.leader
    member = group.replace(old, command.new_member_id)
    group.update(member, command)
    context.removed(group, old, RemovalReason.REPLACED)
    context.joined(group, member, (command.client_id, command.client_host))
    context.start_session(group, member)
    if group.state is ClassicState.STABLE and group.vote() == group.protocol_name:
        group.subscription = group.compute_subscription()
        if command.can_skip_assignment:
            is_leader = group.leader == member.member_id
            result = joined(group, member, skip_assignment=is_leader)
        else:
            # An old client that gets another member's id as the leader does not assign.
            result = joined(group, member, leader=old_leader)
        return together(fenced, Effects((group.metadata(),), (Reply(token, result),)))
    parked = _park(group, member, token)
    if group.state is ClassicState.STABLE:
        return together(fenced, parked, rebalance_or_complete(context, group))
    if group.state is ClassicState.COMPLETING_REBALANCE:
        return together(fenced, parked, prepare_rebalance(context, group))
    return together(fenced, parked, complete_if_all_joined(context, group))


def _fence(group: ClassicGroup, old: Member) -> GroupEffects:
    replies = []
    join_token, sync_token = group.take_join(old), group.take_sync(old)
    if join_token is not None:
        result = JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)
        replies.append(Reply(join_token, result))
    if sync_token is not None:
        replies.append(Reply(sync_token, SyncResult(error=ErrorCode.FENCED_INSTANCE_ID)))
    return Effects((), replies)
