"""Describe a consumer group."""

from __future__ import annotations

from headgate.core.consumer.commands import DescribedConsumerGroup, DescribedConsumerMember
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.reconcile import union
from headgate.core.consumer.target import most_wanted
from headgate.core.topic_image import TopicImage


def describe(group: ConsumerGroup, topics: TopicImage, assignors: tuple[str, ...]) -> DescribedConsumerGroup:
    """Return every member with the partitions it owns and its target assignment."""
    members = tuple(_member(group, group.member(member_id)) for member_id in group.members)
    topic_ids = {topic_id: None for member in members for topic_id in (*member.assigned, *member.target)}
    names = {topic_id: topics.name_of(topic_id) for topic_id in topic_ids}
    return DescribedConsumerGroup(
        group_id=group.group_id,
        state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=most_wanted(group.assignor_votes, assignors),
        members=members,
        topic_names={topic_id: name for topic_id, name in names.items() if name is not None},
    )


def _member(group: ConsumerGroup, member: Member) -> DescribedConsumerMember:
    metadata, current = member
    return DescribedConsumerMember(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        member_epoch=current.member_epoch,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assigned={
            topic_id: tuple(sorted(epochs))
            for topic_id, epochs in union(current.assigned, current.pending_revocation).items()
        },
        target=group.target_of(metadata.member_id),
        uses_classic_protocol=member.uses_classic_protocol,
    )
