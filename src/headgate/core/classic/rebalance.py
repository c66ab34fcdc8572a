"""A rebalance, from the moment it is needed until a new generation begins.

It waits for every known member to join again, at most as long as the most patient one allows; who is dynamic
and did not come is removed, who is static stays. An empty group waits otherwise: for a fixed delay, prolonged
while new members keep coming, so that a group that starts does not rebalance once for each of them.
"""

from __future__ import annotations

from headgate.core.classic.commands import NO_MEMBER_ID, JoinResult, SyncResult
from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.classic.state import MAY_REBALANCE, ClassicState
from headgate.core.classic.turn import Turn
from headgate.core.contract import Effects, Reply
from headgate.core.effects import NOTHING, GroupEffects, together
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId

LAST_GENERATION = 2**31 - 1
"""Generations are 32 bits wide in records and on the wire."""
LEAST_WAIT_WITHOUT_JOINS_MS = 1000
"""A group that waits for static members alone, and none comes, is looked at again after this time at least.

Nothing is kept waiting by it: the first member that joins completes the rebalance, or waits for the others.
"""


def rebalance_or_complete(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """The members changed: begin a rebalance, or see whether the one under way is complete."""
    if group.state in MAY_REBALANCE:
        return prepare_rebalance(turn, group)
    return complete_if_all_joined(turn, group)


def prepare_rebalance(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """Ask every member to join again. Whoever waits for an assignment of this generation gets none."""
    refused = NOTHING
    if group.state is ClassicState.COMPLETING_REBALANCE:
        refused = _refuse_syncs(turn, group)
    turn.stop_waiting_for_syncs(group)
    was_empty = group.state is ClassicState.EMPTY
    group.become(ClassicState.PREPARING_REBALANCE, turn.system_time)
    if was_empty:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.has_new_members = False
        turn.wait_for_joins(group, delay_ms)
        return refused
    group.initial_remaining_ms = None
    if group.has_all_joined:
        return together(refused, complete_join(turn, group))
    turn.wait_for_joins(group, group.rebalance_timeout_ms)
    return refused


def _refuse_syncs(turn: Turn, group: ClassicGroup) -> GroupEffects:
    replies = []
    for member in group.members.values():
        member.assignment = b""
        token = group.take_sync(member)
        if token is not None:
            replies.append(Reply(token, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS)))
            turn.start_session(group, member)
    return Effects((), replies)


def complete_if_all_joined(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """Begin the next generation if nobody is missing; a group that was empty waits its time all the same."""
    if group.state is not ClassicState.PREPARING_REBALANCE or group.initial_remaining_ms is not None:
        return NOTHING
    return complete_join(turn, group) if group.has_all_joined else NOTHING


def on_join_deadline(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """The time to wait for joins is over, unless an empty group got new members meanwhile and may wait on."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return NOTHING
    remaining_ms = group.initial_remaining_ms or 0
    delay_ms = min(turn.settings.initial_rebalance_delay_ms, remaining_ms)
    if group.has_new_members and delay_ms > 0:
        group.initial_remaining_ms = remaining_ms - delay_ms
        group.has_new_members = False
        turn.wait_for_joins(group, delay_ms)
        return NOTHING
    return complete_join(turn, group)


def complete_join(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """Begin the next generation with those who joined and the static members."""
    turn.stop_waiting_for_joins(group)
    group.initial_remaining_ms = None
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.instance_id is None:
            group.remove(member.member_id)
            turn.end_session(group, member.member_id)
    if group.members and not _elect_leader(group):
        # Static members alone, and none of them came: there is nobody to begin a generation with.
        turn.wait_for_joins(group, max(group.rebalance_timeout_ms, LEAST_WAIT_WITHOUT_JOINS_MS))
        return NOTHING
    if group.generation >= LAST_GENERATION:
        return _begin_anew(turn, group)
    group.generation += 1
    group.pending_syncs.clear()
    if not group.members:
        group.protocol_name = None
        group.subscription = group.compute_subscription()
        group.become(ClassicState.EMPTY, turn.system_time)
        return Effects((group.metadata(),))
    group.protocol_name = group.vote()
    group.subscription = group.compute_subscription()
    group.become(ClassicState.COMPLETING_REBALANCE, turn.system_time)
    replies = []
    for member in group.members.values():
        token = group.take_join(member)
        if token is not None:
            replies.append(Reply(token, joined(group, member)))
        turn.start_session(group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    turn.wait_for_syncs(group)
    return Effects((), replies)


def _begin_anew(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """After the last generation comes the first one, and nobody may be believed who was in that before.

    So everybody is to join under a new member id. The group is empty until somebody has.
    """
    replies = []
    for member_id in list(group.members):
        turn.end_session(group, member_id)
        refused = JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        replies += [Reply(token, refused) for token in group.remove(member_id)]
    group.generation = 0
    group.protocol_name = None
    group.subscription = group.compute_subscription()
    group.become(ClassicState.EMPTY, turn.system_time)
    return Effects((group.metadata(),), replies)


def _elect_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it joined, else take the first who did; whether there is one."""
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
    """What a member of the current generation is told when it joins; `leader` where that is not the truth."""
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


def on_sync_deadline(turn: Turn, group: ClassicGroup) -> GroupEffects:
    """Members that have not asked for their assignment by now are removed."""
    if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not group.pending_syncs:
        return NOTHING
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
        turn.end_session(group, member_id)
    return prepare_rebalance(turn, group)
