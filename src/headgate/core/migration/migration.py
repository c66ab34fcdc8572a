"""The passage of a group from one type to the other: the records of both sides in one batch, and the timers.

A group is one thing at a time. Its new form is made aside, as a value; the records that say so take the old
form away and bring the new one, all or nothing, so that a log replays to the one or the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headgate.core.classic.commands import JoinResult, SyncResult
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.groups import ClassicGroups
from headgate.core.classic.rebalance import prepare_rebalance
from headgate.core.consumer.commands import Refusal
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.removal import group_tombstones, remove_members
from headgate.core.consumer.turn import ConsumerTurn
from headgate.core.contract import Effects, Reply
from headgate.core.effects import NOTHING, GroupEffects, together
from headgate.core.migration.downgrade import downgraded
from headgate.core.migration.policy import MigrationPolicy
from headgate.core.migration.upgrade import upgrade_refusal, upgraded
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.domain.settings import Settings
from headgate.records import Change, ConsumerRecord, GroupTombstone


class Migration:
    """What one shard does to move its groups between protocols."""

    __slots__ = ("_max_classic_size", "classic", "policy")

    def __init__(self, settings: Settings, classic: ClassicGroups) -> None:
        self.policy = MigrationPolicy(settings["group.consumer.migration.policy"])
        self.classic = classic
        self._max_classic_size: int = settings["group.max.size"]

    # --- upgrade ---

    def upgraded(self, turn: ConsumerTurn, group: ClassicGroup) -> ConsumerGroup | Refusal:
        """What a classic group with members becomes for a member of the new protocol; nothing is done yet."""
        refusal = upgrade_refusal(group, self.policy, turn.settings.max_size)
        return refusal or upgraded(group, turn.topics)

    def upgrade(
        self,
        turn: ConsumerTurn,
        group: ClassicGroup,
        converted: ConsumerGroup,
        joining: Iterable[ConsumerRecord],
    ) -> GroupEffects:
        """Make it so, with the records of the member that joins it; who waits is told to join again."""
        records: list[Change] = [GroupTombstone(group.group_id), *converted.records(), *joining]
        for record in joining:
            converted.apply(record)
        self._end(turn, group)
        for member_id, metadata in converted.members.items():
            if metadata.classic is not None:
                turn.start_session(group.group_id, member_id, metadata.classic.session_timeout_ms)
        return Effects(records, _tell_to_join_again(group))

    def _end(self, turn: ConsumerTurn, group: ClassicGroup) -> None:
        """Nothing more is due in the classic group."""
        classic_turn = self.classic.turn(turn.now)
        for member_id in (*group.members, *group.pending_joins):
            classic_turn.end_session(group, member_id)
        classic_turn.stop_waiting_for_joins(group)
        classic_turn.stop_waiting_for_syncs(group)

    # --- downgrade ---

    def remove(
        self, turn: ConsumerTurn, group: ConsumerGroup, member_ids: Collection[MemberId]
    ) -> GroupEffects:
        """Take members out of a consumer group; with only classic ones left it is a classic group again."""
        if member_ids and group.classic_members:
            staying = [group.member(one) for one in group.members if one not in member_ids]
            if self.may_downgrade(staying):
                _, effects = self.downgrade(turn, group, staying, leader=None)
                return effects
        return Effects(remove_members(turn, group, member_ids))

    def may_downgrade(self, members: Collection[Member]) -> bool:
        """Whether a group of these members is to be a classic one."""
        return (
            self.policy.allows_downgrade
            and 0 < len(members) <= self._max_classic_size
            and all(member.uses_classic_protocol for member in members)
        )

    def downgrade(
        self,
        turn: ConsumerTurn,
        group: ConsumerGroup,
        members: Collection[Member],
        *,
        leader: MemberId | None,
    ) -> tuple[ClassicGroup, GroupEffects]:
        """The classic group that these members make: led by one of them, or they begin a rebalance."""
        turn.stop_matching_patterns(group.group_id)
        for member_id in group.members:
            turn.forget(group.group_id, member_id)
        classic = downgraded(group, members, turn.topics, turn.system_time)
        classic.leader = leader
        records: list[Change] = [*group_tombstones(group), classic.metadata()]
        classic_turn = self.classic.turn(turn.now)
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
