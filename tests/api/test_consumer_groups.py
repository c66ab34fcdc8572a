"""The APIs of consumer groups as messages, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.node import OneNode

from headgate.api import (
    k08_offset_commit,
    k09_offset_fetch,
    k11_join_group,
    k13_leave_group,
    k15_describe_groups,
    k16_list_groups,
    k68_consumer_group_heartbeat,
    k69_consumer_group_describe,
)
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName
from headgate.wire.messages import offset_commit as commit_wire
from headgate.wire.messages import offset_fetch as fetch_wire
from headgate.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from headgate.wire.messages.describe_groups import DescribeGroupsRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.wire.messages.list_groups import ListGroupsRequest

NONE = ErrorCode.NONE
T = TopicId(b"t".ljust(16, b"."))
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@pytest.fixture
def node() -> OneNode:
    """A node with a topic t of three partitions, where assignments are made at once."""
    node = OneNode(group_consumer_assignment_interval_ms="0")
    changes = [TopicChange(TopicName("t"), KnownTopic(T, 3)), TopicChange(TopicName("u"), None)]
    node.coordinator.submit_to_all(TopicsChanged(changes), lambda replies: None)
    return node


def heartbeat(node: OneNode, version: int = 1, **fields: Any) -> Any:
    """A heartbeat and its answer."""
    request = ConsumerGroupHeartbeatRequest(**({"group_id": "g", "member_id": "m"} | fields))
    return node.ask(k68_consumer_group_heartbeat.API, request, version)


def join(node: OneNode, version: int = 1, **fields: Any) -> Any:
    """A member joins and reads t."""
    said: dict[str, Any] = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return heartbeat(node, version, **(said | fields))


def assigned(answer: Any) -> list[tuple[bytes, list[int]]]:
    """What an answer assigns."""
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_stays_and_leaves(node: OneNode, version: int) -> None:
    """The join returns the assignment, null means no change, epoch -1 leaves."""
    answer = join(node, version)
    assert (answer.error_code, answer.error_message) == (NONE, None)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert assigned(answer) == [(T, [0, 1, 2])]
    owned = [TopicPartitions(topic_id=T, partitions=[0, 1, 2])]
    answer = heartbeat(node, version, member_epoch=2, topic_partitions=owned)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (NONE, 2, None)
    answer = heartbeat(node, version, member_epoch=-1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (NONE, "m", -1)
    assert heartbeat(node, version, member_epoch=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_in_version_0_the_coordinator_may_create_the_member_id(node: OneNode) -> None:
    """From 1 on the client must, and in both it needs one to continue."""
    answer = join(node, 0, member_id="")
    assert (answer.error_code, answer.member_id) == (NONE, "consumer/1")
    assert join(node, 1, member_id="").error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(node, 0, member_id="", member_epoch=2).error_code == ErrorCode.INVALID_REQUEST


def test_a_refusal_has_a_reason(node: OneNode) -> None:
    """And no member fields."""
    answer = heartbeat(node, member_epoch=5)
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert (answer.member_id, answer.assignment) == (None, None)


def test_a_member_may_subscribe_by_a_regular_expression_in_version_1(node: OneNode) -> None:
    """A later heartbeat returns its topics."""
    answer = join(node, subscribed_topic_names=None, subscribed_topic_regex="t|x")
    assert (answer.member_epoch, assigned(answer)) == (1, [])
    node.advance(0)
    assert assigned(heartbeat(node, member_epoch=1, topic_partitions=[])) == [(T, [0, 1, 2])]
    answer = join(node, member_id="n", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_error_of_a_shard_is_returned(node: OneNode) -> None:
    """By both APIs."""
    for index in range(3):
        node.coordinator.errors[index] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert join(node).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    answer = node.ask(k69_consumer_group_describe.API, request, 1)
    assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", [0, 1])
def test_groups_are_described_in_the_order_asked(node: OneNode, version: int) -> None:
    """Each with its members and assignments, or with its error; operations only on request."""
    join(node, instance_id="i", rack_id="r", server_assignor="range")
    request = ConsumerGroupDescribeRequest(group_ids=["nobody", "g"], include_authorized_operations=True)
    missing, group = node.ask(k69_consumer_group_describe.API, request, version).groups
    assert (missing.group_id, missing.error_code) == ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)
    assert (missing.error_message, missing.authorized_operations) == ("Group nobody not found.", -(2**31))
    assert (group.group_id, group.error_code, group.group_state) == ("g", NONE, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "range")
    assert group.authorized_operations == ALL_OPERATIONS
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host) == ("tester", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "")
    assert member.member_type == (1 if version else -1)
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, topic.partitions) == (T, "t", [0, 1, 2])


@pytest.mark.parametrize("version", [0, 1])
def test_the_empty_group_id_is_not_described(node: OneNode, version: int) -> None:
    """The other groups are."""
    join(node)
    request = ConsumerGroupDescribeRequest(group_ids=["", "g"])
    invalid, valid = node.ask(k69_consumer_group_describe.API, request, version).groups
    assert (invalid.group_id, invalid.error_code, invalid.error_message) == (
        "",
        ErrorCode.INVALID_GROUP_ID,
        None,
    )
    assert valid.error_code == NONE


def test_a_classic_member_of_a_consumer_group_gets_an_id_of_that_kind(node: OneNode) -> None:
    """As in Kafka; that of a classic group's member begins with its client id."""
    join(node)
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")
    given = [
        node.ask(
            k11_join_group.API,
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[protocol],
            ),
            9,
        ).member_id
        for group_id in ("g", "classic")
    ]
    assert [one.split("/")[0].split("-")[0] for one in given] == ["consumer", "tester"]


