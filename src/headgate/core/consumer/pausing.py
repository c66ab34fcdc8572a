"""Change a consumer group when partitions of it are paused or resumed.

The target assignment never contains a paused partition: a pause of assigned partitions, and a resume of
subscribed ones, come with a new target assignment in a new group epoch. So the owners of paused partitions
revoke them like any others (`reconcile.py`), and no member gets one.

A group with paused partitions stays a consumer group, even if only classic members are left or join it. It
may be downgraded when no partition is paused any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.removal import LAST_EPOCH, begin_anew, released_while_away
from headgate.core.consumer.target import GroupAfter, make_target
from headgate.core.contract import Effects
from headgate.core.effects import GroupEffects
from headgate.core.pause.paused import added
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records import ConsumerRecord, PausedPartitions

_NOBODY: Mapping[int, MemberId] = {}


class GroupDowngrade(Protocol):
    """Downgrades a consumer group to a classic one (`headgate.core.migration`)."""

    def could_be_classic(self, members: Collection[Member]) -> bool:
        """Return whether these members can form a classic group, and the policy allows it."""
        ...

    def downgrade(
        self,
        context: ConsumerContext,
        group: ConsumerGroup,
        members: Collection[Member],
        *,
        leader: MemberId | None,
    ) -> tuple[object, GroupEffects]:
        """Downgrade to a classic group of these members; without a leader it starts a rebalance."""
        ...


class ConsumerPausing:
    """The `headgate.core.pause.contract.Pausing` of consumer groups."""

    __slots__ = ("_groups", "_migration")

    def __init__(self, groups: ConsumerGroups, migration: GroupDowngrade) -> None:
        self._groups = groups
        self._migration = migration

    def repaused(self, group_id: GroupId, after: PausedPartitions, now: Millis) -> GroupEffects:
        """Return the effects on the members; see `Pausing`."""
        group, context = self._groups.by_id[group_id], self._groups.context(group_id, now)
        members = [group.member(one) for one in group.members]
        if not after and self._migration.could_be_classic(members):
            _, effects = self._migration.downgrade(context, group, members, leader=None)
            return effects
        return Effects(repaused(context, group, self._groups.paused.of(group_id), after))

    def owners_of(self, group_id: GroupId, topic_id: TopicId) -> Mapping[int, MemberId]:
        """Return the owners of a topic's partitions, also of those pending revocation."""
        group = self._groups.by_id.get(group_id)
        return _NOBODY if group is None else group.owners.get(topic_id, _NOBODY)


def repaused(
    context: ConsumerContext, group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions
) -> list[ConsumerRecord]:
    """Return the records that change a group when `after` is paused instead of `before`."""
    if group.is_empty:
        # Its offsets do not age while partitions are paused; they begin to age now.
        clock = group.at_epoch(group.epoch, group.metadata_hash, empty_since=context.system_time)
        return [] if after else [clock]
    released = released_while_away(group, after)
    if not (_is_any_in_target(group, before, after) or _is_any_to_assign(context, group, before, after)):
        return released
    if group.epoch >= LAST_EPOCH:
        return begin_anew(context, group)
    epoch = group.epoch + 1
    unchanged = GroupAfter(group, next(iter(group.members.values())))
    _, target = make_target(context, unchanged, epoch, after)
    return [*released, group.at_epoch(epoch, group.metadata_hash), *target]


def _is_any_in_target(group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions) -> bool:
    """Return whether the target assignment contains a newly paused partition."""
    paused = added(before, after)
    return bool(paused) and any(
        topic_id in paused and not paused[topic_id].isdisjoint(partitions)
        for target in group.targets.values()
        for topic_id, partitions in target.partitions.items()
    )


def _is_any_to_assign(
    context: ConsumerContext, group: ConsumerGroup, before: PausedPartitions, after: PausedPartitions
) -> bool:
    """Return whether a partition of a subscribed topic was resumed."""
    names = (context.topics.name_of(topic_id) for topic_id in added(after, before))
    return any(name is not None and group.is_subscribed_to(name) for name in names)
