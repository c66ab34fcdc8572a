"""Compute the target assignment: the partitions of every member, by an assignor, for one group epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headgate.core.assignors import ASSIGNORS
from headgate.core.assignors.contract import AssignablePartitions, GroupSpec, MemberSubscription
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.events import GroupRebalanced
from headgate.domain.ids import MemberId, TopicId, TopicName
from headgate.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerRecord,
    PausedPartitions,
)
from headgate.records.consumer_model import TargetPartitions

_NONE: Final[frozenset[int]] = frozenset()


@dataclass(slots=True, frozen=True)
class GroupAfter:
    """A group as it will be with one member new or changed, before the records are applied."""

    group: ConsumerGroup
    member: ConsumerGroupMemberMetadata
    replaces: MemberId | None = None

    def members(self) -> Iterator[ConsumerGroupMemberMetadata]:
        """Yield all members that it will have."""
        for member_id, metadata in self.group.members.items():
            if member_id not in (self.member.member_id, self.replaces):
                yield metadata
        yield self.member

    def gone(self) -> tuple[ConsumerGroupMemberMetadata, ...]:
        """Return the present members that the new one replaces: its own former state, and `replaces`."""
        member_ids = {self.member.member_id, self.replaces or self.member.member_id}
        return tuple(self.group.members[one] for one in member_ids if one in self.group.members)

    @property
    def is_one_less(self) -> bool:
        """Whether a member of the group takes over another member's place, so that the group loses one."""
        return self.replaces is not None and self.member.member_id in self.group.members

    def target_of(self, member_id: MemberId) -> TargetPartitions:
        """Return a member's target assignment; a replacing member has that of the replaced one."""
        if self.replaces is not None and member_id == self.member.member_id:
            return self.group.target_of(self.replaces)
        return self.group.target_of(member_id)

    def topics(self) -> frozenset[TopicName]:
        """Return the topics that its members will subscribe to."""
        return self.group.subscriptions.topics_after(self.gone(), self.member)

    def assignor(self, assignors: tuple[str, ...]) -> str:
        """Return the name of the assignor that most members ask for; on a tie, the first one offered."""
        votes = Counter(self.group.assignor_votes)
        for before in self.gone():
            if before.server_assignor is not None:
                votes[before.server_assignor] -= 1
        if self.member.server_assignor is not None:
            votes[self.member.server_assignor] += 1
        return most_wanted(votes, assignors)


def most_wanted(votes: Counter[str], assignors: tuple[str, ...]) -> str:
    """Return the assignor with most votes; without any, the first one offered."""
    return max(assignors, key=lambda name: votes[name])


def make_target(
    context: ConsumerContext, after: GroupAfter, epoch: int, paused: PausedPartitions
) -> tuple[TargetPartitions, list[ConsumerRecord]]:
    """Compute the target assignment of an epoch, without the `paused` partitions; return the changed member's
    part, and all changed records.
    """
    group = after.group
    topics = context.topics
    # Members with equal subscriptions share their names; assignors are faster if they share one set too.
    sets: dict[tuple[int, str | None], frozenset[TopicId]] = {}

    def read_by(metadata: ConsumerGroupMemberMetadata) -> frozenset[TopicId]:
        key = (id(metadata.subscribed_topic_names), metadata.subscribed_topic_regex)
        if key not in sets:
            sets[key] = topics.ids_of(group.subscriptions.of(metadata))
        return sets[key]

    members = {
        metadata.member_id: MemberSubscription(
            topics=read_by(metadata),
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            current=after.target_of(metadata.member_id),
        )
        for metadata in after.members()
    }
    assignable = {}
    for name in after.topics():
        topic = topics.find(name)
        if topic is not None:
            withheld = frozenset(paused[topic.topic_id]) if topic.topic_id in paused else _NONE
            assignable[topic.topic_id] = AssignablePartitions(topic.partition_count, withheld)
    assign = ASSIGNORS[after.assignor(context.settings.assignors)]
    targets = assign(GroupSpec(members=members, assignable=assignable))
    records: list[ConsumerRecord] = []
    for member_id in members:
        partitions = targets.get(member_id, {})
        if member_id not in group.targets or partitions != group.targets[member_id].partitions:
            records.append(
                ConsumerGroupTargetMember(group_id=group.group_id, member_id=member_id, partitions=partitions)
            )
    records.append(
        ConsumerGroupTargetMetadata(
            group_id=group.group_id, assignment_epoch=epoch, assignment_timestamp=context.system_time
        )
    )
    context.events.report(GroupRebalanced(group.group_id, epoch, len(members)))
    return targets.get(after.member.member_id, {}), records
