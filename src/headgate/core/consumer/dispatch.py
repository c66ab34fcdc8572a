"""Dispatch the commands and deadlines of consumer groups to the modules that handle them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from headgate.core.classic.commands import LeaveGroup, LeaveResult, LeavingMember
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.groups import ClassicGroups
from headgate.core.consumer.admission import known_member
from headgate.core.consumer.commands import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerGroupConfigured,
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    GroupRefusal,
    HeartbeatAgain,
    HeartbeatResult,
    HeartbeatsAgain,
)
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.describe import describe
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.heartbeat import heartbeat, is_unchanged_and_stable
from headgate.core.consumer.pausing import ConsumerPausing, GroupDowngrade
from headgate.core.consumer.removal import away, begin_anew, is_past_last_epoch
from headgate.core.consumer.validation import invalid_heartbeat
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.events import MemberRemoved, RemovalReason
from headgate.core.groups import Groups
from headgate.core.kinds import Handler
from headgate.core.pause.contract import Pausing
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.records import ConsumerGroupMemberMetadata, ConsumerRecord, GroupTombstone, MemberState


class GroupMigration(GroupDowngrade, Protocol):
    """Migrates groups between the two protocols (`headgate.core.migration`)."""

    classic: ClassicGroups

    def upgraded(self, context: ConsumerContext, group: ClassicGroup) -> ConsumerGroup | GroupRefusal:
        """Return the consumer group that a classic group becomes, or why it may not; changes nothing."""
        ...

    def upgrade(
        self,
        context: ConsumerContext,
        group: ClassicGroup,
        converted: ConsumerGroup,
        joining: Iterable[ConsumerRecord],
    ) -> GroupEffects:
        """Upgrade, with the records of the joining member."""
        ...

    def remove(
        self, context: ConsumerContext, group: ConsumerGroup, member_ids: Collection[MemberId]
    ) -> GroupEffects:
        """Remove members of a consumer group; downgrade it if only classic ones are left."""
        ...


class ConsumerDispatch:
    """Handles the commands of consumer groups; the `headgate.core.kinds.GroupCommands` of their kind."""

    __slots__ = ("_all", "_groups", "_migration")
    TIMERS: ClassVar[Mapping[IntEnum, bool]] = {
        TimerKind.CONSUMER_SESSION: True,
        TimerKind.REVOCATION: True,
        TimerKind.MEMBER_JOIN: True,
        TimerKind.MEMBER_SYNC: True,
        TimerKind.PATTERNS: True,
    }

    def __init__(self, groups: ConsumerGroups, all_groups: Groups, migration: GroupMigration) -> None:
        self._groups = groups
        self._all = all_groups
        self._migration = migration

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        return {
            ConsumerHeartbeat: self.heartbeat,
            HeartbeatsAgain: self.heartbeats_again,
            DescribeConsumerGroup: self.describe,
            ConsumerGroupConfigured: self.configured,
        }

    def pausing(self) -> Pausing:
        """Return the object that pauses partitions of consumer groups."""
        return ConsumerPausing(self._groups, self._migration)

    def heartbeat(self, command: ConsumerHeartbeat, now: Millis, token: Token) -> GroupEffects:
        """Handle a join, a heartbeat or a leave."""
        if command.group_id in self._all.being_deleted:
            return answer(token, HeartbeatResult(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        outcome = self._outcome(command, now)
        if isinstance(outcome, GroupRefusal):
            return answer(token, HeartbeatResult(error=outcome.error, message=outcome.message))
        result, effects = outcome
        return Effects(effects.records, (*effects.replies, Reply(token, result)))

    def heartbeats_again(self, command: HeartbeatsAgain, now: Millis, token: Token) -> GroupEffects:
        """Handle repeated heartbeats: mostly nothing changed, and the answers are the last ones."""
        return answer(token, [self._staying(again, now) for again in command.heartbeats])

    def _staying(self, again: HeartbeatAgain, now: Millis) -> HeartbeatResult | None:
        before, answered = again
        group_id = before.group_id
        groups = self._groups
        group = groups.find(group_id)
        if answered is None or group is None or group_id not in groups.verified:
            return None
        settings = groups.settings_of(group_id)
        if answered.heartbeat_interval_ms != settings.heartbeat_interval_ms or not is_unchanged_and_stable(
            group, before
        ):
            return None
        groups.context(group_id, now).start_session(group_id, before.member_id)
        return answered

    def _outcome(
        self, command: ConsumerHeartbeat, now: Millis
    ) -> tuple[HeartbeatResult, GroupEffects] | GroupRefusal:
        group_id = command.group_id
        context = self._groups.context(group_id, now)
        refusal = invalid_heartbeat(command, context.settings.assignors)
        if refusal is not None:
            return refusal
        group = self._groups.find(group_id)
        if group is None:
            return self._first_heartbeat(context, command)
        if command.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return self._leave(context, group, command)
        outcome = heartbeat(context, group, command, is_verified=group_id in self._groups.verified)
        if isinstance(outcome, GroupRefusal):
            return outcome
        self._groups.verified.add(group_id)
        result, records = outcome
        if is_past_last_epoch(group, records):
            message = f"Group {group_id} begins anew, as there is no later epoch."
            refused = HeartbeatResult(error=ErrorCode.UNKNOWN_MEMBER_ID, message=message)
            return refused, Effects(begin_anew(context, group))
        return result, Effects(records)

    def _first_heartbeat(
        self, context: ConsumerContext, command: ConsumerHeartbeat
    ) -> tuple[HeartbeatResult, GroupEffects] | GroupRefusal:
        """Create or upgrade the group for its first member."""
        group_id = command.group_id
        classic_groups = self._migration.classic
        if not command.is_joining or self._all.type_of(group_id) not in (None, classic_groups.NAME):
            return self._not_found(group_id)
        classic = classic_groups.non_empty(group_id)
        group = ConsumerGroup(group_id) if classic is None else self._migration.upgraded(context, classic)
        if isinstance(group, GroupRefusal):
            return group
        outcome = heartbeat(context, group, command, is_verified=False)
        if isinstance(outcome, GroupRefusal):
            return outcome
        result, records = outcome
        if classic is not None:
            return result, self._migration.upgrade(context, classic, group, records)
        given_up = (GroupTombstone(group_id),) if classic_groups.holds(group_id) else ()
        return result, Effects([*given_up, *records])

    def _leave(
        self, context: ConsumerContext, group: ConsumerGroup, command: ConsumerHeartbeat
    ) -> tuple[HeartbeatResult, GroupEffects] | GroupRefusal:
        member = known_member(group, command.member_id, command.instance_id)
        if isinstance(member, GroupRefusal):
            return member
        result = HeartbeatResult(member_id=member.member_id, member_epoch=command.member_epoch)
        if command.member_epoch == LEAVING_FOR_A_WHILE:
            return result, Effects(away(context, group, member))
        _report_removed(context, group, member.metadata, RemovalReason.LEFT)
        return result, self._migration.remove(context, group, [member.member_id])

    def _not_found(self, group_id: GroupId) -> GroupRefusal:
        what = "not found" if self._all.find(group_id) is None else "is not a consumer group"
        return GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def describe(self, command: DescribeConsumerGroup, now: Millis, token: Token) -> GroupEffects:
        """Describe a group."""
        if not command.group_id:
            return answer(token, ErrorCode.INVALID_GROUP_ID)
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, self._not_found(command.group_id))
        assignors = self._groups.settings_of(command.group_id).assignors
        return answer(token, describe(group, self._groups.topics, assignors))

    def configured(self, command: ConsumerGroupConfigured, now: Millis, token: Token) -> GroupEffects:
        """Replace the overrides of a group."""
        self._groups.configure(command.group_id, command.settings)
        return answer(token, ErrorCode.NONE)

    def leave(self, group: ConsumerGroup, command: LeaveGroup, now: Millis, token: Token) -> GroupEffects:
        """Remove members for an administrator or a client of the classic protocol."""
        outcomes: list[tuple[LeavingMember, ErrorCode]] = []
        gone: dict[MemberId, str | None] = {}
        for leaving in command.members:
            member_id, error = _leaving_member(group, leaving)
            if not error and member_id in gone:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            if not error:
                gone[member_id] = leaving.reason
            outcomes.append((leaving, error))
        context = self._groups.context(group.group_id, now)
        for member_id, reason in gone.items():
            _report_removed(context, group, group.members[member_id], RemovalReason.LEFT, reason)
        removal = self._migration.remove(context, group, list(gone))
        return together(removal, answer(token, LeaveResult(members=tuple(outcomes))))

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """Handle a deadline of a member or of the group's regular expressions."""
        group = self._groups.find(GroupId(timer.group_id))
        if group is None:
            return NOTHING
        context = self._groups.context(group.group_id, now)
        if timer.kind is TimerKind.PATTERNS:
            records = self._groups.patterns.match(context, group)
            return Effects(begin_anew(context, group) if is_past_last_epoch(group, records) else records)
        member = group.find_member(MemberId(timer.member_id))
        if member is None or not _is_late(member, timer.kind):
            return NOTHING
        reason = _REASONS.get(timer.kind, RemovalReason.SESSION_TIMEOUT)
        _report_removed(context, group, member.metadata, reason)
        return self._migration.remove(context, group, [member.member_id])


