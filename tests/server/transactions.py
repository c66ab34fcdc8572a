"""A transactional producer on the wire, for tests with a node in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.server.clients import Client, T
from tests.server.disk import DATA_DIR, new_disk
from tests.topics.transactions import transactional

from headgate.domain.errors import ErrorCode
from headgate.domain.settings import Settings
from headgate.log.batch import iterate_records, read_header
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.wire.messages.describe_transactions import DescribeTransactionsRequest
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

WIDTH = 40
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "log.retention.ms": "-1",  # the records of the tests have timestamps of long ago
}


class Disk:
    """A disk in memory, and the nodes that run on it one after the other."""

    def __init__(self, **settings: str) -> None:
        self.files: MemoryFileSystem = new_disk()
        self.settings = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}

    async def start(self) -> BrokerNode:
        """Start a node; the topic `t` is there."""
        node = BrokerNode(self.files, DATA_DIR, Settings(self.settings), Clock())
        await node.start()
        if node.topics.by_name("t") is None:
            node.topics.create(NewTopic("t", T, WIDTH), node.system_time())
        return node


def run_on_disk(scenario: Callable[[Disk], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Run a scenario that starts its nodes itself."""
    asyncio.run(asyncio.wait_for(scenario(Disk(**settings)), 30))


class TransactionalProducer:
    """A producer of the protocol's first version (1), or of the second (2)."""

    def __init__(self, client: Client, version: int = 1, transactional_id: str = "x") -> None:
        self.client = client
        self.version = version
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def init(self, *, goes_on: bool = False, timeout_ms: int = 60_000) -> ErrorCode:
        """Get a producer id and an epoch, or an error."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if goes_on:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = await self.client.ask(request, 5)
        if answer.error_code == ErrorCode.NONE:
            self._use(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    async def begin(self) -> None:
        """Get a producer id and an epoch, however long an earlier transaction takes to end."""
        while (error := await self.init()) != ErrorCode.NONE:
            assert error == ErrorCode.CONCURRENT_TRANSACTIONS
            await asyncio.sleep(0)

    def _use(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *partitions: int, topic: str = "t") -> set[ErrorCode]:
        """Add partitions; the errors. Version 1 only."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        while True:
            answer = await self.client.ask(request, 3)
            errors = {
                ErrorCode(one.partition_error_code)
                for each in answer.results_by_topic_v3_and_below
                for one in each.results_by_partition
            }
            if errors != {ErrorCode.CONCURRENT_TRANSACTIONS}:
                return errors
            await asyncio.sleep(0)

    async def send(
        self, *values: bytes, partition: int = 0, topic: str = "t", version: int | None = None
    ) -> ErrorCode:
        """Produce a batch of the transaction; the error."""
        sequence = self._sequences.get((topic, partition), 0)
        records = transactional(self.producer_id, *values, epoch=self.epoch, sequence=sequence)
        data = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=-1,
            transactional_id=self.transactional_id,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        if version is None:
            version = 12 if self.version == 2 else 11
        answer = await self.client.ask(request, version)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error == ErrorCode.NONE:
            self._sequences[topic, partition] = sequence + len(values)
        return error

    async def end(self, *, is_committed: bool) -> ErrorCode:
        """Commit or abort; the error."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_committed,
        )
        answer = await self.client.ask(request, 5 if self.version == 2 else 4)
        if answer.error_code == ErrorCode.NONE and self.version == 2:
            self._use(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)


async def state(client: Client, transactional_id: str = "x") -> Any:
    """Describe a transactional id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return (await client.ask(request, 0)).transaction_states[0]


async def until_state(client: Client, name: str, transactional_id: str = "x") -> None:
    """Wait until a transactional id is in a state."""
    while (await state(client, transactional_id)).transaction_state != name:
        await asyncio.sleep(0)


async def committed_values(client: Client, partition: int = 0, topic: str = "t") -> list[bytes | None]:
    """The values that a reader of committed records gets, filtered as clients do."""
    values: list[bytes | None] = []
    dropped: set[int] = set()
    offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            isolation_level=1, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])]
        )
        answer = (await client.ask(request, 12)).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        if not answer.records:
            assert offset == answer.last_stable_offset
            return values
        aborted = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
        at = 0
        while at < len(answer.records):
            header = read_header(answer.records, at)
            batch = answer.records[at : at + header.size]
            at += header.size
            offset = header.next_offset
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.pop(0)[1])
            if header.is_control:
                dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                values += [record.value for _, record in iterate_records(batch)]
