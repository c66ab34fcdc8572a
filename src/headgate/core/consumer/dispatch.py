"""The commands and deadlines of consumer groups, each handed to the module that knows what to do."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.classic.commands import LeaveGroup, LeaveResult, LeavingMember
from headgate.core.consumer.commands import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerGroupConfigured,
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    HeartbeatResult,
    Refusal,
)
from headgate.core.consumer.describe import describe
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.heartbeat import heartbeat
from headgate.core.consumer.patterns import match_topics
from headgate.core.consumer.removal import (
    leave,
    on_revocation_deadline,
    on_session_deadline,
    remove_members,
)
from headgate.core.consumer.turn import ConsumerTurn
from headgate.core.consumer.validation import invalid_heartbeat
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer
from headgate.core.groups import Groups, GroupType
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.records import Change, GroupTombstone


class ConsumerDispatch:
    """What a shard does for its consumer groups."""

    __slots__ = ("_all", "_groups")

    def __init__(self, groups: ConsumerGroups, all_groups: Groups) -> None:
        self._groups = groups
        self._all = all_groups

    def heartbeat(self, command: ConsumerHeartbeat, now: Millis, token: Token) -> GroupEffects:
        """Join, stay or leave."""
        outcome = self._outcome(command, now)
        if isinstance(outcome, Refusal):
            return answer(token, HeartbeatResult(error=outcome.error, message=outcome.message))
        result, records = outcome
        return Effects(records, (Reply(token, result),))

    def _outcome(
        self, command: ConsumerHeartbeat, now: Millis
    ) -> tuple[HeartbeatResult, Sequence[Change]] | Refusal:
        group_id = command.group_id
        turn = self._groups.turn(group_id, now)
        refusal = invalid_heartbeat(command, turn.settings.assignors)
        if refusal is not None:
            return refusal
        group = self._groups.find(group_id)
        if group is None:
            return self._first_heartbeat(turn, command)
        if command.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return leave(turn, group, command)
        outcome = heartbeat(turn, group, command, is_verified=group_id in self._groups.verified)
        if not isinstance(outcome, Refusal):
            self._groups.verified.add(group_id)
        return outcome

    def _first_heartbeat(
        self, turn: ConsumerTurn, command: ConsumerHeartbeat
    ) -> tuple[HeartbeatResult, Sequence[Change]] | Refusal:
        """A group begins with its first member, also in the place of an empty one of another type."""
        group_id = command.group_id
        if not command.is_joining or self._all.has_classic_members(group_id):
            return self._not_found(group_id)
        outcome = heartbeat(turn, ConsumerGroup(group_id), command, is_verified=False)
        if isinstance(outcome, Refusal) or not self._all.has_classic_record(group_id):
            return outcome
        result, records = outcome
        return result, [GroupTombstone(group_id), *records]

    def _not_found(self, group_id: GroupId) -> Refusal:
        is_other = self._all.type_of(group_id) not in (None, GroupType.CONSUMER)
        what = "is not a consumer group" if is_other else "not found"
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def describe(self, command: DescribeConsumerGroup, now: Millis, token: Token) -> GroupEffects:
        """What there is to know of a group."""
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, self._not_found(command.group_id))
        assignors = self._groups.settings_of(command.group_id).assignors
        return answer(token, describe(group, self._groups.topics, assignors))

    def configured(self, command: ConsumerGroupConfigured, now: Millis, token: Token) -> GroupEffects:
        """A group has other settings of its own."""
        self._groups.configure(command.group_id, command.settings)
        return answer(token, ErrorCode.NONE)

    def leave(self, group: ConsumerGroup, command: LeaveGroup, now: Millis, token: Token) -> GroupEffects:
        """An administrator, or a client of the classic protocol, removes members."""
        outcomes, gone = [], []
        for leaving in command.members:
            member_id, error = _leaving_member(group, leaving)
            if not error and member_id in gone:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            if not error:
                gone.append(member_id)
            outcomes.append((leaving, error))
        records = remove_members(self._groups.turn(group.group_id, now), group, gone)
        return Effects(records, (Reply(token, LeaveResult(members=tuple(outcomes))),))

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """A deadline of a member or of the group's regular expressions has come."""
        group = self._groups.find(GroupId(timer.group_id))
        if group is None:
            return NOTHING
        turn = self._groups.turn(group.group_id, now)
        match timer.kind:
            case TimerKind.CONSUMER_SESSION:
                return Effects(on_session_deadline(turn, group, MemberId(timer.member_id)))
            case TimerKind.REVOCATION:
                return Effects(on_revocation_deadline(turn, group, MemberId(timer.member_id)))
            case _:
                return Effects(match_topics(turn, group))


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> tuple[MemberId, ErrorCode]:
    """The member that is to go; by its instance id where it does not say its own."""
    if not leaving.member_id:
        static = None if leaving.instance_id is None else group.find_static(leaving.instance_id)
        if static is None:
            return leaving.member_id, ErrorCode.UNKNOWN_MEMBER_ID
        return static.member_id, ErrorCode.NONE
    member = group.find_member(leaving.member_id)
    if member is None:
        return leaving.member_id, ErrorCode.UNKNOWN_MEMBER_ID
    if leaving.instance_id is not None and leaving.instance_id != member.metadata.instance_id:
        return leaving.member_id, ErrorCode.UNKNOWN_MEMBER_ID
    return leaving.member_id, ErrorCode.NONE
