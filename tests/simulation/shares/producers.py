"""Who else talks to the server: producers, with and without transactions, and an administrator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.shares.link import Link, Lost, Server
from tests.simulation.shares.members import PAUSE_SECONDS, Habits
from tests.simulation.shares.model import ShareModel
from tests.simulation.shares.records import Outcome, Records

from headgate.log.batch import Record, encode_batch
from headgate.wire.messages import delete_records, produce
from headgate.wire.messages import describe_share_group_offsets as describing
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest

Topic = tuple[str, bytes, int]


def produce_request(topic: Topic, index: int, records: bytes, name: str | None = None) -> Any:
    """Return a Produce request with one batch; `name` is the transactional id."""
    data = produce.PartitionProduceData(index=index, records=records)
    return produce.ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[produce.TopicProduceData(name=topic[0], partition_data=[data])],
    )


class Client:
    """Works on one connection after another."""

    def __init__(self, name: str, topic: Topic, habits: Habits, pace_seconds: float) -> None:
        self.name = name
        self.topic = topic
        self.habits = habits
        self._pace_seconds = pace_seconds
        self.random: Random

    async def run(self, server: Server) -> None:
        """Work until the server's life ends."""
        self.random = server.random
        while not server.is_over:
            link = Link(server, self.name)
            try:
                await self.begin(link)
                while True:
                    await self.act(link)
                    await asyncio.sleep(self.random.random() * self._pace_seconds)
            except Lost:
                await asyncio.sleep(PAUSE_SECONDS)
            finally:
                link.lose()

    async def begin(self, link: Link) -> None:
        """Prepare for work on a new connection."""

    async def act(self, link: Link) -> None:
        """Do one thing."""
        raise NotImplementedError


class PlainProducer(Client):
    """Writes batches of records."""

    def __init__(self, number: int, topic: Topic, records: Records, habits: Habits, pace: float) -> None:
        super().__init__(f"producer-{number}", topic, habits, pace)
        self._records = records
        self._count = 0

    async def act(self, link: Link) -> None:
        """Write a batch."""
        if self.habits.is_calm:
            return
        self._count += 1
        values = [
            f"{self.name}.{self._count}.{at}".encode() for at in range(self.random.choice((1, 1, 3, 8)))
        ]
        index = self.random.randrange(self.topic[2])
        now = link.server.node.system_time()
        data = bytes(encode_batch([Record(None, value, now) for value in values]))
        self._records.producing(values, None)
        answer = await link.ask(produce_request(self.topic, index, data), 12)
        (found,) = answer.responses[0].partition_responses
        if not found.error_code:
            self._records.produced(index, found.base_offset, values)


@dataclass
class _Producer:
    """A producer id that was given out."""

    id: int
    epoch: int
    sequences: dict[int, int] = field(default_factory=dict)


class TransactionalProducer(Client):
    """Writes transactions, and commits about half of them."""

    def __init__(self, topic: Topic, records: Records, habits: Habits, pace: float) -> None:
        super().__init__("transactional", topic, habits, pace)
        self._records = records
        self._number = 0
        self._producer: _Producer | None = None

    async def begin(self, link: Link) -> None:
        """Begin anew: that aborts what is open."""
        self._producer = None

    async def act(self, link: Link) -> None:
        """Write one transaction. In a calm period nothing is written, but what is open is aborted."""
        if self._producer is None:
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
            answer = await link.ask(request, 5)
            if answer.error_code:
                await asyncio.sleep(PAUSE_SECONDS)
                return
            self._producer = _Producer(answer.producer_id, answer.producer_epoch)
        if not self.habits.is_calm:
            await self._transaction(link, self._producer)

    async def _transaction(self, link: Link, producer: _Producer) -> None:
        self._number += 1
        self._records.outcomes[self._number] = Outcome.OPEN
        for part in range(self.random.randrange(1, 4)):
            if not await self._write(link, producer, part):
                self._records.outcomes[self._number] = Outcome.ABORTED
                self._producer = None
                return
        is_commit = self.random.random() < 0.6
        self._records.outcomes[self._number] = Outcome.COMMITTING if is_commit else Outcome.ABORTED
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        answer = await link.ask(request, 5)
        if answer.error_code:
            self._producer = None
            return
        if is_commit:
            self._records.outcomes[self._number] = Outcome.COMMITTED
        self._producer = _Producer(answer.producer_id, answer.producer_epoch)

    async def _write(self, link: Link, producer: _Producer, part: int) -> bool:
        index = self.random.randrange(self.topic[2])
        values = [f"t{self._number}.{part}.{at}".encode() for at in range(self.random.choice((1, 3)))]
        sequence = producer.sequences.get(index, 0)
        now = link.server.node.system_time()
        data = encode_batch(
            [Record(None, value, now) for value in values],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._records.producing(values, self._number)
        answer = await link.ask(produce_request(self.topic, index, bytes(data), self.name), 12)
        (found,) = answer.responses[0].partition_responses
        if found.error_code:
            return False
        producer.sequences[index] = sequence + len(values)
        self._records.produced(index, found.base_offset, values)
        return True


class Administrator(Client):
    """Looks at the start offsets of all groups, and now and then deletes old records."""

    def __init__(
        self, topic: Topic, records: Records, models: list[ShareModel], habits: Habits, pace: float
    ) -> None:
        super().__init__("administrator", topic, habits, pace)
        self._records = records
        self._models = models
        self.lags: dict[tuple[str, int], int] = {}
        """The last lag by group and partition."""

    async def act(self, link: Link) -> None:
        """Describe the offsets of all groups."""
        groups = [
            describing.DescribeShareGroupOffsetsRequestGroup(group_id=model.group_id, topics=None)
            for model in self._models
        ]
        answer = await link.ask(describing.DescribeShareGroupOffsetsRequest(groups=groups), 1)
        self.lags = {
            (group.group_id, one.partition_index): one.lag
            for group in answer.groups
            for topic in group.topics
            for one in topic.partitions
            if not one.error_code
        }
        if self.random.random() < 0.05 and not self.habits.is_calm:
            await self._delete(link)

    async def _delete(self, link: Link) -> None:
        index = self.random.randrange(self.topic[2])
        offset = self._models[0].starts.get(index, 0) + self.random.choice((-3, 0, 2))
        if offset <= 0:
            return
        self._records.deleting(index, offset)
        partition = delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
        topic = delete_records.DeleteRecordsTopic(name=self.topic[0], partitions=[partition])
        await link.ask(delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
