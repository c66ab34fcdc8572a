"""Share groups (KIP-932): descriptions, and the offsets of their share-partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.client.errors import ClientError, RequestRefused, VersionNotSupported, check, check_parts
from headgate.client.survey import Answers, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.messages import alter_share_group_offsets as alter
from headgate.wire.messages import delete_share_group_offsets as delete
from headgate.wire.messages import describe_share_group_offsets as offsets
from headgate.wire.messages import share_group_describe as groups

SHARE = "Share"
"""The type of share groups."""
STATES = ("Empty", "Stable", "Dead")
"""Kafka's names, by which share groups are listed."""
_UNKNOWN = -1
_NOT_ALLOWED = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int
    assignment: tuple[TopicPartition, ...]
    """The assigned partitions, sorted; other members may have them too."""
    subscribed_topics: tuple[TopicName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """A share group with its members, sorted by member id."""

    group_id: GroupId
    state: str
    assignor: str
    coordinator: str
    """`host:port` of the group's coordinator."""
    coordinator_id: int
    """Node id of the coordinator."""
    group_epoch: int
    assignment_epoch: int
    members: tuple[ShareMemberDescription, ...]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The position of a share group in one partition."""

    partition: TopicPartition
    start_offset: int | None
    """Offset of the first record whose delivery is not complete; None: the group has not read yet."""
    lag: int | None
    """Number of records whose delivery is not complete; None: unknown."""
    leader_epoch: int | None


def describe_share_groups(
    cluster: Cluster, group_ids: Iterable[GroupId]
) -> dict[GroupId, ShareGroupDescription | None]:
    """Describe the groups, in the given order; None for a group that does not exist or is of another type."""
    wanted = list(dict.fromkeys(group_ids))

    def attempt() -> dict[GroupId, ShareGroupDescription | None]:
        found: dict[GroupId, ShareGroupDescription] = {}
        ids = {f"{one.host}:{one.port}": one.node_id for one in cluster.metadata([]).brokers}
        for node, some in cluster.coordinators(wanted).items():
            response = node.request(groups.ShareGroupDescribeRequest(group_ids=list(some)))
            for group in response.groups:
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    continue
                check(f"group {group.group_id}", group.error_code, group.error_message)
                found[GroupId(group.group_id)] = _described(group, node.address, ids.get(node.address, -1))
        return {group_id: found.get(group_id) for group_id in wanted}

    return cluster.retrying(attempt)


def are_share_groups(survey: Survey, group_ids: Iterable[GroupId]) -> Answers[GroupId, bool]:
    """Tell which groups are share groups; an error for one whose coordinator does not answer.

    A coordinator without share groups has none.
    """

    def ask(node: Connection, some: list[GroupId]) -> Mapping[GroupId, bool | ClientError]:
        try:
            response = node.request(groups.ShareGroupDescribeRequest(group_ids=list(some)))
        except VersionNotSupported:
            return dict.fromkeys(some, False)
        found: dict[GroupId, bool | ClientError] = {}
        for group in response.groups:
            refused = RequestRefused(f"group {group.group_id}", group.error_code, group.error_message)
            is_untold = refused.is_retriable or refused.error in _NOT_ALLOWED
            found[GroupId(group.group_id)] = refused if is_untold else not group.error_code
        return found

    return survey.of_groups(group_ids, ask)


def _described(group: groups.DescribedGroup, address: str, node_id: int) -> ShareGroupDescription:
    members = sorted((_member(one) for one in group.members), key=lambda member: member.member_id)
    return ShareGroupDescription(
        group_id=GroupId(group.group_id),
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=address,
        coordinator_id=node_id,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(members),
    )


def _member(member: groups.Member) -> ShareMemberDescription:
    assignment = sorted(
        TopicPartition(TopicName(topic.topic_name), index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return ShareMemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        member_epoch=member.member_epoch,
        assignment=tuple(assignment),
        subscribed_topics=tuple(sorted(map(TopicName, member.subscribed_topic_names))),
    )


def share_offsets(cluster: Cluster, group_id: GroupId) -> list[ShareOffset]:
    """Return the positions of a group in all its share-partitions, sorted."""
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)

    def attempt() -> list[ShareOffset]:
        request = offsets.DescribeShareGroupOffsetsRequest(groups=[asked])
        (group,) = cluster.ask_coordinator(group_id, request).groups
        return _offsets(group)

    return cluster.retrying(attempt)


def share_offsets_on_nodes(
    survey: Survey, group_ids: Iterable[GroupId]
) -> Answers[GroupId, list[ShareOffset]]:
    """Return the same for many groups; an error for one whose coordinator does not answer."""

    def ask(node: Connection, some: list[GroupId]) -> Mapping[GroupId, list[ShareOffset] | ClientError]:
        asked = [offsets.DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in some]
        found: dict[GroupId, list[ShareOffset] | ClientError] = {}
        for group in node.request(offsets.DescribeShareGroupOffsetsRequest(groups=asked)).groups:
            try:
                found[GroupId(group.group_id)] = _offsets(group)
            except RequestRefused as refused:
                found[GroupId(group.group_id)] = refused
        return found

    return survey.of_groups(group_ids, ask, _count)


def _count(found: list[ShareOffset] | ClientError) -> int:
    return 1 if isinstance(found, ClientError) else 1 + len(found)


def _offsets(group: offsets.DescribeShareGroupOffsetsResponseGroup) -> list[ShareOffset]:
    check(f"group {group.group_id}", group.error_code, group.error_message)
    return sorted(
        (_offset(TopicName(topic.topic_name), one) for topic in group.topics for one in topic.partitions),
        key=lambda found: found.partition,
    )


def _offset(topic: TopicName, found: offsets.DescribeShareGroupOffsetsResponsePartition) -> ShareOffset:
    partition = TopicPartition(topic, found.partition_index)
    check(str(partition), found.error_code, found.error_message)
    if found.start_offset == _UNKNOWN:
        return ShareOffset(partition, None, None, None)
    lag = None if found.lag == _UNKNOWN else found.lag
    return ShareOffset(partition, found.start_offset, lag, found.leader_epoch)


def alter_share_offsets(cluster: Cluster, group_id: GroupId, starts: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a group without members; deliveries begin anew there.

    Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`.
    """
    topics: dict[TopicName, list[alter.AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), start in starts.items():
        one = alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
        topics.setdefault(topic, []).append(one)
    request = alter.AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )

    def attempt() -> None:
        response = cluster.ask_coordinator(group_id, request)
        check(f"group {group_id}", response.error_code, response.error_message)
        codes = {
            TopicPartition(TopicName(topic.topic_name), one.partition_index): one.error_code
            for topic in response.responses
            for one in topic.partitions
        }
        check_parts(codes, "partition")

    cluster.retrying(attempt)


def delete_share_offsets(cluster: Cluster, group_id: GroupId, topics: Iterable[TopicName]) -> None:
    """Delete what a group without members has recorded of topics: it will read them as for the first time.

    Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`.
    """
    named = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in dict.fromkeys(topics)]
    request = delete.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named)

    def attempt() -> None:
        response = cluster.ask_coordinator(group_id, request)
        check(f"group {group_id}", response.error_code, response.error_message)
        check_parts({TopicName(one.topic_name): one.error_code for one in response.responses}, "topic")

    cluster.retrying(attempt)
