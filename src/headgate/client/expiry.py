"""When committed offsets will expire, from the coordinators. Only Headgate tells it, Kafka does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.client.errors import ClientError, RequestRefused, check
from headgate.client.survey import Answers, Survey
from headgate.domain.ids import GroupId, Millis, TopicName, TopicPartition
from headgate.wire.extensions.describe_offset_expiry import (
    DescribeOffsetExpiryRequest,
    DescribeOffsetExpiryResponse,
)
from headgate.wire.extensions.list_expiring_groups import ExpiringGroup, ListExpiringGroupsRequest

_NO_TIME: Final = -1
_AT_ANY_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExpiry:
    """When the offsets of a group will expire if nothing changes. Times are in ms since the epoch.

    The coordinator removes expired offsets every `check_interval_ms`.
    """

    group_id: GroupId
    now: Millis
    """The time of the coordinator."""
    check_interval_ms: int
    empty_since: Millis | None
    """When the last member left; None for a group with members, or that never had any."""
    retention_ms: int | None
    """None: offsets do not expire."""
    is_own_retention: bool
    """Whether the retention is the group's own setting `offsets.retention.ms`."""
    offsets: Mapping[TopicPartition, Millis | None]
    """When each offset expires; None: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExpiryListing:
    """A group without members whose offsets will expire. Times are in ms since the epoch."""

    group_id: GroupId
    now: Millis
    """The time of the node."""
    empty_since: Millis | None
    """When the last member left; None for a group that never had members."""
    retention_ms: int | None
    is_own_retention: bool
    offset_count: int
    first_expiry: Millis
    last_expiry: Millis | None
    """None: some offsets do not expire."""


def knows_expiry(cluster: Cluster, group_id: GroupId) -> bool:
    """Return whether the group's coordinator tells when offsets expire."""
    return DescribeOffsetExpiryRequest.API_KEY in cluster.coordinator(group_id).versions


def describe_expiry(cluster: Cluster, group_id: GroupId) -> GroupExpiry:
    """Return when the offsets of a group will expire.

    Raises `RequestRefused` (GROUP_ID_NOT_FOUND) and `VersionNotSupported`.
    """

    message = DescribeOffsetExpiryRequest(group_id=group_id)
    return cluster.retrying(lambda: _expiry(group_id, cluster.coordinator(group_id).request(message)))


def describe_on_nodes(survey: Survey, group_ids: Iterable[GroupId]) -> Answers[GroupId, GroupExpiry | None]:
    """Return the same for many groups; None for one whose coordinator cannot tell it."""

    def ask(node: Connection, some: list[GroupId]) -> Mapping[GroupId, GroupExpiry | ClientError | None]:
        if DescribeOffsetExpiryRequest.API_KEY not in node.versions:
            return dict.fromkeys(some)
        responses = node.requests([DescribeOffsetExpiryRequest(group_id=group_id) for group_id in some])
        found: dict[GroupId, GroupExpiry | ClientError | None] = {}
        for group_id, response in zip(some, responses, strict=True):
            try:
                found[group_id] = _expiry(group_id, response)
            except RequestRefused as refused:
                found[group_id] = refused
        return found

    return survey.of_groups(group_ids, ask)


def _expiry(group_id: GroupId, response: DescribeOffsetExpiryResponse) -> GroupExpiry:
    check(f"expiry of group {group_id}", response.error_code, response.error_message)
    return GroupExpiry(
        group_id=group_id,
        now=Millis(response.now_ms),
        check_interval_ms=response.check_interval_ms,
        empty_since=_time(response.empty_since_ms),
        retention_ms=_time(response.retention_ms),
        is_own_retention=response.is_own_retention,
        offsets={
            TopicPartition(TopicName(topic.name), one.partition_index): _time(one.expires_ms)
            for topic in response.topics
            for one in topic.partitions
        },
    )


def list_expiring(cluster: Cluster, within_ms: int | None = None) -> list[GroupExpiryListing]:
    """Return the groups without members of which an offset expires within `within_ms` (None: at any time),
    the first to expire first. Raises `VersionNotSupported`.
    """
    message = ListExpiringGroupsRequest(within_ms=_AT_ANY_TIME if within_ms is None else within_ms)

    def attempt() -> list[GroupExpiryListing]:
        found: list[GroupExpiryListing] = []
        for node in cluster.nodes():
            response = node.request(message)
            check(f"the groups of {node.address}", response.error_code, response.error_message)
            found += [_listed(group, Millis(response.now_ms)) for group in response.groups]
        return sorted(found, key=lambda group: (group.first_expiry, group.group_id))

    return cluster.retrying(attempt)


def _listed(group: ExpiringGroup, now: Millis) -> GroupExpiryListing:
    return GroupExpiryListing(
        group_id=GroupId(group.group_id),
        now=now,
        empty_since=_time(group.empty_since_ms),
        retention_ms=_time(group.retention_ms),
        is_own_retention=group.is_own_retention,
        offset_count=group.offset_count,
        first_expiry=Millis(group.first_expiry_ms),
        last_expiry=_time(group.last_expiry_ms),
    )


def _time(at: int) -> Millis | None:
    return None if at == _NO_TIME else Millis(at)
