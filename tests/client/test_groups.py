"""Groups through the client, with nodes of several versions; tests/admin uses a real server."""

from __future__ import annotations

import pytest
from tests.client.conftest import StartNode
from tests.client.leaders import assignment
from tests.client.scripted import Answer, ScriptedNode, every_version

from headgate.client.cluster import Cluster
from headgate.client.configs import own_settings_of_groups
from headgate.client.errors import PartlyRefused, RequestRefused, VersionNotSupported
from headgate.client.groups import delete_groups, describe_groups, list_groups
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.framing import RequestHeader
from headgate.wire.messages import consumer_group_describe as consumer
from headgate.wire.messages import describe_groups as classic
from headgate.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headgate.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from headgate.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headgate.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headgate.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from headgate.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

METADATA, FIND_COORDINATOR, DESCRIBE, LIST, API_VERSIONS, DELETE, DESCRIBE_CONSUMER = (
    3,
    10,
    15,
    16,
    18,
    42,
    69,
)
NEW = {
    METADATA: 13,
    FIND_COORDINATOR: 6,
    DESCRIBE: 6,
    LIST: 5,
    API_VERSIONS: 4,
    DELETE: 2,
    DESCRIBE_CONSUMER: 1,
}
OLD = {METADATA: 5, FIND_COORDINATOR: 2, DESCRIBE: 4, LIST: 3, API_VERSIONS: 3, DELETE: 1}
"""The newest versions of a current node, and of one from before KIP-518, KIP-699 and KIP-848."""
BILLING, ORDERS, NOBODY = GroupId("billing"), GroupId("orders"), GroupId("nobody")
FLIGHTS = TopicName("flights")

pytestmark = pytest.mark.timeout(30)


def node_of(start_node: StartNode, newest: dict[int, int], **answers: Answer) -> ScriptedNode:
    """Start a cluster of one node, with `classic`, `consumer`, `groups` and `deleted` as its responses."""

    def script(header: RequestHeader, frame: bytes) -> Answer:
        here = MetadataResponseBroker(node_id=1, host=node.host, port=node.port)
        found = [Coordinator(key=key, host=node.host, port=node.port) for key in (BILLING, ORDERS, NOBODY)]
        keys = [ApiVersion(api_key=key, max_version=version) for key, version in newest.items()]
        return {
            API_VERSIONS: ApiVersionsResponse(api_keys=keys),
            METADATA: MetadataResponse(brokers=[here]),
            FIND_COORDINATOR: FindCoordinatorResponse(host=node.host, port=node.port, coordinators=found),
            DESCRIBE: answers.get("classic"),
            DESCRIBE_CONSUMER: answers.get("consumer"),
            LIST: answers.get("groups"),
            DELETE: answers.get("deleted"),
        }[header.api_key]

    node = start_node(script)
    return node


def classic_group(group_id: str, **more: object) -> classic.DescribedGroup:
    """Return a stable group with one member, to which two partitions of `flights` are assigned."""
    member = classic.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_assignment=assignment(0, {FLIGHTS: [1, 0]})
    )
    values: dict[str, object] = {
        "group_id": group_id,
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [member],
    }
    return classic.DescribedGroup(**(values | more))  # type: ignore[arg-type]


