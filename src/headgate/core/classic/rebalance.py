"""A rebalance, from its start to the next generation.

It waits until every known member has rejoined, at most for the largest rebalance timeout. Dynamic members
that did not rejoin are removed; static ones stay. An empty group instead waits for a fixed delay, which is
extended while new members join, so that a starting group does not rebalance for each of them.
"""

from __future__ import annotations

from headgate.core.classic.commands import NO_MEMBER_ID, JoinResult, SyncResult
from headgate.core.classic.context import ClassicContext
from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.classic.state import MAY_REBALANCE, ClassicState
from headgate.core.contract import Effects, Reply
from headgate.core.effects import NOTHING, GroupEffects, together
from headgate.core.events import GroupRebalanced, RemovalReason
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId

LAST_GENERATION = 2**31 - 1
"""Generations are 32 bits wide in records and on the wire."""
LEAST_WAIT_WITHOUT_JOINS_MS = 1000
"""Minimum time after which a group of static members, none of which rejoined, is checked again, in ms.

It delays no request: the first member that joins completes the rebalance, or waits for the others.
"""


def rebalance_or_complete(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Start a rebalance after a change of members, or complete the one in progress if possible."""
    if group.state in MAY_REBALANCE:
        return prepare_rebalance(context, group)
    return complete_if_all_joined(context, group)


def prepare_rebalance(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Start a rebalance: every member must rejoin. Parked syncs of this generation are refused."""
    refused = NOTHING
    if group.state is ClassicState.COMPLETING_REBALANCE:
        refused = _refuse_syncs(context, group)
    context.stop_waiting_for_syncs(group)
    was_empty = group.state is ClassicState.EMPTY
    group.become(ClassicState.PREPARING_REBALANCE, context.system_time)
    if was_empty:
        delay_ms = context.settings.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.has_new_members = False
        context.wait_for_joins(group, delay_ms)
        return refused
    group.initial_remaining_ms = None
    if group.has_all_joined:
        return together(refused, complete_join(context, group))
    context.wait_for_joins(group, group.rebalance_timeout_ms)
    return refused


def _refuse_syncs(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    replies = []
    for member in group.members.values():
        member.assignment = b""
        token = group.take_sync(member)
        if token is not None:
            replies.append(Reply(token, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS)))
            context.start_session(group, member)
    return Effects((), replies)


def complete_if_all_joined(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Start the next generation if all members have joined; the initial delay of an empty group is kept."""
    if group.state is not ClassicState.PREPARING_REBALANCE or group.initial_remaining_ms is not None:
        return NOTHING
    return complete_join(context, group) if group.has_all_joined else NOTHING


def on_join_deadline(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """End the wait for joins, or extend the initial delay if new members joined meanwhile."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return NOTHING
    remaining_ms = group.initial_remaining_ms or 0
    delay_ms = min(context.settings.initial_rebalance_delay_ms, remaining_ms)
    if group.has_new_members and delay_ms > 0:
        group.initial_remaining_ms = remaining_ms - delay_ms
        group.has_new_members = False
        context.wait_for_joins(group, delay_ms)
        return NOTHING
    return complete_join(context, group)


def complete_join(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Start the next generation with the members that joined and the static members."""
    context.stop_waiting_for_joins(group)
    group.initial_remaining_ms = None
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.instance_id is None:
            group.remove(member.member_id)
            context.end_session(group, member.member_id)
            context.removed(group, member, RemovalReason.DID_NOT_REJOIN)
    if group.members and not _elect_leader(group):
        # Only static members are left, and none rejoined: no generation can start.
        context.wait_for_joins(group, max(group.rebalance_timeout_ms, LEAST_WAIT_WITHOUT_JOINS_MS))
        return NOTHING
    if group.generation >= LAST_GENERATION:
        return _begin_anew(context, group)
    group.generation += 1
    group.pending_syncs.clear()
    if not group.members:
        group.protocol_name = None
        group.subscription = group.compute_subscription()
        group.become(ClassicState.EMPTY, context.system_time)
        return Effects((group.metadata(),))
    group.protocol_name = group.vote()
    group.subscription = group.compute_subscription()
    waited_ms = max(0, context.system_time - group.state_timestamp)
    context.events.report(GroupRebalanced(group.group_id, group.generation, len(group.members), waited_ms))
    group.become(ClassicState.COMPLETING_REBALANCE, context.system_time)
    replies = []
    for member in group.members.values():
        token = group.take_join(member)
        if token is not None:
            replies.append(Reply(token, joined(group, member)))
        context.start_session(group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    context.wait_for_syncs(group)
    return Effects((), replies)


def _begin_anew(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Start again with generation 1 after the last one; no member of a former generation may be valid.

    All members are removed and must join with new ids. The group is empty until one has joined.
    """
    replies = []
    for member_id in list(group.members):
        context.end_session(group, member_id)
        refused = JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        replies += [Reply(token, refused) for token in group.remove(member_id)]
    group.generation = 0
    group.protocol_name = None
    group.subscription = group.compute_subscription()
    group.become(ClassicState.EMPTY, context.system_time)
    return Effects((group.metadata(),), replies)


def _elect_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it has rejoined, else take the first member that has. Return whether there is
    one.
    """
    if group.leader is not None:
        leader = group.members.get(group.leader)
        if leader is not None and leader.awaiting_join is not None:
            return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader = member.member_id
            return True
    return False


def joined(
    group: ClassicGroup, member: Member, *, leader: MemberId | None = None, skip_assignment: bool = False
) -> JoinResult:
    """Return the join result of a member of the current generation; `leader` replaces the true leader."""
    told_leader = leader or group.leader or NO_MEMBER_ID
    return JoinResult(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=told_leader,
        members=group.joined_members() if told_leader == member.member_id else (),
        skip_assignment=skip_assignment,
    )


def on_sync_deadline(context: ClassicContext, group: ClassicGroup) -> GroupEffects:
    """Remove the members that have not synced in time."""
    if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not group.pending_syncs:
        return NOTHING
    for member in [group.members[member_id] for member_id in group.pending_syncs]:
        group.remove(member.member_id)
        context.end_session(group, member.member_id)
        context.removed(group, member, RemovalReason.DID_NOT_SYNC)
    return prepare_rebalance(context, group)
