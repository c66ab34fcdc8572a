"""Upgrade a classic group to a consumer group: every member keeps its last assignment.

The generation becomes the epoch of the group, of its target assignment, of its members, and of their
partitions (R1.9), so that commits in flight are accepted and no epoch decreases.

A cooperative member may own more than its last assignment: it joined with partitions that the assignment
revokes, and revokes them when it gets the response to its SyncGroup, which may be in flight. And if the
leader never sent an assignment, every member keeps what it had. So partitions that a member reported in its
last join, beyond its assignment, are pending revocation until it rejoins without them: until then, or until
the member is removed, no other member gets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from headgate.core.classic import group as classic
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.consumer.commands import GroupRefusal
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.heartbeat import FIRST_EPOCH
from headgate.core.migration.consumer_protocol import (
    Assignment,
    NamedPartitions,
    Subscription,
    read_assignment,
    read_subscription,
)
from headgate.core.migration.policy import MigrationPolicy
from headgate.core.topic_image import TopicImage
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerRecord,
    MemberState,
)

_STICKY_ASSIGNORS = frozenset({"sticky", "cooperative-sticky"})
"""Assignors whose user data has only former assignments, so nothing is lost with it.

librdkafka sends it to members with every assignment but the first. Kafka does not upgrade such a group.
"""

_NO_HASH = 0


def upgrade_refusal(group: ClassicGroup, policy: MigrationPolicy, max_size: int) -> GroupRefusal | None:
    """Return why a group with members may not become a consumer group; None if it may."""
    if not policy.allows_upgrade:
        return _refusal(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        return _refusal(group, "its members are not consumers")
    if len(group.members) > max_size:
        return _refusal(group, f"it has more than {max_size} members")
    return None


def _refusal(group: ClassicGroup, reason: str) -> GroupRefusal:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def upgraded(group: ClassicGroup, topics: TopicImage) -> ConsumerGroup | GroupRefusal:
    """Return the consumer group that the classic one becomes; all its members are classic ones."""
    converted = ConsumerGroup(group.group_id)
    epoch = max(group.generation, FIRST_EPOCH)
    protocol_name = group.protocol_name or (group.vote() if group.members else "")
    held = []
    for member in group.members.values():
        one = _read(group, member, protocol_name)
        if isinstance(one, GroupRefusal):
            return one
        held.append(one)
    # Assignments come first: partitions assigned to one member are not pending revocation of another.
    for one in held:
        for record in _member_records(group.group_id, epoch, one, topics):
            converted.apply(record)
    if _is_any_assigned_twice(converted):
        return _refusal(group, "a partition is assigned to more than one member")
    pending = [current for one in held if (current := _with_pending_revocation(converted, one, topics))]
    # If partitions are unassigned, a wrong hash of the topics raises the epoch, so that they are assigned.
    is_settled = group.state is ClassicState.STABLE and not pending and _is_all_assigned(converted, topics)
    metadata_hash = topics.hash_of(converted.subscriptions.topics()) if is_settled else _NO_HASH
    converted.apply(ConsumerGroupTargetMetadata(group_id=group.group_id, assignment_epoch=epoch))
    converted.apply(converted.at_epoch(epoch, metadata_hash))
    return converted


def _with_pending_revocation(
    converted: ConsumerGroup, held: _Held, topics: TopicImage
) -> ConsumerGroupCurrentAssignment | None:
    """Add partitions that a member reported and that are not assigned; return None if there are none.

    If several members reported a partition, it is pending revocation of the first one.
    """
    current = converted.member(held.member.member_id).current
    since = current.member_epoch
    pending: dict[TopicId, dict[int, int]] = {}
    for topic_id, partitions in partitions_by_id(held.subscription.owned, topics).items():
        owners = converted.owners.get(topic_id, {})
        claimed = {partition: since for partition in partitions if partition not in owners}
        if claimed:
            pending[topic_id] = claimed
    if not pending:
        return None
    current = replace(current, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    converted.apply(current)
    return current


def _is_any_assigned_twice(converted: ConsumerGroup) -> bool:
    """Return whether the leader assigned a partition to several members, which a consumer group cannot
    represent.
    """
    assigned = sum(
        len(epochs) for current in converted.currents.values() for epochs in current.assigned.values()
    )
    return assigned != sum(map(len, converted.owners.values()))


def _is_all_assigned(converted: ConsumerGroup, topics: TopicImage) -> bool:
    """Return whether every partition of every subscribed topic has an owner."""
    known = (topics.find(name) for name in converted.subscriptions.topics())
    return all(
        len(converted.owners.get(topic.topic_id, {})) == topic.partition_count for topic in known if topic
    )


class _Held(NamedTuple):
    """A classic member with its decoded subscription and assignment."""

    member: classic.Member
    subscription: Subscription
    assignment: Assignment


def _read(group: ClassicGroup, member: classic.Member, protocol_name: str) -> _Held | GroupRefusal:
    subscription = read_subscription(member.metadata(protocol_name))
    if subscription is None:
        return _refusal(group, f"the subscription of member {member.member_id} cannot be read")
    assignment = read_assignment(member.assignment)
    if assignment is None:
        return _refusal(group, f"the assignment of member {member.member_id} cannot be read")
    if assignment.has_user_data and protocol_name not in _STICKY_ASSIGNORS:
        return _refusal(group, "user data of its own assignor would be lost")
    return _Held(member, subscription, assignment)


def _member_records(
    group_id: GroupId, epoch: int, held: _Held, topics: TopicImage
) -> Iterator[ConsumerRecord]:
    member, subscription, assignment = held
    member_id = member.member_id
    partitions = partitions_by_id(assignment.partitions, topics)
    yield ConsumerGroupMemberMetadata(
        group_id=group_id,
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )
    yield ConsumerGroupTargetMember(group_id=group_id, member_id=member_id, partitions=partitions)
    yield ConsumerGroupCurrentAssignment(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.STABLE,
        assigned={topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()},
        pending_revocation={},
    )


def partitions_by_id(partitions: NamedPartitions, topics: TopicImage) -> dict[TopicId, tuple[int, ...]]:
    """Return the existing ones of these partitions, by topic id."""
    by_id = {}
    for name, indexes in partitions.items():
        topic = topics.find(name)
        if topic is None:
            continue
        existing = tuple(index for index in indexes if 0 <= index < topic.partition_count)
        if existing:
            by_id[topic.topic_id] = existing
    return by_id
