"""The RPCs of the share coordinator against a node in memory, over a crash and a pruned log (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.clients import Client, T
from tests.server.disk import DATA_DIR, new_disk

from headgate.core.share.state.commands import InitializeState, ShareKey, WriteState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records.share_batches import StateBatch
from headgate.runtime.checkpoints import CheckpointGivenUp, CheckpointWriter
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.server.share_state import prune
from headgate.topics.topics import NewTopic
from headgate.wire.messages import delete_share_group_state as delete
from headgate.wire.messages import find_coordinator as find
from headgate.wire.messages import initialize_share_group_state as initialize
from headgate.wire.messages import read_share_group_state as read
from headgate.wire.messages import read_share_group_state_summary as summary
from headgate.wire.messages import write_share_group_state as write

NONE = ErrorCode.NONE


async def started(files: MemoryFileSystem) -> BrokerNode:
    """Start a node on a disk, with the topic `t`."""
    settings = Settings({"share.coordinator.snapshot.update.records.per.snapshot": "2"})
    node = BrokerNode(files, DATA_DIR, settings, Clock())
    await node.start()
    if node.topics.by_name("t") is None:
        node.topics.create(NewTopic("t", T, 2), node.system_time())
    return node


async def ask(client: Client, request: Any, version: int) -> list[Any]:
    """Send a request about one topic; return its partitions in the response."""
    response = await client.ask(request, version, f"share {next(client._ids)}")
    (topic,) = response.results
    assert topic.topic_id == T
    partitions: list[Any] = topic.partitions
    return partitions


async def initialized(client: Client, start: int) -> list[Any]:
    partitions = [
        initialize.PartitionData(partition=one, state_epoch=1, start_offset=start) for one in (0, 1, 2)
    ]
    topics = [initialize.InitializeStateData(topic_id=T, partitions=partitions)]
    return await ask(client, initialize.InitializeShareGroupStateRequest(group_id="g", topics=topics), 0)


async def written(client: Client, start: int, first: int, count: int) -> Any:
    batches = [
        write.StateBatch(first_offset=first, last_offset=first + 9, delivery_state=2, delivery_count=1)
    ]
    partition = write.PartitionData(
        partition=0,
        state_epoch=1,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=count,
        state_batches=batches,
    )
    topics = [write.WriteStateData(topic_id=T, partitions=[partition])]
    (result,) = await ask(client, write.WriteShareGroupStateRequest(group_id="g", topics=topics), 1)
    return result


async def state(client: Client) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Return start offset and batches of partition 0."""
    partitions = [read.PartitionData(partition=0, leader_epoch=0)]
    topics = [read.ReadStateData(topic_id=T, partitions=partitions)]
    (result,) = await ask(client, read.ReadShareGroupStateRequest(group_id="g", topics=topics), 0)
    assert (result.error_code, result.state_epoch) == (NONE, 1)
    batches = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in result.state_batches
    ]
    return result.start_offset, batches


async def deleted(client: Client, *indexes: int) -> None:
    partitions = [delete.PartitionData(partition=one) for one in indexes]
    topics = [delete.DeleteStateData(topic_id=T, partitions=partitions)]
    request = delete.DeleteShareGroupStateRequest(group_id="g", topics=topics)
    assert [one.error_code for one in await ask(client, request, 0)] == [NONE for _ in indexes]


async def summed_up(client: Client) -> list[tuple[int, int, int]]:
    """Return error, start offset and delivery complete count of both partitions."""
    partitions = [summary.PartitionData(partition=one, leader_epoch=0) for one in (0, 1)]
    topics = [summary.ReadStateSummaryData(topic_id=T, partitions=partitions)]
    request = summary.ReadShareGroupStateSummaryRequest(group_id="g", topics=topics)
    results = await ask(client, request, 1)
    return [(one.error_code, one.start_offset, one.delivery_complete_count) for one in results]


