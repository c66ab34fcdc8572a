"""Metrics of transactions on a real node: ids by state, ends, timeouts, hanging ones, and commits in them."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.clients import Client
from tests.server.transactions import Disk, TransactionalProducer, run_on_disk, until_state

from headgate.domain.errors import ErrorCode
from headgate.server import transaction_gauges
from headgate.server.node import BrokerNode
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Samples = dict[tuple[str, ...], float]


def told(node: BrokerNode, name: str) -> Samples:
    """The values of a metric that are not 0, by their labels."""
    families = [one for one in node.gauges() if one is not None and one.name == name]
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.value
    }


async def commit_offset(client: Client, producer: TransactionalProducer, group_id: str = "g") -> ErrorCode:
    """Commit an offset in the producer's transaction, by the second protocol."""
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    answer = await client.ask(request, 5)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_ids_are_told_by_state_and_ends_by_result() -> None:
    """Also after a restart, which forgets the counts of what has ended."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producers = [TransactionalProducer(client, 2, name) for name in ("idle", "open", "done", "undone")]
        for producer in producers:
            await producer.begin()
        for producer in producers[1:]:
            assert await producer.send(b"v") is ErrorCode.NONE
        await producers[2].end(is_committed=True)
        await producers[3].end(is_committed=False)
        for name, wanted in (("done", "CompleteCommit"), ("undone", "CompleteAbort")):
            await until_state(client, wanted, name)
        states: Samples = {
            ("Empty",): 1,
            ("Ongoing",): 1,
            ("CompleteCommit",): 1,
            ("CompleteAbort",): 1,
        }
        assert told(client.node, "headgate_transactional_ids") == states
        assert told(client.node, "headgate_transactions_ended") == {("commit",): 1, ("abort",): 1}
        assert told(client.node, "headgate_transactions_timed_out") == {}
        disk.files.crash()
        node = await disk.start()
        assert told(node, "headgate_transactional_ids") == states
        assert told(node, "headgate_transactions_ended") == {}
        node.close()

    run_on_disk(scenario)


def test_a_timeout_is_counted() -> None:
    """Once, and as an abort. The timeout is long enough for the write on a busy machine."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2)
        assert await producer.init(timeout_ms=300) is ErrorCode.NONE
        assert await producer.send(b"v") is ErrorCode.NONE
        await until_state(client, "CompleteAbort")
        assert told(client.node, "headgate_transactions_timed_out") == {(): 1}
        assert told(client.node, "headgate_transactions_ended") == {("abort",): 1}
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.interpreted
def test_only_what_no_coordinator_ends_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that is open in two partitions and known in one of them hangs in the other."""
    monkeypatch.setattr(transaction_gauges, "LOOKED_AT_ONCE", 1)

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        known, partly, unknown = (TransactionalProducer(client, 2, name) for name in ("a", "b", "c"))
        for producer in (known, partly, unknown):
            await producer.begin()
        assert await known.send(b"v") is await partly.send(b"v") is ErrorCode.NONE
        assert told(client.node, "headgate_hanging_transactions") == {}
        # Version 11 does not add the partition, and nobody verifies it.
        assert await partly.send(b"v", partition=1, version=11) is ErrorCode.NONE
        assert await unknown.send(b"v", version=11) is ErrorCode.NONE
        assert told(client.node, "headgate_hanging_transactions") == {(): 2}
        for producer in (known, partly):
            assert await producer.end(is_committed=True) is ErrorCode.NONE
            await until_state(client, "CompleteCommit", producer.transactional_id)
        assert told(client.node, "headgate_hanging_transactions") == {(): 2}
        disk.files.crash()
        node = await disk.start()
        topic = node.topics.by_name("t")
        assert topic is not None and [topic.partition(one).last_stable_offset for one in (0, 1)] == [2, 0]
        assert told(node, "headgate_hanging_transactions") == {(): 2}
        node.close()

    run_on_disk(scenario, transaction_partition_verification_enable="false")


def test_a_transaction_that_begins_or_ends_between_two_slices_does_not_hang() -> None:
    """Whatever happens between the slices of a scrape."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        for number in range(20):
            gauges = transaction_gauges.hanging_gauge(
                client.node.topics.in_transaction, client.node.transactions.shards()
            )
            for partition in range(number % 5):
                assert await producer.send(b"v", partition=partition) is ErrorCode.NONE
            seen = []
            for one in gauges:
                seen.append(one)
                await producer.send(b"v", partition=30)
                await producer.end(is_committed=True)
                await asyncio.sleep(0)
            assert seen[-1] is not None and seen[-1].samples[0].value == 0
        client.node.close()

    run_on_disk(scenario)


def test_commits_in_transactions_are_counted() -> None:
    """The accepted ones, as a way of their own."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        assert await commit_offset(client, producer) is ErrorCode.NONE
        assert await commit_offset(client, producer, "another") is ErrorCode.NONE
        producer.epoch += 1
        assert await commit_offset(client, producer) is not ErrorCode.NONE
        assert told(client.node, "headgate_offset_commits") == {("transaction", "new"): 2}
        client.node.close()

    run_on_disk(scenario)
