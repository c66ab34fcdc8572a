"""The offsets of a transaction in several groups and shards count all or not at all, wherever a crash comes.

The test is the transaction coordinator: its decisions are durable when they are made, and at a start it ends
what was prepared, and aborts what was not, before anybody reads.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.runtime.checkpointed import at_once
from tests.runtime.shard_life import ShardLife
from tests.runtime.wide_commits import CRASHES, simulated
from tests.server.disk import new_disk
from tests.simulation.disk import SimulatedSyncer

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    CommitTransactionalOffsets,
    EndTransaction,
    OffsetToCommit,
)
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicName
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.runtime.checkpoints import CheckpointGivenUp, CheckpointWriter
from headgate.runtime.clock import Clock
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.shards.groups import group_shards

Key = tuple[int, str, int]
"""Shard, group, partition."""
TIMEOUT_S = 0.05
PRODUCERS = (1, 2, 3)


class Refused(Exception):
    """A shard refused a command, because its log failed."""


class TwoShards(ShardLife):
    """One run of two shards on a disk whose power fails."""

    def __init__(self, files: MemoryFileSystem) -> None:
        super().__init__(files, syncer=SimulatedSyncer(asyncio.get_running_loop(), Random(0), 0.0))
        topic = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is not None
        log = LocalLog(topic.partition(1), self.group_commit)
        kind = group_shards(Settings(), lambda: GroupShard(Settings()))
        self.runtimes = [self.runtime, ShardRuntime(kind, log, Clock())]

    async def load(self) -> None:
        for runtime in self.runtimes:
            await runtime.load()

    async def ask(self, shard: int, command: Any) -> Any:
        reply = asyncio.get_running_loop().create_future()
        self.runtimes[shard].submit(
            command, lambda result: None if reply.done() else reply.set_result(result)
        )
        return await asyncio.wait_for(reply, TIMEOUT_S)

    def held(self) -> dict[Key, int]:
        return {
            (shard, group, partition): stored.offset
            for shard, runtime in enumerate(self.runtimes)
            for group in runtime.shard.offsets.group_ids()
            for _, partition, stored in runtime.shard.offsets.offsets_of(group)
        }


class World:
    """Producers and a consumer beside them, the coordinator's decisions, and what must be found."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.files = new_disk()
        self.time = 0
        self.committed: dict[Key, tuple[int, int]] = {}
        self.open: dict[int, dict[Key, tuple[int, int]]] = {}
        self.life: TwoShards
        self.touched: dict[int, set[int]] = {}
        """The shards of each transaction: a commit that was not answered may be in their logs."""
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.prepared: dict[int, bool] = {}
        """The decisions that are not carried through."""
        self.attempt: tuple[Key, int] = (0, "", 0), -1
        """The last commit, which may not have been answered."""

    async def commit(self, life: TwoShards, producer: int | None) -> None:
        self.time += 1
        key = self.chance.randrange(2), self.chance.choice("ab"), self.chance.randrange(3)
        shard, group, partition = key
        to_commit = [(TopicName("t"), [OffsetToCommit(partition, self.time, -1, "")])]
        command: Any = CommitOffsets(GroupId(group), to_commit, is_transactional=producer is not None)
        if producer is not None:
            self.touched.setdefault(producer, set()).add(shard)
            command = CommitTransactionalOffsets(command, Producer(producer, self.epochs[producer]))
        self.attempt = key, self.time
        result = await life.ask(shard, command)
        if result != CommitResult(ErrorCode.NONE):
            raise Refused(result)
        of = self.committed if producer is None else self.open.setdefault(producer, {})
        of[key] = self.time, self.time

    def prepare(self, producer: int, is_committed: bool) -> None:
        self.prepared[producer] = is_committed

    async def carry_through(self, life: TwoShards, producer: int) -> None:
        """Write the markers; the epoch rises with each, as in transaction.version 2."""
        is_committed = self.prepared[producer]
        end = TransactionEnd(Producer(producer, self.epochs[producer] + 1), is_committed)
        for shard in sorted(self.touched.get(producer, ())):
            result = await life.ask(shard, EndTransaction(end))
            if result is not ErrorCode.NONE:
                raise Refused(result)
        self.epochs[producer] += 1
        self.touched.pop(producer, None)
        for key, one in self.open.pop(producer, {}).items():
            if is_committed and one > self.committed.get(key, (-1, 0)):
                self.committed[key] = one
        del self.prepared[producer]

    async def act(self, life: TwoShards) -> None:
        producer = self.chance.choice(PRODUCERS)
        match self.chance.choice(["in", "in", "in", "plain", "end", "end", "checkpoint"]):
            case "in":
                await self.commit(life, producer)
            case "plain":
                await self.commit(life, None)
            case "end" if producer in self.touched:
                self.prepare(producer, self.chance.random() < 0.8)
                await self.carry_through(life, producer)
            case "checkpoint":
                runtime = self.chance.choice(life.runtimes)
                if runtime.position:
                    await asyncio.wait_for(CheckpointWriter(runtime).write(_execute), TIMEOUT_S)

    async def recover(self) -> None:
        """Start again: what was prepared is carried through, everything else is aborted."""
        self.life = life = TwoShards(self.files)
        await life.load()
        key, time = self.attempt
        if life.held().get(key) == time:  # a plain commit that was not answered
            self.committed[key] = time, time
        for producer in PRODUCERS:
            if producer in self.touched:
                self.prepared.setdefault(producer, False)
                await self.carry_through(life, producer)
        assert life.held() == {key: offset for key, (_, offset) in self.committed.items()}
        assert not any(len(runtime.shard.pending) for runtime in life.runtimes)

    def cut_power(self, chance: Random) -> None:
        """Let the power fail soon."""
        self.files.cut_power_after(chance.randrange(25), torn_bytes=chance.randrange(150))


async def _execute(work: Any) -> None:
    await at_once(work)


@pytest.mark.parametrize("seed", range(8))
def test_a_transaction_counts_whole_or_not_at_all_wherever_the_power_fails(seed: int) -> None:
    """The power fails during commits, markers, checkpoints and recoveries, at any change of the disk."""
    world = World(Random(seed))
    chance = Random(seed + 100)

    async def one_life() -> bool:
        """Start, perhaps with a failure on the way, and act until the power fails; whether it did not."""
        if chance.random() < 0.3:
            world.cut_power(chance)
        try:
            await world.recover()
            world.cut_power(chance)
            for _ in range(20):
                await world.act(world.life)
        except (PowerCut, OSError, TimeoutError, CheckpointGivenUp, Refused):
            assert not world.files.has_power
        had_power = world.files.has_power
        world.life.end()
        CRASHES[chance.choice(list(CRASHES))](world.files, chance)
        return had_power

    simulated(world.recover)
    lives = [simulated(one_life) for _ in range(15)]
    assert not all(lives)
    simulated(world.recover)
