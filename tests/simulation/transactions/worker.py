"""Workers: members of a group that read, process and write exactly once.

A worker takes the next input of a partition that it owns, from the group's committed offset, which must be
stable. It writes the result and commits the next offset in one transaction. However the partition moves from
worker to worker, every input has one result among the committed records, and none before the committed offset
has none. The inputs are offsets only: no record is read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.simulation.requests import Violation
from tests.simulation.transactions.books import Books, Fate, Transaction
from tests.simulation.transactions.producer import Refused, TransactionalProducer
from tests.simulation.transactions.requests import AGAIN

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from tests.simulation.transactions.world import TransactionWorld

GROUP = "workers"
INPUT = "input"
_NO_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION}
)
"""Errors of a worker that is not, or no longer, a member in this epoch."""


def topic_id(name: str) -> TopicId:
    """Return the id of a topic here."""
    return TopicId(name.encode().ljust(16, b"."))


class Worker(TransactionalProducer):
    """A member of the group, and a producer with a transactional id of its own."""

    def __init__(self, world: TransactionWorld, index: int, version: int) -> None:
        super().__init__(world, index, f"worker-{index}", version)
        self._member_id = f"member-{index}"
        self._member_epoch = 0
        self._owned: list[int] = []

    async def fill(self) -> None:
        """Process one input, if a partition is owned."""
        one = self._open
        assert one is not None
        if one.input is None:
            await self._heartbeat()
            one.input = await self._next_input()
        if one.input is None:
            await asyncio.sleep(0.1)
            return
        if not one.records:
            await self.write([self.random.choice(self.world.places)], 1)
        await self._rest()
        if self.random.random() < 0.2:
            await asyncio.sleep(
                self.random.random() * 5
            )  # perhaps somebody else owns the partition after this
        partition, offset = one.input
        member = {"member_id": self._member_id, "generation_id": self._member_epoch}
        try:
            await self.commit(GROUP, {(INPUT, partition): offset + 1}, **member)
        except Refused as refused:
            if not refused.errors <= _NO_MEMBER:
                raise
            self.world.journal.counts["commits of former owners refused"] += 1
        else:
            one.is_input_committed = True

    async def _next_input(self) -> tuple[int, int] | None:
        """Return the partition and the offset of the next input; None without one."""
        if not self._owned:
            return None
        partition = self.random.choice(self._owned)
        offset = await self._position(partition)
        return None if offset is None else (partition, offset)

    def wants_commit(self, one: Transaction) -> bool:
        """Return whether to commit: nearly always, if the result and the offset are part of it."""
        return one.is_input_committed and self.random.random() < 0.85

    def check_refusal(self, request: Any, errors: set[ErrorCode]) -> None:
        """A commit may also be refused because another worker owns the partition."""
        if not errors <= _NO_MEMBER:
            super().check_refusal(request, errors)

    async def _heartbeat(self) -> None:
        """Report to the group, join it if necessary, and take the assigned partitions."""
        is_joining = not self._member_epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self._member_id, member_epoch=self._member_epoch
        )
        if is_joining:
            request.rebalance_timeout_ms = 2000
            request.subscribed_topic_names = [INPUT]
        owned = TopicPartitions(topic_id=topic_id(INPUT), partitions=self._owned)
        request.topic_partitions = [owned] if self._owned else []
        answer = await self.link.ask(request, 1)
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self._member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self._owned = [one for of in answer.assignment.topic_partitions for one in of.partitions]
        elif error in _NO_MEMBER:
            self._member_epoch, self._owned = 0, []
        elif error not in AGAIN:
            raise Violation(f"{request} was refused with {error.name}")

    async def _position(self, partition: int) -> int | None:
        """Return the committed offset of a partition; None as long as it is not stable."""
        topics = [OffsetFetchRequestTopics(name=INPUT, partition_indexes=[partition])]
        group = OffsetFetchRequestGroup(
            group_id=GROUP, member_id=self._member_id, member_epoch=self._member_epoch, topics=topics
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = (await self.link.ask(request, 9)).groups[0]
        if answer.error_code:
            error = ErrorCode(answer.error_code)
            if error not in AGAIN | _NO_MEMBER | {ErrorCode.STALE_MEMBER_EPOCH}:
                raise Violation(f"{request} was refused with {error.name}")
            return None
        one = answer.topics[0].partitions[0]
        return None if one.error_code else max(one.committed_offset, 0)


def check_inputs(books: Books, offsets: dict[int, int]) -> None:
    """Check that every input before the committed offset of its partition has one committed result, and no
    other has one. Raises Violation.

    `offsets`: by partition of the input.
    """
    results: dict[int, list[int]] = {}
    for one in books.transactions.values():
        if one.input is not None and one.fate is Fate.COMMITTED:
            results.setdefault(one.input[0], []).append(one.input[1])
    for partition, end in offsets.items():
        found = results.get(partition, [])
        if sorted(found) != list(range(end)):
            raise Violation(f"inputs of {partition} up to {end} have the results {found}")
