"""The offsets of a deleted topic: no later topic of its name has them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.server.clients import Client
from tests.server.disk import DATA_DIR, new_disk
from tests.server.transactions import TransactionalProducer
from tests.waiting import until

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    CommitTransactionalOffsets,
    EndTransaction,
    OffsetToCommit,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import Fault, MemoryFileSystem
from headgate.runtime import shard_reloading
from headgate.runtime.clock import Clock
from headgate.server import erasure, request_work
from headgate.server.node import BrokerNode
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NAME = TopicName("t" * 200)
OLD_ID, NEW_ID = TopicId(b"o" * 16), TopicId(b"n" * 16)
ANOTHER = TopicName("another")
PRODUCER = Producer(77, 0)
SEVERAL_SLICES = 9_000
"""Partitions whose offsets are removed in several slices of some thousand."""

Scenario = Callable[[BrokerNode, MemoryFileSystem], Coroutine[Any, Any, None]]


def run_node(files: MemoryFileSystem, scenario: Scenario) -> None:
    """Run a scenario against a node that starts on these files."""

    async def main() -> None:
        settings = Settings({"offsets.topic.num.partitions": "2", "log.cleaner.enable": "false"})
        node = BrokerNode(files, DATA_DIR, settings, Clock())
        await node.start()
        try:
            await scenario(node, files)
        finally:
            node.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def create(node: BrokerNode, topic_id: TopicId, partition_count: int = 1) -> Topic | Refusal:
    return node.topics.create(NewTopic(NAME, topic_id, partition_count), node.system_time())


def delete(node: BrokerNode) -> None:
    topic = node.topics.by_name(NAME)
    assert topic is not None
    node.topics.delete(topic, node.system_time())


async def ask_to_delete(client: Client, *names: str, timeout_ms: int) -> list[int]:
    """Return the error code of each topic."""
    topics = [DeleteTopicState(name=name) for name in names]
    deleted = await client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms), 6)
    return [one.error_code for one in deleted.responses]


async def commit(client: Client, partition_count: int = 1) -> None:
    """Commit offset 5 in every partition, for groups in both shards."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        for index in range(partition_count)
    ]
    topics = [OffsetCommitRequestTopic(topic_id=OLD_ID, partitions=partitions)]
    for group_id in ("g", "h"):
        response = await client.ask(OffsetCommitRequest(group_id=group_id, topics=topics), 10)
        assert {one.error_code for one in response.topics[0].partitions} == {ErrorCode.NONE}


async def offsets(client: Client, topic_id: TopicId) -> list[int]:
    """Return the offsets of both groups for partition 0, fetched by id and by name."""
    found = []
    for version in (9, 10):
        topics = [OffsetFetchRequestTopics(name=NAME, topic_id=topic_id, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics) for group_id in ("g", "h")]
        response = await client.ask(OffsetFetchRequest(groups=groups), version)
        partitions = [group.topics[0].partitions[0] for group in response.groups]
        assert {one.error_code for one in partitions} == {ErrorCode.NONE}
        found += [one.committed_offset for one in partitions]
    return found


async def until_free(node: BrokerNode) -> None:
    freed = asyncio.Event()
    node.topics.held_names.when_free(NAME, freed.set)
    await freed.wait()


def test_a_name_is_free_when_the_offsets_of_its_topic_are_gone() -> None:
    """The offsets are removed in slices; the name is held until the last one is removed."""

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID, SEVERAL_SLICES)
        await commit(client, SEVERAL_SLICES)
        delete(node)
        refused = create(node, NEW_ID)
        assert isinstance(refused, Refusal)
        assert refused.error == ErrorCode.TOPIC_ALREADY_EXISTS
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=NAME)], allow_auto_topic_creation=True)
        (missing,) = (await client.ask(asked, 12)).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await until_free(node)
        assert isinstance(create(node, NEW_ID, SEVERAL_SLICES), Topic)
        assert await offsets(client, NEW_ID) == [-1] * 4
        assert sum(shard.offset_count for shard in node.coordinator.shards()) == 0

    run_node(new_disk(), scenario)