def test_states_live_through_a_crash() -> None:
    """They are initialized, written, read and deleted over the wire; what was answered is still there."""

    async def scenario() -> None:
        files = new_disk()
        node = await started(files)
        client = Client(node)
        errors = [(one.error_code, one.error_message) for one in await initialized(client, 100)]
        assert errors[:2] == [(NONE, None)] * 2
        assert errors[2][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors[2][1]
        for number in range(5):
            assert (await written(client, 100 + number, 200 + 20 * number, number)).error_code == NONE
        expected = (104, [(200 + 20 * number, 209 + 20 * number, 2, 1) for number in range(5)])
        assert await state(client) == expected
        files.kill()
        node.close()
        node = await started(files)
        client = Client(node)
        assert await state(client) == expected
        assert await summed_up(client) == [(NONE, 104, 4), (NONE, 100, 0)]
        await deleted(client, 0)
        assert await summed_up(client) == [(NONE, -1, -1), (NONE, 100, 0)]
        refused = await written(client, 300, 300, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        node.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_log_before_the_oldest_snapshot_is_removed() -> None:
    """And the states are as before after the next start."""

    async def scenario() -> None:
        files = new_disk()
        node = await started(files)
        client = Client(node)
        await initialized(client, 100)
        for number in range(7):
            await written(client, 100, 200 + 20 * number, number)
        await initialized(client, 50)  # a new snapshot of both
        for number in range(4):
            await written(client, 60, 200 + 20 * number, number)
        expected = await state(client)
        (runtime,) = node.share_state.runtimes
        partition = node.topics.by_name("__share_group_state").partition(0)  # type: ignore[union-attr]
        prune(runtime)
        assert partition.log.log_start_offset == runtime.shard.needed_position() > 5
        before = partition.log.log_start_offset
        newer = [
            InitializeState(key=ShareKey(GroupId("g"), T, index), state_epoch=1, start_offset=50)
            for index in (0, 1)
        ]
        for command in newer:
            node.share_state.submit(command.key.name, command, lambda result: None)
        prune(runtime)
        assert runtime.shard.needed_position() > before == partition.log.log_start_offset, "not durable yet"
        async with asyncio.timeout(10):
            while partition.log.log_start_offset == before:
                await asyncio.sleep(0)
        assert partition.log.durable_offset >= runtime.position
        expected = await state(client)
        node.close()
        node = await started(files)
        assert await state(Client(node)) == expected
        node.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_state_deleted_while_a_checkpoint_is_written_does_not_come_back() -> None:
    """The checkpoint has the state, and the log has no tombstone of it any more: the log decides."""

    async def scenario() -> None:
        files = new_disk()
        node = await started(files)
        client = Client(node)
        await initialized(client, 100)
        (runtime,) = node.share_state.runtimes
        writer = CheckpointWriter(runtime)
        did: list[Callable[[], None]] = []

        async def and_delete(work: Callable[[], None]) -> None:
            work()
            did.append(work)
            if len(did) == 2:  # the file was begun, and has the states
                await deleted(client, 0)
                newer = InitializeState(key=ShareKey(GroupId("g"), T, 1), state_epoch=1, start_offset=50)
                runtime.submit(newer, lambda result: prune(runtime))

        with pytest.raises(CheckpointGivenUp, match="the log starts at 3, past the position 2"):
            await writer.write(and_delete)
        files.kill()
        node.close()
        node = await started(files)
        assert await summed_up(Client(node)) == [(NONE, -1, -1), (NONE, 50, 0)]
        node.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_states_of_a_deleted_topic_are_removed() -> None:
    """The shard learns of topics, of new ones and of deletions."""

    async def scenario() -> None:
        node = await started(new_disk())
        other = TopicId(b"o" * 16)
        node.topics.create(NewTopic("other", other, 1), node.system_time())
        key = ShareKey(GroupId("g"), other, 0)
        replies: list[Any] = []
        node.share_state.submit(key.name, InitializeState(key=key, state_epoch=0), replies.append)
        batches = [StateBatch(0, 1, 2, 1)]
        command = WriteState(key=key, state_epoch=0, leader_epoch=0, batches=batches)
        node.share_state.submit(key.name, command, replies.append)
        async with asyncio.timeout(10):
            while len(replies) < 2:
                await asyncio.sleep(0)
            assert [one.error for one in replies] == [NONE, NONE]
            (runtime,) = node.share_state.runtimes
            node.topics.delete(node.topics.by_id(other), node.system_time())  # type: ignore[arg-type]
            while runtime.shard.states:
                await asyncio.sleep(0.001)
        node.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", NONE),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAQ:12", NONE),
        ("g", ErrorCode.INVALID_REQUEST),
        ("g:t:0", ErrorCode.INVALID_REQUEST),
        (":AAAAAAAAAAAAAAAAAAAAAQ:0", ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_coordinator_of_a_share_partition_is_this_node(key: str, error: ErrorCode) -> None:
    """By a key of group, topic id and partition; another key is refused."""

    async def scenario() -> None:
        node = await started(new_disk())
        request = find.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        response = await Client(node).ask(request, 6)
        (found,) = response.coordinators
        assert (found.error_code, found.node_id) == (error, -1 if error else node.node_id)
        node.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
