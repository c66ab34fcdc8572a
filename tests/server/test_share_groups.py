"""Share groups against a node in memory: members, offsets, and their administration (KIP-932)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.server.clients import Client, T
from tests.server.disk import DATA_DIR, new_disk
from tests.topics.disk import batch, sync
from tests.waiting import until

from headgate.api import share_initialization
from headgate.domain.errors import ErrorCode
from headgate.domain.settings import Settings
from headgate.log.log import Log
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime import failures
from headgate.runtime.clock import Clock
from headgate.runtime.failures import Where
from headgate.server.node import BrokerNode
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.messages import alter_share_group_offsets as alter
from headgate.wire.messages import delete_groups, list_groups
from headgate.wire.messages import delete_share_group_offsets as delete
from headgate.wire.messages import describe_share_group_offsets as describe
from headgate.wire.messages import incremental_alter_configs as configs
from headgate.wire.messages import share_group_describe as groups
from headgate.wire.messages import share_group_heartbeat as heartbeats

NONE = ErrorCode.NONE


class ShareClient:
    """One client of a node, which is a member of group `g` if it joins."""

    def __init__(self, node: BrokerNode) -> None:
        self.client = Client(node)

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request that is like no other one before; the response."""
        return await self.client.ask(request, version, f"share {next(self.client._ids)}")

    async def heartbeat(self, epoch: int, *names: str) -> Any:
        """Send a heartbeat as member `m`; the response."""
        return await self.ask(
            heartbeats.ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=list(names) or None
            ),
            1,
        )

    async def join(self) -> list[int]:
        """Join, and send heartbeats until there is an assignment: its partitions of the topic `t`."""
        response = await self.heartbeat(0, "t")
        assert (response.error_code, response.member_epoch) == (NONE, 2)
        while response.member_epoch == 2:
            response = await self.heartbeat(2)
            assert response.error_code == NONE
        (topic,) = response.assignment.topic_partitions
        assert (response.member_epoch, topic.topic_id) == (3, T)
        partitions: list[int] = topic.partitions
        return partitions

    async def described(self) -> Any:
        """The description of the group."""
        response = await self.ask(groups.ShareGroupDescribeRequest(group_ids=["g"]), 1)
        (group,) = response.groups
        return group

    async def offsets(self, group: str = "g", topics: list[Any] | None = None) -> Any:
        """The description of a group's offsets."""
        asked = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        response = await self.ask(describe.DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        (found,) = response.groups
        return found

    async def altered(self, group: str = "g", topic: str = "t", **starts: int) -> Any:
        """Set start offsets by partition, such as p0=5; the response."""
        partitions = [
            alter.AlterShareGroupOffsetsRequestPartition(partition_index=int(name[1:]), start_offset=start)
            for name, start in starts.items()
        ]
        topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
        return await self.ask(alter.AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)

    async def deleted(self, group: str, *topics: str) -> Any:
        """Delete the offsets of topics; the response."""
        named = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=one) for one in topics]
        return await self.ask(delete.DeleteShareGroupOffsetsRequest(group_id=group, topics=named), 0)

    async def deleted_group(self) -> ErrorCode:
        """Delete the group; the error."""
        response = await self.ask(delete_groups.DeleteGroupsRequest(groups_names=["g"]), 2)
        return ErrorCode(response.results[0].error_code)


Scenario = Callable[[ShareClient, BrokerNode], Coroutine[Any, Any, None]]


def run(*scenarios: Scenario) -> None:
    """Run scenarios, each against a node that starts on what a crash of the one before left."""

    async def main() -> None:
        files = new_disk()
        for scenario in scenarios:
            node = await started(files)
            await scenario(ShareClient(node), node)
            files.kill()
            node.close()

    asyncio.run(asyncio.wait_for(main(), 30))


async def started(files: MemoryFileSystem) -> BrokerNode:
    node = BrokerNode(files, DATA_DIR, Settings({"group.share.assignment.interval.ms": "0"}), Clock())
    await node.start()
    if node.topics.by_name("t") is None:
        node.topics.create(NewTopic("t", T, 2), node.system_time())
    return node


def starts_of(group: Any) -> list[tuple[int, int, int, int]]:
    """Partition, start offset, lag and error of the group's only topic."""
    (topic,) = group.topics
    assert (topic.topic_name, topic.topic_id) == ("t", T)
    return [(one.partition_index, one.start_offset, one.lag, one.error_code) for one in topic.partitions]


def test_a_member_joins_is_described_and_survives_a_crash() -> None:
    """Its partitions are assigned when their states are initialized."""

    async def join(client: ShareClient, node: BrokerNode) -> None:
        assert await client.join() == [0, 1]
        group = await client.described()
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
        (member,) = group.members
        (topic,) = member.assignment.topic_partitions
        assert (member.member_id, topic.topic_name, topic.partitions) == ("m", "t", [0, 1])
        listed = await client.ask(list_groups.ListGroupsRequest(types_filter=["Share"]), 5)
        assert [(one.group_id, one.group_state) for one in listed.groups] == [("g", "Stable")]
        assert starts_of(await client.offsets()) == [(0, -1, -1, NONE), (1, -1, -1, NONE)]

    async def again(client: ShareClient, node: BrokerNode) -> None:
        response = await client.heartbeat(3)
        assert (response.error_code, response.member_epoch, response.assignment) == (NONE, 3, None)
        assert (await client.deleted_group()) == ErrorCode.NON_EMPTY_GROUP

    run(join, again)


