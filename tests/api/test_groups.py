"""The APIs of classic groups as messages, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.node import OneCall, OneNode
from tests.core.kinds_of_shard import classic_groups

from headgate.api import (
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
)
from headgate.api.contract import RequestSteps
from headgate.core.events import Event, MemberRemoved
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.describe_groups import DescribeGroupsRequest
from headgate.wire.messages.find_coordinator import FindCoordinatorRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.wire.messages.list_groups import ListGroupsRequest
from headgate.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NONE = ErrorCode.NONE
UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID


def join_request(**changes: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01")],
    }
    return JoinGroupRequest(**(values | changes))


def joined(node: OneNode, version: int, **changes: Any) -> Any:
    """The answer to a join that takes part in a first generation."""
    call = node.send(k11_join_group.API, join_request(**changes), version)
    if call.is_answered and call.response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        call = node.send(
            k11_join_group.API, join_request(**(changes | {"member_id": call.response.member_id})), version
        )
    node.advance(3_000)
    assert call.is_answered
    return call.response


def sync_request(member_id: str, generation: int, **changes: Any) -> SyncGroupRequest:
    values: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "generation_id": generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
    }
    return SyncGroupRequest(**(values | changes))


def stable(node: OneNode, **changes: Any) -> str:
    """A stable group of one member; its id."""
    member_id = joined(node, 9, **changes).member_id
    group_id = changes.get("group_id", "g")
    answer = node.ask(k14_sync_group.API, sync_request(member_id, 1, group_id=group_id), 5)
    assert answer.error_code == NONE
    return str(member_id)


@pytest.mark.parametrize("version", range(4))
def test_one_coordinator_is_found(version: int) -> None:
    """This node, for every group."""
    response = OneNode().ask(k10_find_coordinator.API, FindCoordinatorRequest(key="g"), version)
    assert (response.error_code, response.node_id) == (NONE, 7)
    assert (response.host, response.port) == ("broker.example", 9092)


@pytest.mark.parametrize("version", range(4, 7))
def test_several_coordinators_are_found(version: int) -> None:
    """One for each key, in order."""
    request = FindCoordinatorRequest(coordinator_keys=["a", "", "b"])
    found = OneNode().ask(k10_find_coordinator.API, request, version).coordinators
    assert [(one.key, one.error_code, one.node_id) for one in found] == [("a", 0, 7), ("", 0, 7), ("b", 0, 7)]


def test_this_node_is_the_coordinator_of_transactions() -> None:
    """As of groups, in every version with key types."""
    node = OneNode()
    for version in (1, 3):
        old = node.ask(k10_find_coordinator.API, FindCoordinatorRequest(key="x", key_type=1), version)
        assert (old.error_code, old.node_id) == (ErrorCode.NONE, 7)
    request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
    [new] = node.ask(k10_find_coordinator.API, request, 6).coordinators
    assert (new.key, new.error_code, new.node_id) == ("x", ErrorCode.NONE, 7)


@pytest.mark.parametrize(("key_type", "reason"), [(2, "The key"), (3, "Unknown"), (-1, "Unknown")])
def test_other_coordinators_are_refused_with_a_reason(key_type: int, reason: str) -> None:
    """The error is not retriable: a client would retry for ever."""
    node = OneNode()
    old = node.ask(k10_find_coordinator.API, FindCoordinatorRequest(key="x", key_type=key_type), 3)
    assert (old.error_code, old.node_id, old.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert old.error_message.startswith(reason)
    request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)
    [new] = node.ask(k10_find_coordinator.API, request, 6).coordinators
    assert (new.key, new.error_code, new.node_id) == ("x", ErrorCode.INVALID_REQUEST, -1)
    assert new.error_message.startswith(reason)


def test_the_join_response_of_a_large_groups_leader_is_encoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other responses are short, and are not."""
    made: list[int] = []
    answer_aside = OneCall.answer_aside

    def aside(call: OneCall, make: Any) -> None:
        answer_aside(call, make)
        made.append(len(call.response.members))

    monkeypatch.setattr(OneCall, "answer_aside", aside)
    monkeypatch.setattr(k11_join_group, "_MOST_MEMBERS_AT_ONCE", 1)
    node = OneNode()
    calls = [node.send(k11_join_group.API, join_request(), 3) for _ in range(3)]
    node.advance(6_000)
    assert sorted(len(call.response.members) for call in calls) == [0, 0, 3]
    assert made == [3]


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_heartbeats_and_leaves(version: int) -> None:
    """Every API in a matching version."""
    node = OneNode()
    call = node.send(k11_join_group.API, join_request(), version)
    if version >= 4:
        assert call.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert call.response.member_id == "tester-1"
        call = node.send(k11_join_group.API, join_request(member_id="tester-1"), version)
    assert not call.is_answered
    node.advance(3_000)
    answer = call.response
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 1, answer.member_id)
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert [(one.member_id, one.metadata) for one in answer.members] == [("tester-1", b"\x00\x01")]
    synced = node.ask(k14_sync_group.API, sync_request("tester-1", 1), min(version, 5))
    assert (synced.error_code, synced.assignment) == (NONE, b"all")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="tester-1")
    assert node.ask(k12_heartbeat.API, beat, min(version, 4)).error_code == NONE
    leave = LeaveGroupRequest(
        group_id="g", member_id="tester-1", members=[MemberIdentity(member_id="tester-1")]
    )
    assert node.ask(k13_leave_group.API, leave, min(version, 5)).error_code == NONE
    assert node.ask(k12_heartbeat.API, beat, min(version, 4)).error_code == UNKNOWN_MEMBER


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_in_every_version(version: int) -> None:
    """The protocol name is "" before version 7 and null from there; the member id is echoed."""
    answer = OneNode().ask(k11_join_group.API, join_request(member_id="x"), version)
    assert (answer.error_code, answer.member_id) == (UNKNOWN_MEMBER, "x")
    assert answer.protocol_name == (None if version >= 7 else "")
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])