def test_a_listener_for_deleted_topics_can_create_it_again() -> None:
    """The response waits for the removal of the offsets, within the timeout of the request."""

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID, SEVERAL_SLICES)
        await commit(client, SEVERAL_SLICES)
        assert await ask_to_delete(client, NAME, timeout_ms=20_000) == [ErrorCode.NONE]
        wanted = [CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)]
        created = await client.ask(CreateTopicsRequest(topics=wanted), 7)
        assert [one.error_code for one in created.topics] == [ErrorCode.NONE]

        expected = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask_to_delete(client, NAME, "never-was", timeout_ms=0) == expected

    run_node(new_disk(), scenario)


def test_listeners_that_do_not_wait_are_called_too() -> None:
    """With a timeout of 0 the topic is deleted, and its name is free a little later."""

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID, SEVERAL_SLICES)
        await commit(client, SEVERAL_SLICES)
        assert await ask_to_delete(client, NAME, timeout_ms=0) == [ErrorCode.NONE]
        assert NAME in node.topics.held_names
        assert node.topics.by_name(NAME) is None
        await until_free(node)

    run_node(new_disk(), scenario)


async def tell(node: BrokerNode, group_id: str, command: Any) -> Any:
    """Pass a command to the shard of a group."""
    reply = asyncio.get_running_loop().create_future()
    node.coordinator.submit(group_id, command, reply.set_result)
    return await reply


async def commit_in_transaction(node: BrokerNode) -> None:
    """Commit offset 5 for both groups in a transaction that stays open."""
    for group_id in ("g", "h"):
        wanted = [(NAME, [OffsetToCommit(0, 5, -1, "")])]
        asked = CommitOffsets(GroupId(group_id), wanted, is_transactional=True)
        result = await tell(node, group_id, CommitTransactionalOffsets(asked, PRODUCER))
        assert result == CommitResult(ErrorCode.NONE)


async def end_transaction(node: BrokerNode) -> None:
    for group_id in ("g", "h"):
        ended = await tell(node, group_id, EndTransaction(TransactionEnd(PRODUCER, is_committed=True)))
        assert ended is ErrorCode.NONE


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("changes", range(12))
def test_wherever_a_life_ends_no_topic_gets_the_offsets_of_another(changes: int, is_pending: bool) -> None:
    """The crash is anywhere between the deletion and the next topic of that name; other topics are intact.
    A transaction that was open at the crash is committed afterwards.
    """
    files = new_disk()

    async def until_nothing_more_is_written(node: BrokerNode, files: MemoryFileSystem) -> None:
        create(node, OLD_ID)
        await (commit_in_transaction(node) if is_pending else commit(Client(node)))
        files.inject(Fault(after=changes, times=None))
        delete(node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await until_free(node)
            create(node, NEW_ID)

    async def afterwards(node: BrokerNode, files: MemoryFileSystem) -> None:
        await until_free(node)
        if is_pending:
            await end_transaction(node)
        topic = node.topics.by_name(NAME) or create(node, NEW_ID)
        assert isinstance(topic, Topic)
        expected = 5 if topic.topic_id == OLD_ID else -1
        assert await offsets(Client(node), topic.topic_id) == [expected] * 4

    run_node(files, until_nothing_more_is_written)
    files.crash()
    run_node(files, afterwards)


def test_a_shard_that_cannot_forget_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard is loaded again after a failed sync, with the offsets; the name is held until then."""
    monkeypatch.setattr(erasure, "RETRY_MS", 20)
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.1)

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID)
        await commit(client)
        files.inject(Fault(kind="datasync", after=1))  # the first shard's sync fails, after the catalogue's
        delete(node)
        await until(
            lambda: any(not one.is_active for one in node.coordinator.runtimes), "a shard's sync failed"
        )
        assert isinstance(create(node, NEW_ID), Refusal)
        await until_free(node)
        create(node, NEW_ID)
        assert await offsets(client, NEW_ID) == [-1] * 4

    run_node(new_disk(), scenario)


def test_names_are_held_while_a_shard_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether it has offsets of a former topic; the other names are free when it is loaded."""
    monkeypatch.setattr(erasure, "RETRY_MS", 20)
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.1)
    files = new_disk()

    async def until_deleted(node: BrokerNode, files: MemoryFileSystem) -> None:
        node.topics.create(NewTopic(ANOTHER, TopicId(b"a" * 16), 1), node.system_time())
        another = node.topics.by_name(ANOTHER)
        assert another is not None
        node.topics.delete(another, node.system_time())
        create(node, OLD_ID)
        await commit(Client(node))
        files.inject(Fault(after=3, times=None))
        delete(node)

    async def afterwards(node: BrokerNode, files: MemoryFileSystem) -> None:
        assert [runtime.is_active for runtime in node.coordinator.runtimes].count(False) == 1
        assert ANOTHER in node.topics.held_names
        assert isinstance(create(node, NEW_ID), Refusal)
        await until_free(node)
        assert ANOTHER not in node.topics.held_names
        create(node, NEW_ID)
        assert await offsets(Client(node), NEW_ID) == [-1] * 4

    run_node(files, until_deleted)
    files.crash()
    # The catalogue is read first, then the log of the first shard.
    files.inject(Fault(kind="pread", path_ends=".log", after=5))
    run_node(files, afterwards)