def test_groups_of_both_types_are_described_together(start_node: StartNode) -> None:
    """A group that is not a consumer group is requested as a classic group. Other groups do not exist."""
    part = consumer.Assignment(
        topic_partitions=[consumer.TopicPartitions(topic_name=FLIGHTS, partitions=[3, 2])]
    )
    new = consumer.DescribedGroup(
        group_id=ORDERS,
        group_state="Reconciling",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="uniform",
        members=[
            consumer.Member(member_id="a", member_epoch=-2, member_type=0, subscribed_topic_regex=""),
            consumer.Member(
                member_id="n",
                member_epoch=5,
                target_assignment=part,
                member_type=1,
                subscribed_topic_names=["orders", "flights"],
                subscribed_topic_regex="o.*",
            ),
        ],
    )
    missing = [
        consumer.DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        for each in (BILLING, NOBODY)
    ]
    not_found = classic.DescribedGroup(group_id=NOBODY, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    node = node_of(
        start_node,
        NEW,
        consumer=consumer.ConsumerGroupDescribeResponse(groups=[new, *missing]),
        classic=classic.DescribeGroupsResponse(groups=[classic_group(BILLING), not_found]),
    )
    with Cluster(f"{node.host}:{node.port}") as cluster:
        described = describe_groups(cluster, [BILLING, NOBODY, ORDERS])
    assert list(described) == [BILLING, NOBODY, ORDERS]
    old_one, new_one = described[BILLING], described[ORDERS]
    assert old_one is not None and new_one is not None and described[NOBODY] is None
    zero, one, two, three = (TopicPartition(FLIGHTS, index) for index in range(4))
    assert (old_one.group_type, old_one.members[0].assignment) == ("Classic", (zero, one))
    assert (new_one.group_type, new_one.state, new_one.group_epoch) == ("Consumer", "Reconciling", 7)
    away, reader = new_one.members
    assert (reader.assignment, reader.target) == ((), (two, three))
    assert (reader.subscribed_topics, reader.subscribed_regex) == (("flights", "orders"), "o.*")
    assert (away.subscribed_topics, away.subscribed_regex) == ((), None)
    assert [(each.is_upgraded, each.is_away) for each in (reader, away)] == [(True, False), (False, True)]
    assert old_one.members[0].is_upgraded is None
    assert old_one.coordinator == f"{node.host}:{node.port}"
    assert [key for key, _ in node.requests].count(FIND_COORDINATOR) == 1


def test_an_old_node_gets_requests_that_it_supports(start_node: StartNode) -> None:
    """One coordinator in each request, no consumer groups. A group in state Dead does not exist."""
    dead = classic.DescribedGroup(group_id=NOBODY, group_state="Dead")
    connect = classic_group(ORDERS, protocol_type="connect")
    answer = classic.DescribeGroupsResponse(groups=[classic_group(BILLING), connect, dead])
    node = node_of(start_node, OLD, classic=answer)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        described = describe_groups(cluster, [BILLING, ORDERS, NOBODY])
    assert described[NOBODY] is None
    found = described[ORDERS]
    assert found is not None
    assert (found.protocol_type, found.members[0].assignment) == ("connect", None)
    asked = [key for key, _ in node.requests]
    assert (asked.count(FIND_COORDINATOR), asked.count(DESCRIBE)) == (3, 1)


def test_filters_that_a_node_is_too_old_for_are_refused(start_node: StartNode) -> None:
    """The node would ignore the filters and list all groups."""
    groups = ListGroupsResponse(groups=[ListedGroup(group_id=BILLING, protocol_type="consumer")])
    node = node_of(start_node, OLD, groups=groups)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        (listed,) = list_groups(cluster)
        assert (listed.group_id, listed.state, listed.group_type) == (BILLING, "", "")
        with pytest.raises(VersionNotSupported, match="too old to list groups by their states"):
            list_groups(cluster, states=["Empty"])
        with pytest.raises(VersionNotSupported, match="too old to list groups by their types"):
            list_groups(cluster, types=["consumer"])


def test_a_list_is_requested_again_if_one_node_fails(start_node: StartNode) -> None:
    """An incomplete list is never returned."""
    answers = [
        ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ListGroupsResponse(groups=[ListedGroup(group_id=BILLING, group_type="classic")]),
    ]

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == LIST:
            return answers.pop(0)
        keys = [ApiVersion(api_key=key, max_version=version) for key, version in NEW.items()]
        here = MetadataResponseBroker(node_id=1, host=node.host, port=node.port)
        return (
            ApiVersionsResponse(api_keys=keys)
            if header.api_key == API_VERSIONS
            else MetadataResponse(brokers=[here])
        )

    node = start_node(script)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        assert [(each.group_id, each.group_type) for each in list_groups(cluster)] == [(BILLING, "Classic")]
    assert answers == []


def test_settings_of_groups_that_are_not_told_are_not_taken_for_none(start_node: StartNode) -> None:
    """As of a group whose settings the user may not describe."""
    refused = DescribeConfigsResult(
        resource_type=32, resource_name=BILLING, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    listed = ConfigResource(resource_name=BILLING, resource_type=32)

    def script(header: RequestHeader, frame: bytes) -> Answer:
        here = MetadataResponseBroker(node_id=1, host=node.host, port=node.port)
        return {
            API_VERSIONS: every_version(),
            METADATA: MetadataResponse(brokers=[here]),
            DescribeConfigsRequest.API_KEY: DescribeConfigsResponse(results=[refused]),
            ListConfigResourcesRequest.API_KEY: ListConfigResourcesResponse(config_resources=[listed]),
        }[header.api_key]

    node = start_node(script)
    says = "the settings of group billing: GROUP_AUTHORIZATION_FAILED"
    with (
        Cluster(f"{node.host}:{node.port}", timeout_s=5) as cluster,
        pytest.raises(RequestRefused, match=says),
    ):
        own_settings_of_groups(cluster, "offsets.retention.ms")


def test_groups_that_cannot_be_deleted_are_reported_and_the_others_deleted(start_node: StartNode) -> None:
    """The error has each of these groups with its error code."""
    results = [
        DeletableGroupResult(group_id=BILLING, error_code=ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult(group_id=ORDERS),
    ]
    node = node_of(start_node, NEW, deleted=DeleteGroupsResponse(results=results))
    with Cluster(f"{node.host}:{node.port}") as cluster, pytest.raises(PartlyRefused) as refused:
        delete_groups(cluster, [BILLING, ORDERS])
    assert {group: error.error for group, error in refused.value.refused.items()} == {
        BILLING: ErrorCode.NON_EMPTY_GROUP
    }
