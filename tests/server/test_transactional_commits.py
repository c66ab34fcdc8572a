"""Offsets committed in transactions, by the protocol, against a node in memory, in both versions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from tests.server.clients import WIDTH, Client, T, commit, committed, fetch, run_scenario
from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.errors import ErrorCode
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import PowerCut
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
EACH_VERSION = pytest.mark.parametrize("transaction_version", [0, 2])


@dataclass
class Producer:
    """A transactional producer of one version of transactions."""

    client: Client
    transaction_version: int
    name: str = "x"
    producer_id: int = -1
    epoch: int = -1

    async def ask(self, request: Any, version: int) -> Any:
        return await self.client.ask(request, version, f"{self.name} {next(self.client._ids)}")

    async def begin(self) -> None:
        """Get a producer id and an epoch; try again while an earlier transaction is ended."""
        while True:
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
            response = await self.ask(request, 4)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0.001)
        assert response.error_code == NONE, response
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    async def commit(self, base: int, indexes: list[int], group_id: str = "g", **more: Any) -> list[int]:
        """Commit offsets as the version does; the error of each partition."""
        if not self.transaction_version:
            assert await self.add(group_id) == NONE
        return await self.send_commit(base, indexes, group_id, **more)

    async def add(self, group_id: str) -> int:
        """Add a group to the transaction; the error."""
        while True:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
            error: int = (await self.ask(request, 3)).error_code
            if error != ErrorCode.CONCURRENT_TRANSACTIONS:
                return error
            await asyncio.sleep(0.001)

    async def send_commit(
        self, base: int, indexes: list[int], group_id: str = "g", version: int | None = None, **more: Any
    ) -> list[int]:
        """Send TxnOffsetCommit alone; the error of each partition."""
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=one, committed_offset=base + one, committed_metadata="m"
            )
            for one in indexes
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
            **more,
        )
        if version is None:
            version = 5 if self.transaction_version else 3
        response = await self.ask(request, version)
        assert [one.partition_index for one in response.topics[0].partitions] == indexes
        return [one.error_code for one in response.topics[0].partitions]

    async def end(self, *, is_committed: bool = True) -> int:
        """End the transaction; the error. Version 2 gets a new epoch."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_committed,
        )
        response = await self.ask(request, 5 if self.transaction_version else 3)
        if self.transaction_version and not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        error: int = response.error_code
        return error


async def stable(client: Client, indexes: list[int], group_id: str = "g") -> list[tuple[int, int]]:
    """Fetch stable offsets; offset and error of each."""
    request = fetch(indexes, 8, group_id)
    request.require_stable = True
    response = await client.ask(request, 8)
    return [(one.committed_offset, one.error_code) for one in response.groups[0].topics[0].partitions]


async def settled(client: Client, indexes: list[int], group_id: str = "g") -> list[int]:
    """Fetch until all are stable, as consumers do."""
    while True:
        found = await stable(client, indexes, group_id)
        if all(error == NONE for _, error in found):
            return [offset for offset, _ in found]
        assert {error for _, error in found} <= {NONE, UNSTABLE}
        await asyncio.sleep(0.001)


@EACH_VERSION
def test_offsets_count_when_the_transaction_is_committed(transaction_version: int) -> None:
    """In several groups; stable fetches tell that they wait, repeated ones too; an abort drops them."""

    async def scenario(client: Client) -> None:
        producer = Producer(client, transaction_version)
        await producer.begin()
        await client.ask(commit(1, [0, 1]), 8)
        for base, is_committed, expected in (
            (10, True, [10, 1 + 1]),
            (20, False, [10, 2]),
            (30, True, [30, 2]),
        ):
            for group_id in ("g", "h"):
                assert await producer.commit(base, [0], group_id) == [NONE]
            for _ in range(3):
                assert [error for _, error in await stable(client, [0, 1])] == [UNSTABLE, NONE]
            assert await producer.end(is_committed=is_committed) == NONE
            assert await settled(client, [0, 1]) == expected
            assert await settled(client, [0], "h") == expected[:1]

    run_scenario(scenario)


@pytest.mark.parametrize("count", [2, WIDTH])
def test_a_stable_fetch_beside_pending_offsets_tells_all_of_the_others(count: int) -> None:
    """Leader epoch and metadata of a committed -1 too, and nothing of a partition without an offset."""

    async def scenario(client: Client) -> None:
        producer, indexes = Producer(client, 2), list(range(count + 2))
        await producer.begin()
        request = commit(0, indexes[:count])
        odd = request.topics[0].partitions[1]
        odd.committed_offset, odd.committed_leader_epoch, odd.committed_metadata = -1, 4, "m"
        await client.ask(request, 8)
        assert await producer.commit(10, [0]) == [NONE]
        asked = fetch(indexes, 8)
        asked.require_stable = True
        found = (await client.ask(asked, 8)).groups[0].topics[0].partitions
        told = [(one.committed_offset, one.committed_leader_epoch, one.metadata) for one in found]
        assert found[0].error_code == UNSTABLE
        assert told[1] == (-1, 4, "m")
        assert told[count:] == [(-1, -1, "")] * 2

    run_scenario(scenario)