async def start_asking(client: Client, request: Any, version: int) -> asyncio.Task[Any]:
    """Send a request, and return while it is being served."""
    asking = asyncio.create_task(client.ask(request, version))
    await asyncio.sleep(0)
    assert not asking.done()
    return asking


async def replace(node: BrokerNode) -> None:
    """Delete the topic and create another one of its name."""
    delete(node)
    await until_free(node)
    assert isinstance(create(node, NEW_ID), Topic)


def test_a_transactional_commit_on_its_way_does_not_reach_the_next_topic_of_the_name() -> None:
    """The transaction is asked first; meanwhile the topic is deleted, and its offsets are removed."""

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID)
        producer = TransactionalProducer(client, version=2)
        await producer.begin()
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=NAME, partitions=[partition])],
        )
        asking = await start_asking(client, request, 5)
        await replace(node)
        answer = await asking
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await producer.end(is_committed=True) == ErrorCode.NONE
        assert await offsets(client, NEW_ID) == [-1] * 4

    run_node(new_disk(), scenario)


def test_a_commit_of_many_topics_on_its_way_does_not_reach_the_next_topic_of_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its topics are looked up in steps; meanwhile one of them is deleted."""
    monkeypatch.setattr(request_work, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(request_work, "FIRST_SLICE_SECONDS", -1.0)

    async def scenario(node: BrokerNode, files: MemoryFileSystem) -> None:
        client = Client(node)
        create(node, OLD_ID)
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
        names = [NAME, *(f"u{number}" for number in range(2500))]
        topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in names]
        asking = await start_asking(client, OffsetCommitRequest(group_id="g", topics=topics), 9)
        looked_up: list[str] = []
        by_name = node.topics.by_name

        def noted(name: str) -> Topic | None:
            looked_up.append(name)
            return by_name(name)

        node.topics.by_name = noted  # type: ignore[method-assign]
        while NAME not in looked_up:
            await asyncio.sleep(0)
        assert not asking.done()
        await replace(node)
        answer = await asking
        assert {one.partitions[0].error_code for one in answer.topics} == {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert await offsets(client, NEW_ID) == [-1] * 4

    run_node(new_disk(), scenario)


def test_the_files_of_many_deleted_topics_are_removed_one_after_another() -> None:
    """By one chain of timers: many would keep the loop busy."""

    async def scenario() -> None:
        node = BrokerNode(new_disk(), DATA_DIR, Settings(), Clock())
        await node.start()
        due: list[Callable[[], None]] = []
        left = [5]

        def remove_some() -> bool:
            left[0] -= 1
            return left[0] > 0

        node.call_later = lambda delay_ms, action: due.append(action) or (lambda: None)  # type: ignore[method-assign, func-returns-value]
        node.topics.remove_deleted = remove_some  # type: ignore[method-assign]
        for _ in range(10):
            node._remove_deleted()
        calls = 0
        while due:
            assert len(due) == 1
            due.pop()()
            calls += 1
        assert (calls, left) == (4, [0])
        left[0] = 1
        node._remove_deleted()
        assert left == [0]
        node.close()

    asyncio.run(scenario())
