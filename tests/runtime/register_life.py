"""One run of a shard of registers: the real runtime, on a disk in memory or over a memory log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, cast

from tests.runtime.memory_log import Broker, MemoryLog
from tests.runtime.registers import GetAll, registers
from tests.runtime.watched_log import WatchedLog
from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.runtime.clock import Clock
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.local_shards import open_topic
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.runtime.state_log import StateLog
from headgate.topics.topics import Topics


class RegisterLife:
    """A run on the data that the previous run left."""

    def __init__(self, place: MemoryFileSystem | Broker, *, are_long: bool = False) -> None:
        self.place = place
        self.group_commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None)
        kind = registers(cleanup_policy="compact", segment_bytes="1024", are_long=are_long)
        self.log: StateLog
        if isinstance(place, Broker):
            self.log = MemoryLog(place)
        else:
            clock = Clock()
            topics = Topics.open(place, DATA_DIR, Settings(), clock.system_time())
            topic = open_topic(kind, topics, clock.system_time())
            self.log = LocalLog(topic.partition(0), self.group_commit)
        self.writes = WatchedLog(self.log)
        self.runtime = ShardRuntime(kind, cast(StateLog, self.writes), Clock())

    def submit(self, command: Any) -> asyncio.Future[Any]:
        """Submit a command. Return a future of its reply."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, lambda result: None if reply.done() else reply.set_result(result))
        return reply

    async def ask(self, command: Any) -> Any:
        """Submit a command and wait for its reply."""
        return await asyncio.wait_for(self.submit(command), 30)

    async def values(self) -> Any:
        """Return all registers."""
        return await self.ask(GetAll())

    def kill(self) -> None:
        """End like a killed process: written or arrived data remains."""
        if isinstance(self.log, MemoryLog):
            self.log.die()
        with suppress(PowerCut, OSError):
            self.group_commit.close()
        if isinstance(self.place, MemoryFileSystem):
            self.place.kill()


def new_place(
    kind: str, seed: int = 1, slowest_seconds: float = 0.0, **given: Any
) -> MemoryFileSystem | Broker:
    """Make storage for a shard's state: a "local" disk, or a log in "memory"."""
    return new_disk() if kind == "local" else Broker(Random(seed), slowest_seconds, **given)


async def begin(place: MemoryFileSystem | Broker, *, are_long: bool = False) -> RegisterLife:
    """Start a run and load the shard. `are_long`: the records of a command are encoded in slices."""
    life = RegisterLife(place, are_long=are_long)
    await life.runtime.load()
    return life


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on its own event loop."""

    async def main() -> None:
        await scenario()

    asyncio.run(main())
