"""A classic group becomes a consumer group: what every member has by the last assignment, it keeps.

The generation becomes the epoch of the group, of its target, of its members, and of everything they have
(R1.9), so that commits which are under way are believed, and no epoch is ever lower than what was before.

A cooperative member may own more than its last assignment: it joined with partitions that the assignment
takes from it, and revokes them when the answer to its SyncGroup arrives, which may still be on its way. And
an assignment that was never brought leaves every member with what it had. So the partitions that a member
claimed in its last join are pending revocation, besides its assignment, until it joins again without them: no
other member is given one of them before that, or before the member is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from headgate.core.classic import group as classic
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.consumer.commands import Refusal
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
"""Their user data is only what members had before, so nothing is lost with it.

librdkafka gives it to members with every assignment but the first. Kafka does not upgrade such a group.
"""

_NO_HASH = 0


def upgrade_refusal(group: ClassicGroup, policy: MigrationPolicy, max_size: int) -> Refusal | None:
    """Why a group that has members stays a classic one whatever they say."""
    if not policy.allows_upgrade:
        return _refusal(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        return _refusal(group, "its members are not consumers")
    if len(group.members) > max_size:
        return _refusal(group, f"it has more than {max_size} members")
    return None


def _refusal(group: ClassicGroup, reason: str) -> Refusal:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def upgraded(group: ClassicGroup, topics: TopicImage) -> ConsumerGroup | Refusal:
    """The consumer group that the classic one becomes, every member of it a classic one."""
    converted = ConsumerGroup(group.group_id)
    epoch = max(group.generation, FIRST_EPOCH)
    protocol_name = group.protocol_name or (group.vote() if group.members else "")
    held = []
    for member in group.members.values():
        one = _read(group, member, protocol_name)
        if isinstance(one, Refusal):
            return one
        held.append(one)
    # Assignments come first: a partition that is one member's by assignment is not another's to revoke.
    for one in held:
        for record in _member_records(group.group_id, epoch, one, topics):
            converted.apply(record)
    if _is_any_assigned_twice(converted):
        return _refusal(group, "a partition is assigned to more than one member")
    pending = [current for one in held if (current := _with_pending_revocation(converted, one, topics))]
    # What is still to be assigned is so here: a hash that is not that of the topics raises the epoch.
    is_settled = group.state is ClassicState.STABLE and not pending and _is_all_assigned(converted, topics)
    metadata_hash = topics.hash_of(converted.subscriptions.topics()) if is_settled else _NO_HASH
    converted.apply(ConsumerGroupTargetMetadata(group_id=group.group_id, assignment_epoch=epoch))
    converted.apply(converted.at_epoch(epoch, metadata_hash))
    return converted


def _with_pending_revocation(
    converted: ConsumerGroup, held: _Held, topics: TopicImage
) -> ConsumerGroupCurrentAssignment | None:
    """Add to a member what it said it owns and nobody is assigned; None where there is nothing to add.

    A partition that several members claim is pending for the first of them.
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
    """Whether a leader gave a partition to several members, which a consumer group cannot say."""
    assigned = sum(
        len(epochs) for current in converted.currents.values() for epochs in current.assigned.values()
    )
    return assigned != sum(map(len, converted.owners.values()))


def _is_all_assigned(converted: ConsumerGroup, topics: TopicImage) -> bool:
    """Whether somebody has every partition of every topic that the members read."""
    known = (topics.find(name) for name in converted.subscriptions.topics())
    return all(
        len(converted.owners.get(topic.topic_id, {})) == topic.partition_count for topic in known if topic
    )


class _Held(NamedTuple):
    """A classic member, what it reads, and what it was given."""

    member: classic.Member
    subscription: Subscription
    assignment: Assignment


def _read(group: ClassicGroup, member: classic.Member, protocol_name: str) -> _Held | Refusal:
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
    """Those of the partitions that exist, by their topics' ids."""
    by_id = {}
    for name, indexes in partitions.items():
        topic = topics.find(name)
        if topic is None:
            continue
        existing = tuple(index for index in indexes if 0 <= index < topic.partition_count)
        if existing:
            by_id[topic.topic_id] = existing
    return by_id