@EACH_VERSION
def test_a_wide_commit_is_pending_as_a_whole(transaction_version: int) -> None:
    """Columns of the request, of the response, and of a stable fetch."""

    async def scenario(client: Client) -> None:
        producer, everything = Producer(client, transaction_version), list(range(WIDTH))
        await producer.begin()
        assert await producer.commit(100, everything) == [NONE] * WIDTH
        assert set(await stable(client, everything)) == {(-1, UNSTABLE)}
        assert await producer.end() == NONE
        assert await settled(client, everything) == [100 + one for one in everything]

    run_scenario(scenario)


def test_stable_negative_offsets_of_a_wide_fetch_are_returned_beside_a_pending_one() -> None:
    """A committed offset may be negative, as in Kafka, whether another partition is pending or not."""

    async def scenario(client: Client) -> None:
        everything = list(range(WIDTH))
        producer = Producer(client, 2)
        await producer.begin()
        await client.ask(commit(-WIDTH - 9, everything), 8)
        assert await producer.commit(100, [3]) == [NONE]
        expected = [(one - WIDTH - 9, NONE) for one in everything]
        expected[3] = (-1, UNSTABLE)
        assert await stable(client, everything) == expected

    run_scenario(scenario)


def test_a_group_that_was_not_added_is_refused() -> None:
    """Before any check of the group; the error depends on what the client knows."""

    async def scenario(client: Client) -> None:
        producer = Producer(client, 0)
        await producer.begin()
        for version, error in ((2, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)):
            more: dict[str, Any] = {"member_id": "unknown", "generation_id": 5} if version > 2 else {}
            assert await producer.send_commit(1, [0], version=version, **more) == [error]
        assert await producer.add("g") == NONE
        more = {"member_id": "unknown", "generation_id": 5}
        assert await producer.send_commit(1, [0], **more) == [ErrorCode.ILLEGAL_GENERATION]
        assert await producer.send_commit(1, [0, WIDTH]) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await producer.send_commit(1, [0], "") == [ErrorCode.INVALID_GROUP_ID]
        producer.name = ""
        for version in (3, 5):
            assert await producer.send_commit(1, [0], version=version) == [ErrorCode.INVALID_REQUEST]

    run_scenario(scenario)


@EACH_VERSION
def test_a_zombie_commits_nothing(transaction_version: int) -> None:
    """A second producer of the same id ends the transaction of the first and fences it."""

    async def scenario(client: Client) -> None:
        zombie, producer = (Producer(client, transaction_version) for _ in range(2))
        await zombie.begin()
        assert await zombie.commit(10, [0]) == [NONE]
        await producer.begin()
        assert await settled(client, [0]) == [-1]
        assert await zombie.send_commit(20, [0]) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await zombie.end() in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
        assert await producer.commit(30, [0]) == [NONE]
        assert await producer.end() == NONE
        assert await settled(client, [0]) == [30]

    run_scenario(scenario)


def test_a_stable_fetch_of_everything_omits_what_is_only_pending() -> None:
    """As Kafka: what has a committed offset is unstable, what has none is not named."""

    async def scenario(client: Client) -> None:
        producer = Producer(client, 2)
        await producer.begin()
        await client.ask(commit(1, [0]), 8)
        await producer.commit(10, [0, 1])
        groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        response = await client.ask(OffsetFetchRequest(groups=groups, require_stable=True), 8)
        partitions = response.groups[0].topics[0].partitions
        assert [(one.partition_index, one.error_code) for one in partitions] == [(0, UNSTABLE)]
        assert await committed(client) == {0: 1}

    run_scenario(scenario)


@EACH_VERSION
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_any_time_leaves_whole_transactions(transaction_version: int, loses_power: bool) -> None:
    """Each transaction sets two groups to the same offset; after each crash they agree, and none is lost."""

    async def scenario() -> None:
        files = new_disk()
        acknowledged = 0
        for life in range(6):
            node = BrokerNode(files, DATA_DIR, Settings(), Clock())
            await node.start()
            if node.topics.by_name("t") is None:
                node.topics.create(NewTopic("t", T, 1), node.system_time())
            client = Client(node)
            producer = Producer(client, transaction_version)
            await producer.begin()
            [found] = await settled(client, [0])
            assert await settled(client, [0], "h") == [found]
            assert acknowledged <= max(found, 0) <= acknowledged + 1
            acknowledged = max(found, 0)
            files.cut_power_after(7 * life + 3 * transaction_version, torn_bytes=40 * life)
            try:
                async with asyncio.timeout(0.5):
                    for offset in range(acknowledged + 1, acknowledged + 30):
                        for group_id in ("g", "h"):
                            if await producer.commit(offset, [0], group_id) != [NONE]:
                                raise ConnectionError
                        if await producer.end() != NONE:
                            raise ConnectionError
                        acknowledged = offset
            except (TimeoutError, ConnectionError, AssertionError):
                assert not files.has_power
            with suppress(PowerCut, OSError):
                node.close()
            files.crash() if loses_power else files.kill()

    asyncio.run(asyncio.wait_for(scenario(), 60))
