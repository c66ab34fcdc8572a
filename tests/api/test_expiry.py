"""DescribeOffsetExpiry (20005) and ListExpiringGroups (20006) on real shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.node import OneCall, OneNode, topic_id_of

from headgate.api import k08_offset_commit, k20005_describe_offset_expiry, k20006_list_expiring_groups
from headgate.core.commands import RetentionConfigured
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.extensions.describe_offset_expiry import (
    DescribeOffsetExpiryRequest,
    DescribeOffsetExpiryResponse,
)
from headgate.wire.extensions.list_expiring_groups import (
    ListExpiringGroupsRequest,
    ListExpiringGroupsResponse,
)
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture
def node() -> OneNode:
    """A node that keeps offsets for ten hours."""
    return OneNode(offsets_retention_minutes="600")


def commit(node: OneNode, group_id: str, *partitions: int) -> None:
    """Commit partitions of topic t."""
    rows = [OffsetCommitRequestPartition(partition_index=one, committed_offset=5) for one in partitions]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=topic_id_of("t"), partitions=rows)]
    node.ask(k08_offset_commit.API, OffsetCommitRequest(group_id=group_id, topics=topics), 9)


def configure(node: OneNode, group_id: str, retention_ms: int) -> None:
    """Set a group's own retention."""
    command = RetentionConfigured(GroupId(group_id), retention_ms)
    node.coordinator.submit(command.group_id, command, lambda reply: None)


def describe(node: OneNode, group_id: str) -> DescribeOffsetExpiryResponse:
    """Ask for one group."""
    request = DescribeOffsetExpiryRequest(group_id=group_id)
    response: DescribeOffsetExpiryResponse = node.ask(k20005_describe_offset_expiry.API, request, 0)
    return response


def listed(node: OneNode, within_ms: int) -> ListExpiringGroupsResponse:
    """Ask for all groups that expire within this time."""
    request = ListExpiringGroupsRequest(within_ms=within_ms)
    response: ListExpiringGroupsResponse = node.ask(k20006_list_expiring_groups.API, request, 0)
    return response


def test_only_a_large_answer_is_encoded_in_a_thread(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread takes longer than a small one, which thousands of groups are asked for."""
    aside: list[int] = []
    answer_aside = OneCall.answer_aside

    def noted(call: OneCall, make: Callable[[], Any]) -> None:
        answer_aside(call, make)
        aside.append(len(call.response.topics[0].partitions))

    monkeypatch.setattr(OneCall, "answer_aside", noted)
    monkeypatch.setattr(k20005_describe_offset_expiry, "_MOST_AT_ONCE", 2)
    commit(node, "small", 0, 1)
    commit(node, "large", 0, 1, 2)
    for group_id in ("small", "large", "nobody"):
        describe(node, group_id)
    assert aside == [3]


def test_a_group_is_described_with_the_expiry_of_each_offset(node: OneNode) -> None:
    """With the time, the retention and the interval of the checks, so that a client can explain it."""
    start = node.time
    commit(node, "g", 0)
    node.advance(HOUR)
    commit(node, "g", 1)
    found = describe(node, "g")
    assert (found.error_code, found.now_ms, found.check_interval_ms) == (0, start + HOUR, 600_000)
    assert (found.aging, found.empty_since_ms) == (1, -1)
    assert (found.retention_ms, found.is_own_retention) == (10 * HOUR, False)
    (topic,) = found.topics
    assert topic.name == "t"
    assert [(one.partition_index, one.expires_ms - start) for one in topic.partitions] == [
        (0, 10 * HOUR),
        (1, 11 * HOUR),
    ]


def test_an_offset_that_does_not_expire_has_no_time(node: OneNode) -> None:
    """Here because of the group's own setting."""
    configure(node, "g", -1)
    commit(node, "g", 0)
    found = describe(node, "g")
    assert (found.retention_ms, found.is_own_retention) == (-1, True)
    assert found.topics[0].partitions[0].expires_ms == -1
    assert listed(node, -1).groups == []


def test_an_unknown_group_is_an_error(node: OneNode) -> None:
    """As for DescribeGroups."""
    assert describe(node, "nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_groups_that_expire_soon_are_listed_from_all_shards(node: OneNode) -> None:
    """Within the time that is asked for, or -1: at any time."""
    start = node.time
    for number in range(12):
        commit(node, f"late{number}", 0)
        configure(node, f"soon{number}", HOUR)
        commit(node, f"soon{number}", 0, 1)
    within = listed(node, HOUR)
    assert sorted(group.group_id for group in within.groups) == sorted(f"soon{one}" for one in range(12))
    one = within.groups[0]
    assert (one.offset_count, one.retention_ms, one.is_own_retention) == (2, HOUR, True)
    assert (one.first_expiry_ms, one.last_expiry_ms, one.empty_since_ms) == (start + HOUR, start + HOUR, -1)
    assert listed(node, HOUR - 1).groups == []
    assert len(listed(node, -1).groups) == 24


def test_a_shard_that_cannot_answer_fails_the_list(node: OneNode) -> None:
    """A part of the groups would look like all of them."""
    commit(node, "g", 0)
    node.coordinator.errors[1] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    found = listed(node, -1)
    assert (found.error_code, found.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
