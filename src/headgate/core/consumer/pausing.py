"""What a consumer group does when partitions of it are paused or resumed.

No target that is in force contains a paused partition: with the record of a pause that takes something out of
the target, and of a resume that gives something back, comes a new target in a new epoch of the group. So the
owners of paused partitions release them step by step as they release any others (`reconcile.py`), and nobody
is given one.

A group that is paused stays a consumer group, also when only members of the classic protocol are left or join
it. When nothing is paused any more it becomes what it would have become.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.removal import LAST_EPOCH, begin_anew, released_while_away
from headgate.core.consumer.target import GroupAfter, make_target
from headgate.core.consumer.turn import ConsumerTurn
from headgate.core.contract import Effects
from headgate.core.effects import GroupEffects
from headgate.core.pause.paused import added
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records import ConsumerRecord, PausedPartitions

_NOBODY: Mapping[int, MemberId] = {}


class WayBack(Protocol):
    """The way of a consumer group to a classic one (`headgate.core.migration`)."""

    def could_be_classic(self, members: Collection[Member]) -> bool:
        """Whether these members can make a classic group, and the policy wants it."""
        ...

    def downgrade(
        self,
        turn: ConsumerTurn,
        group: ConsumerGroup,
        members: Collection[Member],
        *,
        leader: MemberId | None,
    ) -> tuple[object, GroupEffects]:
        """Make a classic group of these members; without a leader they begin a rebalance."""
        ...


class ConsumerPausing:
    """The `headgate.core.pause.contract.Pausing` of consumer groups."""

    __slots__ = ("_groups", "_migration")

    def __init__(self, groups: ConsumerGroups, migration: WayBack) -> None:
        self._groups = groups
        self._migration = migration

    def repaused(self, group_id: GroupId, after: PausedPartitions, now: Millis) -> GroupEffects:
        """Have the members follow; see `Pausing`."""
        group, turn = self._groups.by_id[group_id], self._groups.turn(group_id, now)
        members = [group.member(one) for one in group.members]
        if not after and self._migration.could_be_classic(members):
            _, effects = self._migration.downgrade(turn, group, members, leader=None)
            return effects
        return Effects(repaused(turn, group, self._groups.paused.of(group_id), after))

    def owners_of(self, group_id: GroupId, topic_id: TopicId) -> Mapping[int, MemberId]:
        """Return who owns or has not released partitions of a topic."""
        group = self._groups.by_id.get(group_id)
        return _NOBODY if group is None else group.owners.get(topic_id, _NOBODY)


def repaused(
    turn: ConsumerTurn, group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions
) -> list[ConsumerRecord]:
    """Return the records by which a group follows when `after` is paused instead of `before`."""
    if group.is_empty:
        # Its offsets did not age while something was paused: now they begin to.
        clock = group.at_epoch(group.epoch, group.metadata_hash, empty_since=turn.system_time)
        return [] if after else [clock]
    released = released_while_away(group, after)
    if not (_is_any_in_target(group, before, after) or _is_any_to_assign(turn, group, before, after)):
        return released
    if group.epoch >= LAST_EPOCH:
        return begin_anew(turn, group)
    epoch = group.epoch + 1
    unchanged = GroupAfter(group, next(iter(group.members.values())))
    _, target = make_target(turn, unchanged, epoch, after)
    return [*released, group.at_epoch(epoch, group.metadata_hash), *target]


def _is_any_in_target(group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions) -> bool:
    """Whether a member is to have something that is paused now."""
    paused = added(before, after)
    return bool(paused) and any(
        topic_id in paused and not paused[topic_id].isdisjoint(partitions)
        for target in group.targets.values()
        for topic_id, partitions in target.partitions.items()
    )


def _is_any_to_assign(
    turn: ConsumerTurn, group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions
) -> bool:
    """Whether something is not paused any more that a member reads."""
    names = (turn.topics.name_of(topic_id) for topic_id in added(after, before))
    return any(name is not None and group.is_subscribed_to(name) for name in names)