def test_states_are_initialized_though_the_connection_is_lost() -> None:
    """The member gets its partitions over its next connection."""

    async def scenario(client: ShareClient, node: BrokerNode) -> None:
        response = await client.heartbeat(0, "t")
        assert not response.assignment.topic_partitions
        client.client.connection.connection_lost(None)
        await until(lambda: len(node.share_state.shards()[0].states) == 2, "the states are there", 10)
        again = ShareClient(node)
        while not response.assignment or not response.assignment.topic_partitions:
            response = await again.heartbeat(2)
            assert response.error_code == NONE
            assert response.member_epoch in (2, 3)

    run(scenario)


@pytest.mark.plants_failures("housekeeping")
def test_an_initialization_that_fails_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The member's connection has its answer, and stays open."""

    async def scenario(client: ShareClient, node: BrokerNode) -> None:
        monkeypatch.setattr(share_initialization, "_HAVE_STATES", None)
        await client.heartbeat(0, "t")
        await until(lambda: bool(failures.counts()), "it failed", 10)
        assert failures.counts() == {Where.HOUSEKEEPING: 1}
        assert "share initialization failed" in caplog.text
        assert (await client.heartbeat(2)).error_code == NONE

    run(scenario)


def test_offsets_are_altered_and_deleted_while_the_group_is_empty() -> None:
    """Also those of a group that did not exist; a group with members refuses."""

    async def scenario(client: ShareClient, node: BrokerNode) -> None:
        new = await client.altered("new", p0=4, p7=4)
        (topic,) = new.responses
        assert new.error_code == NONE
        assert [one.error_code for one in topic.partitions] == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert starts_of(await client.offsets("new")) == [(0, 4, 0, NONE)]
        await client.join()
        assert (await client.altered(p0=1)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await client.deleted("g", "t")).error_code == ErrorCode.NON_EMPTY_GROUP
        await client.heartbeat(-1)
        assert (await client.altered(p1=9)).error_code == NONE
        assert starts_of(await client.offsets()) == [(0, -1, -1, NONE), (1, 9, 0, NONE)]
        gone = await client.deleted("g", "t", "u")
        assert [one.error_code for one in gone.responses] == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (await client.offsets()).topics == []
        again = await client.deleted("g", "t")
        assert again.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await client.deleted("none", "t")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(scenario)


def test_offsets_of_unknown_things_are_described_as_unknown() -> None:
    """An unknown group has start offset -1; an unknown topic or partition has an error."""

    async def scenario(client: ShareClient, node: BrokerNode) -> None:
        asked = [
            describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 5])
            for name in ("t", "u")
        ]
        group = await client.offsets("none", asked)
        assert group.error_code == NONE
        errors = [(one.start_offset, one.error_code) for topic in group.topics for one in topic.partitions]
        unknown = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert errors == [(-1, NONE), unknown, unknown, unknown]
        assert (await client.offsets("")).error_code == ErrorCode.INVALID_GROUP_ID

    run(scenario)


@pytest.mark.interpreted
def test_description_opens_logs_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash opening reads much; the loop does other work meanwhile."""
    threads: list[threading.Thread] = []
    load = Topic.load_log

    def watched(topic: Topic, *given: Any) -> Log:
        if topic.name == "t":
            threads.append(threading.current_thread())
        return load(topic, *given)

    async def before(client: ShareClient, node: BrokerNode) -> None:
        topic = node.topics.by_id(T)
        assert topic is not None
        topic.partition(1).append(batch(b"a", b"b"), node.system_time())
        sync(topic, 1)
        await client.altered(p1=1)
        monkeypatch.setattr(Topic, "load_log", watched)

    async def after(client: ShareClient, node: BrokerNode) -> None:
        assert starts_of(await client.offsets()) == [(1, 1, 1, NONE)]
        assert len(threads) == 1
        assert threads[0] is not threading.main_thread()

    run(before, after)


def test_a_deleted_group_leaves_no_state() -> None:
    """The group that is created next begins anew, with states of its own."""

    async def delete_it(client: ShareClient, node: BrokerNode) -> None:
        await client.join()
        await client.heartbeat(-1)
        await client.altered(p0=7)
        assert await client.deleted_group() == NONE
        assert node.share_state.shards()[0].states == {}
        assert await client.deleted_group() == ErrorCode.GROUP_ID_NOT_FOUND

    async def again(client: ShareClient, node: BrokerNode) -> None:
        assert await client.join() == [0, 1]
        assert starts_of(await client.offsets()) == [(0, -1, -1, NONE), (1, -1, -1, NONE)]

    run(delete_it, again)


def test_settings_of_a_share_group_are_in_force_at_once() -> None:
    """Those that members see; values out of bounds are refused."""

    async def scenario(client: ShareClient, node: BrokerNode) -> None:
        async def configured(name: str, value: str) -> int:
            config = configs.AlterableConfig(name=name, config_operation=0, value=value)
            resource = configs.AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
            response = await client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
            error: int = response.responses[0].error_code
            return error

        assert await configured("share.heartbeat.interval.ms", "7000") == NONE
        assert (await client.heartbeat(0, "t")).heartbeat_interval_ms == 7000
        for name, good, bad in (
            ("share.auto.offset.reset", "by_duration:PT1H", "by_duration:1h"),
            ("share.isolation.level", "read_committed", "serializable"),
            ("share.record.lock.duration.ms", "15000", "14999"),
            ("share.delivery.count.limit", "10", "11"),
            ("share.partition.max.record.locks", "4000", "4001"),
            ("share.renew.acknowledge.enable", "false", "no"),
        ):
            assert await configured(name, good) == NONE
            assert await configured(name, bad) == ErrorCode.INVALID_CONFIG

    run(scenario)