def test_the_first_version_has_one_timeout() -> None:
    """Version 0 rebalances within the session timeout."""
    node = OneNode()
    stable(node)
    first = node.send(k11_join_group.API, join_request(rebalance_timeout_ms=1), 0)
    node.advance(9_000)
    assert not first.is_answered, "the other member may take a minute"
    shard = node.coordinator.shards[node.coordinator.partition_of("g")]  # type: ignore[arg-type]
    described = classic_groups(shard).live[GroupId("g")]
    assert {member.rebalance_timeout_ms for member in described.members.values()} == {60_000, 10_000}


def test_a_protocol_named_twice_counts_once() -> None:
    """With its first metadata."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=one) for one in (b"", b"\x00")]
    answer = joined(OneNode(), 9, protocols=protocols)
    assert answer.error_code == NONE
    assert answer.members[0].metadata == b""


def test_a_static_members_id_begins_with_its_instance_id() -> None:
    """As in Kafka; from version 5 the leader gets instance ids."""
    for version in range(5, 10):
        answer = joined(OneNode(), version, group_instance_id="i")
        assert answer.member_id == "i-1"
        assert answer.members[0].group_instance_id == "i"


@pytest.mark.parametrize(
    ("version", "leader", "skips"), [(5, "i-1", False), (8, "i-1", False), (9, "i-2", True)]
)
def test_a_static_leader_returns(version: int, leader: str, skips: bool) -> None:
    """Up to version 8 it gets its old id as leader, from 9 it skips the assignment, as seen of Kafka
    4.3.1.
    """
    node = OneNode()
    stable(node, group_instance_id="i")
    answer = node.ask(k11_join_group.API, join_request(group_instance_id="i"), version)
    assert (answer.member_id, answer.leader, answer.skip_assignment) == ("i-2", leader, skips)
    assert len(answer.members) == (1 if skips else 0)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_a_sync_must_name_its_protocol_from_version_5(missing: str) -> None:
    """Earlier versions cannot (KIP-559)."""
    node = OneNode()
    member_id = stable(node)
    request = sync_request(member_id, 1, **{missing: None})
    assert node.ask(k14_sync_group.API, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert node.ask(k14_sync_group.API, request, 4).error_code == NONE


@pytest.mark.parametrize("version", range(6))
def test_a_leave_of_an_unknown_member(version: int) -> None:
    """Up to version 2 the error is the response's, from 3 the member's, as seen of Kafka 4.3.1."""
    node = OneNode()
    for group_id in ("nobody", "g"):
        request = LeaveGroupRequest(
            group_id=group_id, member_id="x", members=[MemberIdentity(member_id="x", group_instance_id="i")]
        )
        answer = node.ask(k13_leave_group.API, request, version)
        if version < 3:
            assert answer.error_code == UNKNOWN_MEMBER
        else:
            assert answer.error_code == NONE
            [member] = answer.members
            assert (member.member_id, member.group_instance_id, member.error_code) == (
                "x",
                "i",
                UNKNOWN_MEMBER,
            )
        stable(node) if group_id == "nobody" else None


def test_the_reason_of_a_leave_is_reported() -> None:
    """The client's words, of which 255 characters are kept, as in Kafka."""
    node = OneNode()
    member_id = stable(node)
    found: list[Event] = []
    for shard in node.coordinator.shards:
        shard.events.listener = found.append
    leaving = MemberIdentity(member_id=member_id, reason="r" * 300)
    node.ask(k13_leave_group.API, LeaveGroupRequest(group_id="g", members=[leaving]), 5)
    assert [event.client_reason for event in found if isinstance(event, MemberRemoved)] == ["r" * 255]


@pytest.mark.parametrize("version", range(6))
def test_a_leave_without_a_group_id(version: int) -> None:
    """The error is the response's in every version."""
    request = LeaveGroupRequest(members=[MemberIdentity(member_id="x")])
    assert OneNode().ask(k13_leave_group.API, request, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(version: int) -> None:
    """A stable group and an unknown one in every version, as seen of Kafka 4.3.1."""
    node = OneNode()
    member_id = stable(node, group_instance_id="i")
    request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
    there, missing = node.ask(k15_describe_groups.API, request, version).groups
    assert (there.error_code, there.group_state, there.protocol_type, there.protocol_data) == (
        NONE,
        "Stable",
        "consumer",
        "range",
    )
    [member] = there.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "tester", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"\x00\x01", b"all")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert there.authorized_operations == (3400 if version >= 3 else -(2**31))
    assert (missing.group_id, missing.group_state) == ("nobody", "Dead")
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    assert missing.error_message == ("Group nobody not found." if version >= 6 else None)


