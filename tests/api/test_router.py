"""Any node answers (R3.14): handlers submit to the owner of a group's shard, whichever node that is."""

from __future__ import annotations

import pytest
from tests.api.node import OneNode
from tests.api.offset_requests import commit, fetch

from headgate.api import (
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k42_delete_groups,
    k47_offset_delete,
    k20004_describe_offset_history,
)
from headgate.api.contract import ShardOwner
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.extensions.describe_offset_history import DescribeOffsetHistoryRequest
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.describe_groups import DescribeGroupsRequest
from headgate.wire.messages.find_coordinator import FindCoordinatorRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.wire.messages.offset_fetch import OffsetFetchRequest
from headgate.wire.messages.sync_group import SyncGroupRequest

GROUP = "g"


class ByName:
    """A router of two nodes: the other one owns group `g`."""

    def __init__(self, here: OneNode, there: OneNode) -> None:
        self._here, self._there = here.router, there.router

    def owner_of(self, group_id: GroupId) -> ShardOwner:
        """By the group's name."""
        return (self._there if group_id == GROUP else self._here).owner_of(group_id)


@pytest.fixture
def there() -> OneNode:
    """Return the node that owns the group."""
    node = OneNode()
    node.node_id, node.advertised_host = 8, "other.example"
    return node


@pytest.fixture
def here(there: OneNode) -> OneNode:
    """The node that is asked."""
    node = OneNode()
    node.router = ByName(node, there)
    return node


@pytest.mark.parametrize("version", range(7))
def test_a_client_is_sent_to_the_owner_of_the_shard(here: OneNode, version: int) -> None:
    """Each group has its own; from version 4 on there may be several."""

    def find(*groups: str) -> list[tuple[int, str, int]]:
        if version >= 4:
            request = FindCoordinatorRequest(coordinator_keys=list(groups))
            found = here.ask(k10_find_coordinator.API, request, version).coordinators
            return [(each.node_id, each.host, each.port) for each in found]
        each = here.ask(k10_find_coordinator.API, FindCoordinatorRequest(key=groups[0]), version)
        return [(each.node_id, each.host, each.port)]

    assert find(GROUP) == [(8, "other.example", 9092)]
    assert find("h") == [(7, "broker.example", 9092)]
    if version >= 4:
        assert find("h", GROUP) == [*find("h"), *find(GROUP)]


def test_any_node_answers_commits_and_fetches(here: OneNode, there: OneNode) -> None:
    """An offset committed at one node is fetched at both, and stored at the owner."""
    assert commit(here, 9, 40, [0, 1]) == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
    assert fetch(here, 9, [0, 1]) == fetch(there, 9, [0, 1])
    assert [offset for _, offset, _, _ in fetch(there, 9, [0, 1])] == [40, 41]
    assert sum(len(shard.offsets) for shard in here.coordinator.shards) == 0


JOIN = JoinGroupRequest(
    group_id=GROUP, session_timeout_ms=10_000, protocols=[JoinGroupRequestProtocol(name="range")]
)
DELETE_OFFSET = OffsetDeleteRequest(
    group_id=GROUP,
    topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])],
)


@pytest.mark.parametrize(
    ("api", "request_", "version"),
    [
        (k09_offset_fetch.API, OffsetFetchRequest(group_id=GROUP, topics=None), 5),
        (k11_join_group.API, JOIN, 4),
        (k12_heartbeat.API, HeartbeatRequest(group_id=GROUP, member_id="m"), 4),
        (k13_leave_group.API, LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]), 3),
        (k14_sync_group.API, SyncGroupRequest(group_id=GROUP, member_id="m"), 4),
        (k15_describe_groups.API, DescribeGroupsRequest(groups=[GROUP]), 5),
        (k42_delete_groups.API, DeleteGroupsRequest(groups_names=[GROUP]), 2),
        (k47_offset_delete.API, DELETE_OFFSET, 0),
    ],
    ids=lambda value: value.name if isinstance(value, Api) else "",
)
def test_every_request_about_a_group_is_answered_by_its_owner(
    here: OneNode, there: OneNode, api: Api, request_: object, version: int
) -> None:
    """If the owner's shards fail, its error is the answer, though those of the node asked work."""
    there.coordinator.errors = dict.fromkeys(range(3), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    said = f"error_code={int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}"
    assert said in repr(here.ask(api, request_, version))
    there.coordinator.errors = {}
    assert said not in repr(here.ask(api, request_, version))


def test_only_the_owner_describes_a_groups_history(here: OneNode) -> None:
    """It reads its own logs; another node answers NOT_COORDINATOR."""
    api = k20004_describe_offset_history.API
    answer = here.ask(api, DescribeOffsetHistoryRequest(group_id=GROUP), 0)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
