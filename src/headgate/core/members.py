"""The commands of classic clients: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroup.

Their group is mostly a classic one. A consumer group with members accepts classic members too
(`headgate.core.migration.classic_members`), and so does one with paused partitions; an empty one without any
is replaced by a classic group when a classic member joins.

A client without a member id gets one and joins again with it (KIP-394). A classic group keeps that id among
its pending joins. For a consumer group a deadline keeps it (`TimerKind.MEMBER_ID`), so that a client that
never joins does not change the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any, ClassVar

from headgate.core.classic.commands import (
    DescribeGroup,
    Heartbeat,
    Heartbeats,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    SyncGroup,
    SyncResult,
)
from headgate.core.classic.context import ClassicContext
from headgate.core.classic.describe import describe
from headgate.core.classic.group import ClassicGroup, positive_rebalance_timeout
from headgate.core.classic.groups import ClassicGroups
from headgate.core.classic.join import invalid_join, join
from headgate.core.classic.membership import heartbeat, leave, on_session_deadline
from headgate.core.classic.rebalance import joined as as_member
from headgate.core.classic.rebalance import on_join_deadline, on_sync_deadline
from headgate.core.classic.sync import sync
from headgate.core.consumer.dispatch import ConsumerDispatch
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.removal import group_tombstones
from headgate.core.contract import Effects, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.groups import Groups
from headgate.core.kinds import Handler
from headgate.core.migration import classic_members
from headgate.core.migration.classic_members import Joined
from headgate.core.migration.migration import Migration
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.records.consumer_model import NEVER


class MemberDispatch:
    """Handles the commands of classic members, whatever group they are in.

    The `headgate.core.kinds.GroupCommands` of classic groups.
    """

    __slots__ = ("_classic_groups", "_consumer", "_consumer_groups", "_groups", "_migration")
    TIMERS: ClassVar[Mapping[IntEnum, bool]] = {
        TimerKind.SESSION: False,
        TimerKind.JOIN: False,
        TimerKind.SYNC: False,
        TimerKind.MEMBER_ID: False,
    }

    def __init__(
        self,
        groups: Groups,
        classic: ClassicGroups,
        consumer: ConsumerGroups,
        commands: ConsumerDispatch,
        migration: Migration,
    ) -> None:
        self._groups = groups
        self._classic_groups = classic
        self._consumer_groups = consumer
        self._consumer = commands
        self._migration = migration

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        return {
            Heartbeat: self.heartbeat,
            Heartbeats: self.heartbeats,
            JoinGroup: self.join,
            SyncGroup: self.sync,
            LeaveGroup: self.leave,
            DescribeGroup: self.describe,
        }

    def _turn(self, now: Millis) -> ClassicContext:
        return self._classic_groups.context(now)

    # --- joining ---

    def join(self, command: JoinGroup, now: Millis, token: Token) -> GroupEffects:
        """Join or rejoin a group."""
        if command.group_id in self._groups.being_deleted:
            return answer(token, JoinResult(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        context = self._turn(now)
        error = invalid_join(command, context.settings)
        if error:
            return answer(token, JoinResult(error=error, member_id=command.member_id))
        timeout_ms = positive_rebalance_timeout(command.rebalance_timeout_ms, command.session_timeout_ms)
        if timeout_ms != command.rebalance_timeout_ms:
            command = replace(command, rebalance_timeout_ms=timeout_ms)
        before = self._consumer_groups.find(command.group_id)
        if before is not None:
            if before.is_empty and not self._consumer_groups.paused.of(command.group_id):
                return self._join_in_place_of(before, context, command, token)
            return self._join_consumer_group(before, command, now, token)
        group_type = self._groups.type_of(command.group_id)
        is_new = group_type is None
        if not is_new and group_type != self._classic_groups.NAME:
            return answer(token, JoinResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if is_new and command.member_id:
            return self._unknown_member(command, token)
        group = self._classic_groups.look(command.group_id) or ClassicGroup(
            command.group_id, context.system_time
        )
        if _take_given_id(context, command):
            group.pending_joins[command.member_id] = None
            context.expect(group.group_id, command.member_id, command.session_timeout_ms)
        nobody_yet = group.metadata() if is_new else None
        effects = join(context, group, command, token)
        self._classic_groups.settle(group)
        if nobody_yet is not None and not group.is_idle:
            return together(Effects((nobody_yet,)), effects)
        return effects

    def _unknown_member(self, command: JoinGroup, token: Token) -> GroupEffects:
        return answer(token, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=command.member_id))

    def _join_in_place_of(
        self, before: ConsumerGroup, context: ClassicContext, command: JoinGroup, token: Token
    ) -> GroupEffects:
        """Replace an empty consumer group by a classic one for its first member.

        The record of the classic group has the time since which it is empty, so the offsets continue to age.
        A client that only gets its id leaves it a consumer group. (Kafka converts it then already.)
        """
        since = before.empty_since
        group = ClassicGroup(command.group_id, context.system_time if since == NEVER else since)
        group.protocol_type = command.protocol_type
        nobody_yet = group.metadata()
        if command.member_id:
            if not _take_given_id(context, command):
                return self._unknown_member(command, token)
            group.pending_joins[command.member_id] = None
        effects = join(context, group, command, token)
        if group.members:
            self._classic_groups.settle(group)
            return together(Effects((*group_tombstones(before), nobody_yet)), effects)
        for member_id in group.pending_joins:
            context.end_session(group, member_id)
            _remember_given_id(context, command, member_id)
        return effects

    def _join_consumer_group(
        self, group: ConsumerGroup, command: JoinGroup, now: Millis, token: Token
    ) -> GroupEffects:
        if not self._migration.policy.allows_mixed_groups:
            return answer(token, JoinResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        context = self._consumer_groups.context(group.group_id, now)
        verified = self._consumer_groups.verified
        joined = classic_members.join(
            context,
            group,
            command,
            is_verified=group.group_id in verified,
            is_id_given=_take_given_id(self._turn(now), command),
        )
        if isinstance(joined, JoinResult):
            if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
                _remember_given_id(self._turn(now), command, joined.member_id)
            return answer(token, joined)
        members = [*joined.others(group), joined.member]
        if joined.was_of_the_new_protocol(group) and self._migration.may_downgrade(group.group_id, members):
            return self._join_downgraded(group, joined, command, now, token)
        classic_members.start_waiting_for_sync(context, joined)
        verified.add(group.group_id)
        return together(Effects(joined.records), answer(token, joined.result()))

    def _join_downgraded(
        self, group: ConsumerGroup, joined: Joined, command: JoinGroup, now: Millis, token: Token
    ) -> GroupEffects:
        """Downgrade the group: its last member of the consumer protocol has become a classic one.

        If partitions must be reassigned, the member takes part in the rebalance that does it. Otherwise it
        becomes the leader without assigning, so that a leader reacts to changes of topics. (In Kafka there is
        none.)
        """
        context = self._consumer_groups.context(group.group_id, now)
        others = joined.others(group)
        member_id = joined.member.member_id
        if joined.leaves_settled(group):
            members = [*others, joined.member]
            classic, effects = self._migration.downgrade(context, group, members, leader=member_id)
            result = joined.result()
            if command.can_skip_assignment:
                result = as_member(classic, classic.members[member_id], skip_assignment=True)
            return together(effects, answer(token, result))
        members = [*others, Member(joined.member.metadata, joined.admitted.member.current)]
        classic, effects = self._migration.downgrade(context, group, members, leader=None)
        rejoined = join(self._turn(now), classic, replace(command, member_id=member_id), token)
        self._classic_groups.settle(classic)
        return together(effects, rejoined)

    # --- syncing, staying and leaving ---

    def sync(self, command: SyncGroup, now: Millis, token: Token) -> GroupEffects:
        """Return the assignment."""
        consumer_group = self._consumer_groups.find(command.group_id)
        if consumer_group is not None:
            context = self._consumer_groups.context(command.group_id, now)
            return answer(token, classic_members.sync(context, consumer_group, command))
        error, group = self._live(command.group_id)
        if group is None:
            return answer(token, SyncResult(error=error))
        effects = sync(self._turn(now), group, command, token)
        self._classic_groups.settle(group)
        return effects

    def heartbeat(self, command: Heartbeat, now: Millis, token: Token) -> GroupEffects:
        """Restart a member's session timer."""
        return answer(token, self._heartbeat(command, now))

    def heartbeats(self, command: Heartbeats, now: Millis, token: Token) -> GroupEffects:
        """Handle each heartbeat; they write no records, so one does not depend on the others."""
        return answer(token, [self._heartbeat(one, now) for one in command.heartbeats])

    def _heartbeat(self, command: Heartbeat, now: Millis) -> ErrorCode:
        consumer_group = self._consumer_groups.find(command.group_id)
        if consumer_group is not None:
            context = self._consumer_groups.context(command.group_id, now)
            is_verified = self._consumer_groups.verify(consumer_group)
            return classic_members.heartbeat(context, consumer_group, command, is_verified=is_verified)
        error, group = self._live(command.group_id)
        if group is None:
            return error
        return heartbeat(self._turn(now), group, command)

    def leave(self, command: LeaveGroup, now: Millis, token: Token) -> GroupEffects:
        """Remove members."""
        consumer_group = self._consumer_groups.find(command.group_id)
        if consumer_group is not None:
            return self._consumer.leave(consumer_group, command, now, token)
        error, group = self._live(command.group_id)
        if group is None:
            if error is ErrorCode.INVALID_GROUP_ID:
                return answer(token, LeaveResult(error=error))
            return answer(token, LeaveResult(members=tuple((one, error) for one in command.members)))
        effects = leave(self._turn(now), group, command, token)
        self._classic_groups.settle(group)
        return effects

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """Handle a deadline of a classic group or of one of its members."""
        group = self._classic_groups.live.get(GroupId(timer.group_id))
        if group is None or timer.kind is TimerKind.MEMBER_ID:
            return NOTHING  # a given member id has no state besides its deadline
        context = self._turn(now)
        match timer.kind:
            case TimerKind.SESSION:
                effects = on_session_deadline(context, group, MemberId(timer.member_id))
            case TimerKind.JOIN:
                effects = on_join_deadline(context, group)
            case _:
                effects = on_sync_deadline(context, group)
        self._classic_groups.settle(group)
        return effects

    def pausing(self) -> None:
        """The members assign the partitions: no coordinator can take one out."""

    def describe(self, command: DescribeGroup, now: Millis, token: Token) -> GroupEffects:
        """Describe a group; one that only commits is an empty classic group."""
        group_id = command.group_id
        group = self._classic_groups.look(group_id)
        if group is None and self._groups.type_of(group_id) == self._classic_groups.NAME:
            group = ClassicGroup(group_id, now)
        return answer(token, ErrorCode.GROUP_ID_NOT_FOUND if group is None else describe(group))

    def _live(self, group_id: GroupId) -> tuple[ErrorCode, ClassicGroup | None]:
        """Return a group with members; if there is none, the error for its members."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, None
        return ErrorCode.UNKNOWN_MEMBER_ID, self._classic_groups.live.get(group_id)


def _remember_given_id(context: ClassicContext, command: JoinGroup, member_id: MemberId) -> None:
    timer = Timer(TimerKind.MEMBER_ID, command.group_id, member_id)
    context.deadlines.set(timer, Millis(context.now + command.session_timeout_ms))


def _take_given_id(context: ClassicContext, command: JoinGroup) -> bool:
    """Return whether a consumer group gave the client its id, and this is its first join with it."""
    timer = Timer(TimerKind.MEMBER_ID, command.group_id, command.member_id)
    is_given = bool(command.member_id) and context.deadlines.due_at(timer) is not None
    if is_given:
        context.deadlines.cancel(timer)
    return is_given
