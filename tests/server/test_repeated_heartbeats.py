"""Repeated heartbeats get the responses of decoded ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.kinds_of_shard import consumer_groups
from tests.server.clients import WIDTH, Client, run_scenario

from headgate.core.consumer.commands import ConsumerGroupConfigured
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.framing import request_frame
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.leave_group import LeaveGroupRequest
from headgate.wire.messages.sync_group import SyncGroupRequest


def heartbeat(member_id: str, epoch: int, **more: Any) -> ConsumerGroupHeartbeatRequest:
    said: dict[str, Any] = {"topic_partitions": None} | more
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **said)


JOINING = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


@pytest.mark.parametrize("version", [0, 1])
def test_a_repeated_heartbeat_is_answered_the_same_until_something_happens(version: int) -> None:
    """The responses have the same bytes, until the member gets a new assignment, and later is unknown."""

    async def scenario(client: Client) -> None:
        epoch = (await client.ask(heartbeat("m", 0, **JOINING), version)).member_epoch
        staying = heartbeat("m", epoch)
        answers = {await client.send(staying, version, "again") for _ in range(5)}
        assert len(answers) == 1
        assert client.is_known(staying, version)
        await client.ask(heartbeat("other", 0, **JOINING), version)
        client.node.coordinator.submit(
            GroupId("g"),
            ConsumerGroupConfigured(group_id=GroupId("g"), settings={"consumer.assignment.interval.ms": 0}),
            lambda result: None,
        )
        response = await client.ask(staying, version)
        assert len(response.assignment.topic_partitions[0].partitions) == WIDTH // 2
        await client.ask(heartbeat("m", -1), version)
        for _ in range(3):
            assert (await client.ask(staying, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_a_heartbeat_from_another_host_is_no_repetition() -> None:
    """The description of a group shows the host of a member's last heartbeat."""

    async def scenario(client: Client) -> None:
        epoch = (await client.ask(heartbeat("m", 0, **JOINING), 1)).member_epoch
        answers = set()
        for host in ("/10.0.0.1", "/10.0.0.2", "/10.0.0.2", "/10.0.0.1"):
            client.connection.line.client_host = host
            for _ in range(3):
                answers.add(await client.send(heartbeat("m", epoch), 1, "again"))
            runtime = client.node.coordinator.runtimes[client.node.coordinator.partition_of(GroupId("g"))]
            (member,) = consumer_groups(runtime.shard).by_id[GroupId("g")].members.values()
            assert member.client_host == host
        assert len(answers) == 1

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(5))
def test_a_repeated_classic_heartbeat_is_checked_again(version: int) -> None:
    """It succeeds until the group rebalances or the member is unknown."""

    async def scenario(client: Client) -> None:
        protocols = [JoinGroupRequestProtocol(name="range")]
        join = JoinGroupRequest(
            group_id="c",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = await client.ask(join, 3)
        member: dict[str, Any] = {"group_id": "c", "member_id": joined.member_id}
        await client.ask(SyncGroupRequest(generation_id=joined.generation_id, **member), 0)
        staying = HeartbeatRequest(generation_id=joined.generation_id, **member)
        answers = {await client.send(staying, version, "again") for _ in range(5)}
        assert len(answers) == 1
        assert client.is_known(staying, version)
        another = Client(client.node)
        another.connection.data_received(request_frame(join, 3, 1, "another"))  # waits for the first member
        for _ in range(2):
            assert (await client.ask(staying, version)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        await client.ask(LeaveGroupRequest(**member), 0)
        assert (await client.ask(staying, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_a_heartbeat_that_says_something_is_read_each_time() -> None:
    """A member's reported partitions or subscription may change with each heartbeat, and count."""

    async def scenario(client: Client) -> None:
        epoch = (await client.ask(heartbeat("m", 0, **JOINING), 1)).member_epoch
        said: list[dict[str, Any]] = [
            {"topic_partitions": []},
            {"subscribed_topic_names": ["t"]},
            {"rack_id": "here"},
        ]
        for more in said:
            for _ in range(3):
                assert (await client.ask(heartbeat("m", epoch, **more), 1)).error_code == ErrorCode.NONE
            assert not client.is_known(heartbeat("m", epoch, **more), 1)

    run_scenario(scenario)


def test_a_group_that_was_created_again_does_not_get_its_former_epoch() -> None:
    """A heartbeat that once advanced its member's epoch gets the current one in a new group of that name."""

    async def scenario(client: Client) -> None:
        other = JOINING | {"subscribed_topic_names": ["nowhere"]}
        epoch = (await client.ask(heartbeat("m", 0, **JOINING), 1)).member_epoch
        staying = heartbeat("m", epoch)
        for _ in range(3):
            await client.ask(staying, 1)
        client.node.coordinator.submit(
            GroupId("g"),
            ConsumerGroupConfigured(group_id=GroupId("g"), settings={"consumer.assignment.interval.ms": 0}),
            lambda result: None,
        )
        await client.ask(heartbeat("other", 0, **other), 1)
        assert (await client.ask(staying, 1)).member_epoch > epoch
        for member_id in ("m", "other"):
            await client.ask(heartbeat(member_id, -1), 1)
        await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        for said in (heartbeat("m", 0, **JOINING), heartbeat("m", epoch, topic_partitions=[]), staying):
            assert (await client.ask(said, 1)).member_epoch == epoch

    run_scenario(scenario)
