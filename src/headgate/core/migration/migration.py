"""Migrate a group between protocols: the records of both sides in one batch, and the timers.

A group has one type at a time. Its new form is made separately, as a value. One batch of records removes the
old form and creates the new one, so that replaying a log gives one or the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headgate.core.classic.commands import JoinResult, SyncResult
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.groups import ClassicGroups
from headgate.core.classic.rebalance import prepare_rebalance
from headgate.core.consumer.commands import GroupRefusal
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.removal import group_tombstones, remove_members
from headgate.core.contract import Effects, Reply
from headgate.core.effects import NOTHING, GroupEffects, together
from headgate.core.migration.downgrade import downgraded
from headgate.core.migration.policy import MigrationPolicy
from headgate.core.migration.upgrade import upgrade_refusal, upgraded
from headgate.core.pause.paused import PausedGroups
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId
from headgate.domain.settings import Settings
from headgate.records import Change, ConsumerRecord, GroupTombstone


class Migration:
    """Migrates the groups of one shard between protocols."""

    __slots__ = ("_max_classic_size", "_paused", "classic", "policy")

    def __init__(self, settings: Settings, classic: ClassicGroups, paused: PausedGroups) -> None:
        self.policy = MigrationPolicy(settings["group.consumer.migration.policy"])
        self.classic = classic
        self._paused = paused
        self._max_classic_size: int = settings["group.max.size"]

    # --- upgrade ---

    def upgraded(self, context: ConsumerContext, group: ClassicGroup) -> ConsumerGroup | GroupRefusal:
        """Return the consumer group that a classic group becomes, or why it may not; changes nothing."""
        refusal = upgrade_refusal(group, self.policy, context.settings.max_size)
        return refusal or upgraded(group, context.topics)

    def upgrade(
        self,
        context: ConsumerContext,
        group: ClassicGroup,
        converted: ConsumerGroup,
        joining: Iterable[ConsumerRecord],
    ) -> GroupEffects:
        """Upgrade, with the records of the joining member; members with parked requests must rejoin."""
        records: list[Change] = [GroupTombstone(group.group_id), *converted.records(), *joining]
        for record in joining:
            converted.apply(record)
        self._end(context, group)
        for member_id, metadata in converted.members.items():
            if metadata.classic is not None:
                context.start_session(group.group_id, member_id, metadata.classic.session_timeout_ms)
        return Effects(records, _tell_to_join_again(group))

    def _end(self, context: ConsumerContext, group: ClassicGroup) -> None:
        """Cancel all timers of the classic group."""
        classic_turn = self.classic.context(context.now)
        for member_id in (*group.members, *group.pending_joins):
            classic_turn.end_session(group, member_id)
        classic_turn.stop_waiting_for_joins(group)
        classic_turn.stop_waiting_for_syncs(group)

    # --- downgrade ---

    def remove(
        self, context: ConsumerContext, group: ConsumerGroup, member_ids: Collection[MemberId]
    ) -> GroupEffects:
        """Remove members of a consumer group; downgrade it if only classic ones are left."""
        if member_ids and group.classic_members:
            staying = [group.member(one) for one in group.members if one not in member_ids]
            if self.may_downgrade(group.group_id, staying):
                _, effects = self.downgrade(context, group, staying, leader=None)
                return effects
        return Effects(remove_members(context, group, member_ids))

    def may_downgrade(self, group_id: GroupId, members: Collection[Member]) -> bool:
        """Return whether a group of these members becomes a classic group.

        With paused partitions it does not: the members of a classic group would assign them.
        """
        return not self._paused.of(group_id) and self.could_be_classic(members)

    def could_be_classic(self, members: Collection[Member]) -> bool:
        """Return whether these members can form a classic group, and the policy allows it."""
        return (
            self.policy.allows_downgrade
            and 0 < len(members) <= self._max_classic_size
            and all(member.uses_classic_protocol for member in members)
        )

    def downgrade(
        self,
        context: ConsumerContext,
        group: ConsumerGroup,
        members: Collection[Member],
        *,
        leader: MemberId | None,
    ) -> tuple[ClassicGroup, GroupEffects]:
        """Return the classic group of these members, led by `leader`, or in a rebalance without one; and the
        effects.
        """
        context.stop_matching_patterns(group.group_id)
        for member_id in group.members:
            context.forget(group.group_id, member_id)
        classic = downgraded(group, members, context.topics, context.system_time)
        classic.leader = leader
        records: list[Change] = [*group_tombstones(group), classic.metadata()]
        classic_turn = self.classic.context(context.now)
        for member in classic.members.values():
            classic_turn.start_session(classic, member)
        rebalance = prepare_rebalance(classic_turn, classic) if leader is None else NOTHING
        self.classic.live[group.group_id] = classic
        return classic, together(Effects(records), rebalance)


def _tell_to_join_again(group: ClassicGroup) -> list[Reply]:
    replies = []
    for member in group.members.values():
        join_token, sync_token = group.take_join(member), group.take_sync(member)
        if join_token is not None:
            result = JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            replies.append(Reply(join_token, result))
        if sync_token is not None:
            replies.append(Reply(sync_token, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS)))
    return replies