_REASONS: Mapping[IntEnum, RemovalReason] = {
    TimerKind.REVOCATION: RemovalReason.DID_NOT_REVOKE,
    TimerKind.MEMBER_JOIN: RemovalReason.DID_NOT_REJOIN,
    TimerKind.MEMBER_SYNC: RemovalReason.DID_NOT_SYNC,
}


def _report_removed(
    context: ConsumerContext,
    group: ConsumerGroup,
    member: ConsumerGroupMemberMetadata,
    reason: RemovalReason,
    client_reason: str | None = None,
) -> None:
    client = (member.client_id, member.client_host)
    context.events.report(MemberRemoved(group.group_id, member.member_id, *client, reason, client_reason))


def _is_late(member: Member, kind: IntEnum) -> bool:
    """Return whether a member whose timer expired must be removed.

    A classic member's timers are cancelled, and session timers restarted, when the member acts in time.
    """
    if kind is TimerKind.REVOCATION:
        return member.current.state is MemberState.UNREVOKED_PARTITIONS
    return True


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> tuple[MemberId, ErrorCode]:
    """Return the member to remove: by its instance id if it has one, which makes the member id optional."""
    member_id, instance_id, _ = leaving
    if instance_id is None:
        error = ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
        return member_id, error
    static = group.find_static(instance_id)
    if static is None:
        return member_id, ErrorCode.UNKNOWN_MEMBER_ID
    if member_id and member_id != static.member_id:
        return member_id, ErrorCode.FENCED_INSTANCE_ID
    return static.member_id, ErrorCode.NONE