def test_the_other_group_apis_know_the_type(node: OneNode) -> None:
    """It is listed as a consumer group, unknown to DescribeGroups, and its members can be removed."""
    join(node)
    (listed,) = node.ask(k16_list_groups.API, ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "consumer", "consumer")
    assert node.ask(k16_list_groups.API, ListGroupsRequest(types_filter=["classic"]), 5).groups == []
    described = node.ask(k15_describe_groups.API, DescribeGroupsRequest(groups=["g"]), 6).groups[0]
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    assert node.ask(k13_leave_group.API, request, 5).members[0].error_code == NONE
    assert node.ask(k16_list_groups.API, ListGroupsRequest(), 5).groups[0].group_state == "Empty"


def commit(node: OneNode, version: int, epoch: int, *partitions: int) -> list[int]:
    """The errors of a commit, partition by partition."""
    request = commit_wire.OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=epoch,
        topics=[
            commit_wire.OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    commit_wire.OffsetCommitRequestPartition(partition_index=one, committed_offset=5)
                    for one in partitions
                ],
            )
        ],
    )
    answer = node.ask(k08_offset_commit.API, request, version)
    return [one.error_code for one in answer.topics[0].partitions]


def test_a_members_commit_is_checked_by_its_epoch(node: OneNode) -> None:
    """All partitions have the error; before version 9 there is none (R1.5)."""
    join(node)
    join(node, member_id="n")
    owned = [TopicPartitions(topic_id=T, partitions=[0, 1, 2])]
    kept = assigned(heartbeat(node, member_epoch=2, topic_partitions=owned))[0][1]
    heartbeat(node, member_epoch=2, topic_partitions=[TopicPartitions(topic_id=T, partitions=kept)])
    (moved,) = {0, 1, 2} - set(kept)
    assert commit(node, 9, 2, *kept) == [NONE, NONE]
    assert commit(node, 9, 2, kept[0], moved) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert commit(node, 9, 3, kept[0], moved) == [NONE, NONE]
    assert commit(node, 8, 3, kept[0]) == [ErrorCode.UNSUPPORTED_VERSION]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, NONE),
        ("m", 2, NONE),
        ("m", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_members_fetch_is_checked_by_its_epoch(
    node: OneNode, member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    """The error is the group's, without topics; a repeated request gets the same answer."""
    join(node)
    commit(node, 9, 2, 0)
    topic = fetch_wire.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = fetch_wire.OffsetFetchRequestGroup(
        group_id="g", topics=[topic], member_id=member_id, member_epoch=epoch
    )
    for _ in range(2):
        answer = node.ask(k09_offset_fetch.API, fetch_wire.OffsetFetchRequest(groups=[group]), 9).groups[0]
        assert (answer.error_code, len(answer.topics)) == (error, 0 if error else 1)
