"""Downgrade a consumer group, in which only classic members are left, to a classic group.

The group epoch becomes the generation. The partitions that members own become their last assignment: the next
leader does not get it, but if the group is upgraded before that, no other member gets these partitions.

If all members have their target assignments, the generation continues. Otherwise a rebalance is needed: the
group's record then has no leader, so that this survives a crash (`ClassicGroups.loaded`).
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.classic import group as classic
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.reconcile import union
from headgate.core.migration.consumer_protocol import read_subscription, write_assignment
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import Millis, TopicName
from headgate.records import ClassicMemberMetadata
from headgate.records.consumer_model import OwnedPartitions


def downgraded(
    group: ConsumerGroup, members: Iterable[Member], topics: TopicImage, system_time: Millis
) -> ClassicGroup:
    """Return the classic group, in state Stable, of these members, all of which are classic."""
    converted = ClassicGroup(group.group_id, system_time)
    converted.protocol_type = CONSUMER_PROTOCOL_TYPE
    converted.generation = group.epoch
    converted.state = ClassicState.STABLE
    for member in members:
        converted.add(_member(member, topics))
    converted.protocol_name = converted.vote()
    converted.subscription = converted.compute_subscription()
    return converted


def _member(member: Member, topics: TopicImage) -> classic.Member:
    metadata, current = member
    assert metadata.classic is not None, "a downgraded group has only classic members"
    owned = union(current.assigned, current.pending_revocation)
    return classic.Member(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocols=metadata.classic.protocols,
        assignment=assignment_bytes(metadata.classic, owned, topics),
    )


def assignment_bytes(member: ClassicMemberMetadata, assigned: OwnedPartitions, topics: TopicImage) -> bytes:
    """Encode partitions in a member's own protocol; those of deleted topics are omitted."""
    _, subscribed = member.protocols[0]
    subscription = read_subscription(subscribed)
    named: dict[TopicName, Iterable[int]] = {}
    for topic_id, partitions in assigned.items():
        name = topics.name_of(topic_id)
        if name is not None:
            named[name] = partitions
    return write_assignment(0 if subscription is None else subscription.version, named)
