"""Listing, describing and deleting groups.

DescribeGroups describes classic groups, ConsumerGroupDescribe describes consumer groups (KIP-848). Callers
need not know the type of a group: the functions here ask its coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.client.assignment import read_assignment
from headgate.client.cluster import Address, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import (
    AnswerLost,
    ClientError,
    PartlyRefused,
    RequestRefused,
    VersionNotSupported,
    check,
)
from headgate.client.survey import Answers, Survey
from headgate.client.uncoordinated import without_coordinator
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicName, TopicPartition
from headgate.domain.wording import some_of
from headgate.wire.messages import consumer_group_describe
from headgate.wire.messages import describe_groups as wire
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.list_groups import ListGroupsRequest

CLASSIC = "Classic"
CONSUMER = "Consumer"

AWAY_EPOCH = -2
"""The epoch of a static member that left temporarily."""

STATES = (
    *("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"),
    *("Dead", "Unknown"),
)
TYPES = ("Classic", "Consumer", "Share", "Streams")
"""Kafka's names, by which groups are listed."""

_STATES_SINCE = 4
_TYPES_SINCE = 5
_DEAD = "Dead"
_CONSUMER_PROTOCOL = "consumer"
_TYPE_UNKNOWN = -1
_CONSUMER_MEMBER = 1
_NOT_OF_THIS_KIND = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. Fields that an old node does not send are empty."""

    group_id: GroupId
    group_type: str
    """`Classic`, `Consumer`, ..."""
    state: str
    protocol_type: str
    """`consumer` for consumers, empty for a group that only stores offsets."""


class GroupsMissing(ClientError):
    """Groups may be missing in a list, because nobody answers for them; `listings` has the others.

    `reasons` says why: partitions of the coordinator's log without a leader, for example.
    """

    def __init__(self, listings: Sequence[GroupListing], reasons: Sequence[ClientError]) -> None:
        self.listings = tuple(listings)
        self.reasons = tuple(reasons)
        super().__init__(f"groups are missing: {'; '.join(map(str, reasons))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None
    """The assigned partitions, sorted; None if the assignment has an unknown format."""
    target: tuple[TopicPartition, ...] | None = None
    """Consumer group: the target assignment, sorted."""
    member_epoch: int | None = None
    """Consumer group: the member epoch; -2 for a static member that left temporarily."""
    is_upgraded: bool | None = None
    """Consumer group: whether the member uses the consumer protocol, not the classic one. None: unknown."""
    subscribed_topics: tuple[TopicName, ...] | None = None
    """Consumer group: the topics subscribed to by name, sorted."""
    subscribed_regex: str | None = None
    """Consumer group: the regular expression of the subscription."""

    @property
    def is_away(self) -> bool:
        """Whether this is a static member of a consumer group that left temporarily."""
        return self.member_epoch == AWAY_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members, sorted by member id."""

    group_id: GroupId
    group_type: str
    state: str
    assignor: str
    coordinator: str
    """`host:port` of the group's coordinator."""
    members: tuple[MemberDescription, ...]
    protocol_type: str = _CONSUMER_PROTOCOL
    group_epoch: int | None = None
    """Set for consumer groups only, like `assignment_epoch`."""
    assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether the group has members. Members do not notice when others change their offsets."""
        return bool(self.members) or self.state not in ("Empty", _DEAD)


def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    """Return the groups of all nodes, sorted by id, filtered by states and types if any are given.

    Raises `VersionNotSupported` if a node cannot filter by states or types, the error of a node that does not
    answer, and `GroupsMissing` if some groups have no coordinator.
    """
    listings, failed = list_on_nodes(Survey(cluster), states, types)
    for error in failed.values():
        raise error
    if reasons := without_coordinator(cluster, GROUP_OFFSETS_TOPIC):
        raise GroupsMissing(listings, reasons)
    return listings


def list_on_nodes(
    survey: Survey, states: Iterable[str] = (), types: Iterable[str] = ()
) -> tuple[list[GroupListing], dict[Address, ClientError]]:
    """Return the groups of the nodes that answer, sorted by id, and why others do not answer.

    The nodes that have listed the groups are remembered as their coordinators.
    """
    message = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[GroupId, GroupListing] = {}
    failed: dict[Address, ClientError] = {}
    for address, listed in survey.of_nodes(lambda node: _list_groups_of(node, message)).items():
        if isinstance(listed, ClientError):
            failed[address] = listed
        else:
            found.update({one.group_id: one for one in listed})
            survey.cluster.learn_coordinators({one.group_id: address for one in listed})
    return [found[group_id] for group_id in sorted(found)], failed


def _list_groups_of(node: Connection, message: ListGroupsRequest) -> list[GroupListing]:
    version = node.version_for(ListGroupsRequest)
    for wanted, since, what in (
        (message.states_filter, _STATES_SINCE, "states"),
        (message.types_filter, _TYPES_SINCE, "types"),
    ):
        if wanted and version < since:
            raise VersionNotSupported(f"{node.address} is too old to list groups by their {what}")
    response = node.request(message, version)
    check(f"the groups of {node.address}", response.error_code)
    return [
        GroupListing(
            GroupId(group.group_id), group.group_type.capitalize(), group.group_state, group.protocol_type
        )
        for group in response.groups
    ]


def describe_groups(cluster: Cluster, group_ids: Iterable[GroupId]) -> dict[GroupId, GroupDescription | None]:
    """Describe the groups, in the given order; None for a group that does not exist."""
    described: dict[GroupId, GroupDescription | None] = {}
    for group_id, found in describe_on_nodes(Survey(cluster), group_ids).items():
        if isinstance(found, ClientError):
            raise found
        described[group_id] = found
    return described


def describe_on_nodes(
    survey: Survey, group_ids: Iterable[GroupId], types: Mapping[GroupId, str] | None = None
) -> Answers[GroupId, GroupDescription | None]:
    """Describe groups; None for one that does not exist, an error for one whose coordinator does not answer.

    `types` are those that were listed, as far as they are known: they save requests.
    """
    known = types or {}
    return survey.of_groups(group_ids, lambda node, some: _describe(node, some, known), _parts_of)


def _describe(
    node: Connection, group_ids: list[GroupId], types: Mapping[GroupId, str]
) -> dict[GroupId, GroupDescription | ClientError | None]:
    classic = [group_id for group_id in group_ids if types.get(group_id) == CLASSIC]
    found = _consumer_groups(node, [group_id for group_id in group_ids if types.get(group_id) != CLASSIC])
    found |= _classic_groups(node, [group_id for group_id in group_ids if group_id not in found])
    # A group can have changed its protocol since it was listed.
    found |= _consumer_groups(node, [group_id for group_id in classic if group_id not in found])
    return {group_id: found.get(group_id) for group_id in group_ids}


def _parts_of(found: GroupDescription | ClientError | None) -> int:
    if not isinstance(found, GroupDescription):
        return 1
    return 1 + sum(1 + len(member.assignment or ()) for member in found.members)


def _consumer_groups(
    node: Connection, group_ids: list[GroupId]
) -> dict[GroupId, GroupDescription | ClientError | None]:
    if consumer_group_describe.ConsumerGroupDescribeRequest.API_KEY not in node.versions or not group_ids:
        return {}
    message = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    found: dict[GroupId, GroupDescription | ClientError | None] = {}
    for group in node.request(message).groups:
        if group.error_code in _NOT_OF_THIS_KIND:
            continue
        group_id = GroupId(group.group_id)
        if group.error_code:
            found[group_id] = RequestRefused(f"group {group_id}", group.error_code, group.error_message)
            continue
        found[group_id] = GroupDescription(
            group_id=group_id,
            group_type=CONSUMER,
            state=group.group_state,
            assignor=group.assignor_name,
            coordinator=node.address,
            members=_in_order(_consumer_member(member) for member in group.members),
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )
    return found


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        member_epoch=member.member_epoch,
        is_upgraded=None if member.member_type == _TYPE_UNKNOWN else member.member_type == _CONSUMER_MEMBER,
        subscribed_topics=tuple(sorted(map(TopicName, member.subscribed_topic_names))),
        subscribed_regex=member.subscribed_topic_regex or None,
    )


def _partitions(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(TopicName(topic.topic_name), partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def _classic_groups(
    node: Connection, group_ids: list[GroupId]
) -> dict[GroupId, GroupDescription | ClientError | None]:
    if not group_ids:
        return {}
    found: dict[GroupId, GroupDescription | ClientError | None] = {}
    for group in node.request(wire.DescribeGroupsRequest(groups=list(group_ids))).groups:
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        group_id = GroupId(group.group_id)
        if group.error_code:
            found[group_id] = RequestRefused(f"group {group_id}", group.error_code, group.error_message)
            continue
        if group.group_state == _DEAD:
            continue
        is_consumer = group.protocol_type == _CONSUMER_PROTOCOL
        found[group_id] = GroupDescription(
            group_id=group_id,
            group_type=CLASSIC,
            state=group.group_state,
            assignor=group.protocol_data,
            coordinator=node.address,
            protocol_type=group.protocol_type,
            members=_in_order(_classic_member(member, is_consumer) for member in group.members),
        )
    return found


def _classic_member(member: wire.DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=read_assignment(member.member_assignment) if is_consumer else None,
    )


def _in_order(members: Iterable[MemberDescription]) -> tuple[MemberDescription, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def delete_groups(cluster: Cluster, group_ids: Iterable[GroupId]) -> None:
    """Delete groups without members, with all their offsets.

    Raises `PartlyRefused` for groups that were not deleted: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or why the
    coordinator is not known. The other groups are deleted all the same. If a coordinator does not answer,
    raises its error, with notes of what was deleted and what was refused.
    """
    lost: list[AnswerLost] = []

    def ask(node: Connection, some: list[GroupId]) -> dict[GroupId, ClientError | None]:
        try:
            results = node.request(DeleteGroupsRequest(groups_names=list(some))).results
        except AnswerLost as error:
            lost.append(error)
            raise
        codes = {GroupId(one.group_id): one.error_code for one in results}
        return {
            group_id: RequestRefused(f"group {group_id}", code) if code else None
            for group_id, code in codes.items()
        }

    answers = Survey(cluster).of_groups(group_ids, ask)
    failed = {group_id: error for group_id, error in answers.items() if error is not None}
    if failed:
        raised = _not_deleted(failed, [group_id for group_id in answers if group_id not in failed])
        if lost and lost[-1] is not raised:
            raised.add_note(f"an earlier attempt may have been carried out: {lost[-1]}")
        raise raised


def _not_deleted(failed: Mapping[GroupId, ClientError], deleted: Sequence[GroupId]) -> ClientError:
    """Return the error of a deletion that failed for some groups."""
    refused = {group_id: error for group_id, error in failed.items() if isinstance(error, RequestRefused)}
    unanswered = [group_id for group_id in failed if group_id not in refused]
    if unanswered:
        error = failed[unanswered[0]]
        error.add_note(f"no answer for: {some_of(unanswered, len(unanswered))}")
        if deleted:
            error.add_note(f"deleted: {some_of(deleted, len(deleted))}")
        if refused:
            error.add_note(f"refused: {some_of(map(str, refused.values()), len(refused))}")
        return error
    passing = [error for error in refused.values() if error.is_retriable]
    return passing[0] if passing and not deleted else PartlyRefused(refused)