def test_a_group_named_more_than_once_is_described_once() -> None:
    """A short request cannot have a large group described many times."""
    node = OneNode()
    joined(node, 5)
    request = DescribeGroupsRequest(groups=["g", "h", "g", "g"])
    assert [one.group_id for one in node.ask(k15_describe_groups.API, request, 5).groups] == ["g", "h"]


def test_a_large_group_is_described_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member is a step, with pauses, and the response is encoded in a thread."""
    node = OneNode()
    for _ in range(30):
        node.send(k11_join_group.API, join_request(), 3)
    node.advance(3_000)
    counts: list[int] = []

    def counted(call: OneCall, steps: RequestSteps[Any]) -> None:
        counts.append(len([*steps]))

    monkeypatch.setattr(OneCall, "answer_in_steps", counted)
    node.send(k15_describe_groups.API, DescribeGroupsRequest(groups=["g"]), 5)
    assert counts == [1 + 30]


def test_operations_not_asked_for_are_not_returned() -> None:
    """The smallest integer means that."""
    [group] = OneNode().ask(k15_describe_groups.API, DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.authorized_operations == -(2**31)


def test_the_error_of_a_shard_in_every_api() -> None:
    """Each API returns it where it can; a heartbeat gets no error."""
    node = OneNode()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.coordinator.errors = dict.fromkeys(range(3), loading)
    beat = HeartbeatRequest(group_id="g", member_id="m")
    assert node.ask(k12_heartbeat.API, beat, 4).error_code == NONE
    answer = node.ask(k11_join_group.API, join_request(member_id="m"), 9)
    assert (answer.error_code, answer.member_id) == (loading, "m")
    assert node.ask(k14_sync_group.API, sync_request("m", 1), 5).error_code == loading
    leave = LeaveGroupRequest(group_id="g", member_id="m", members=[MemberIdentity(member_id="m")])
    for version in range(6):
        assert node.ask(k13_leave_group.API, leave, version).error_code == loading
    [group] = node.ask(k15_describe_groups.API, DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (group.error_code, group.group_state) == (loading, "")
    [result] = node.ask(k42_delete_groups.API, DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == loading
    node.coordinator.errors = {1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert node.ask(k12_heartbeat.API, beat, 4).error_code != loading
    listed = node.ask(k16_list_groups.API, ListGroupsRequest(), 5)
    assert (listed.error_code, listed.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


@pytest.mark.parametrize("version", range(6))
def test_groups_of_all_shards_are_listed(version: int) -> None:
    """With states from version 4, types from version 5, and their filters."""
    node = OneNode()
    names = [f"group-{number}" for number in range(6)]
    for name in names:
        stable(node, group_id=name, session_timeout_ms=60_000)
    request = ListGroupsRequest(states_filter=["stable"], types_filter=["CLASSIC"])
    groups = node.ask(k16_list_groups.API, request, version).groups
    assert sorted(group.group_id for group in groups) == names
    assert {group.protocol_type for group in groups} == {"consumer"}
    assert {group.group_state for group in groups} == {"Stable" if version >= 4 else ""}
    assert {group.group_type for group in groups} == {"classic" if version >= 5 else ""}
    nothing = node.ask(k16_list_groups.API, ListGroupsRequest(states_filter=["no such"]), version).groups
    assert len(nothing) == (0 if version >= 4 else 6)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(version: int) -> None:
    """Each is answered once, also if it was named twice."""
    node = OneNode()
    member_id = stable(node, group_id="left")
    leave = LeaveGroupRequest(group_id="left", members=[MemberIdentity(member_id=member_id)])
    node.ask(k13_leave_group.API, leave, 5)
    stable(node)
    request = DeleteGroupsRequest(groups_names=["g", "left", "nobody", "left"])
    results = node.ask(k42_delete_groups.API, request, version).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("left", NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_a_parked_call_is_answered_later() -> None:
    """Followers wait for the leader; each call gets its own response."""
    node = OneNode()
    calls: list[OneCall] = [node.send(k11_join_group.API, join_request(), 3) for _ in range(3)]
    node.advance(6_000)
    members = [call.response.member_id for call in calls]
    assert len(set(members)) == 3
    followers = [node.send(k14_sync_group.API, sync_request(one, 1), 3) for one in members[1:]]
    assert not any(call.is_answered for call in followers)
    assignments = [SyncGroupRequestAssignment(member_id=one, assignment=one.encode()) for one in members]
    node.ask(k14_sync_group.API, sync_request(members[0], 1, assignments=assignments), 3)
    assert [call.response.assignment.decode() for call in followers] == members[1:]
