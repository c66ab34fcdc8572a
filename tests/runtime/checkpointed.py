"""A shard with checkpoints on a disk in memory, over several runs that end in different ways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

from tests.runtime.shard_life import ShardLife
from tests.server.disk import DATA_DIR, new_disk

from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, OffsetToCommit
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, MemberId, TopicName
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.log.state_file import STATE_NAME
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.clock import Clock

PARTITION_DIR = DATA_DIR / f"{GROUP_OFFSETS_TOPIC}-0"
STATE_FILE = PARTITION_DIR / STATE_NAME
TOPIC = TopicName("t")
LATER_MS = Clock().system_time() + 10**9
"""A time at which every tombstone is old enough to be removed."""
Offsets = dict[tuple[str, int], int]
"""Offsets by group and partition."""


class Life(ShardLife):
    """One run of a shard; `offsets` holds the acknowledged offsets."""

    def __init__(self, files: MemoryFileSystem, offsets: Offsets) -> None:
        super().__init__(files, {"cleanup.policy": "compact", "segment.bytes": "1024"})
        self.offsets = offsets

    async def commit(self, group: str, partition: int, offset: int) -> None:
        """Commit an offset, and remember it when it is acknowledged."""
        wanted = [OffsetToCommit(partition, offset, -1, "")]
        await self.submit(CommitOffsets(GroupId(group), [(TOPIC, wanted)], MemberId(""), -1))
        self.offsets[group, partition] = offset

    async def delete(self, group: str, partition: int) -> None:
        """Delete an offset, and forget it when that is acknowledged."""
        await self.submit(DeleteOffsets(GroupId(group), [(TOPIC, [partition])]))
        self.offsets.pop((group, partition), None)

    async def fill(self, first: int = 0, count: int = 12) -> None:
        """Commit offsets of several groups."""
        for number in range(first, first + count):
            await self.commit(f"g{number % 5}", number % 7, number)

    async def write(self, execute: Callable[[Callable[[], None]], Awaitable[None]] | None = None) -> None:
        """Write a checkpoint."""
        await CheckpointWriter(self.runtime).write(execute or at_once)

    def held(self) -> Offsets:
        """Return all offsets of the shard."""
        table = self.runtime.shard.offsets
        return {
            (group, partition): stored.offset
            for group in table.group_ids()
            for _, partition, stored in table.offsets_of(group)
        }

    @property
    def checkpoint(self) -> bytes:
        """The file's bytes, which a test may set."""
        file = self.files.open(STATE_FILE)
        return file.pread(file.size(), 0)

    @checkpoint.setter
    def checkpoint(self, data: bytes) -> None:
        file = self.files.open(STATE_FILE, create=True)
        file.truncate(0)
        file.pwrite(data, 0)

    def kill(self) -> None:
        """End like a killed process: written data remains."""
        self.end()
        self.files.kill()

    def crash(self, random: Random | None = None) -> None:
        """End like a power failure: data that was not synced is lost."""
        self.end()
        self.files.crash(random)


async def at_once(work: Callable[[], None]) -> None:
    work()


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


async def begin(files: MemoryFileSystem | None = None, offsets: Offsets | None = None) -> Life:
    """Start a run, on an empty disk by default; `offsets` are those acknowledged before."""
    life = Life(new_disk() if files is None else files, {} if offsets is None else offsets)
    await life.runtime.load()
    return life


async def begin_with_a_checkpoint() -> Life:
    """Start a run with some offsets and a checkpoint of all of them."""
    life = await begin()
    await life.fill()
    await life.write()
    return life


class Found(NamedTuple):
    """The result of a start by a new process."""

    offsets: Offsets
    used_the_checkpoint: bool


async def next_life(life: Life) -> Found:
    """Start a new process on the disk. Return what it loaded, after a check that it can commit."""
    again = await begin(life.files)
    found = again.held()
    again.offsets = dict(found)
    await again.commit("later", 0, 5)
    assert again.held() == again.offsets
    again.end()
    return Found(found, again.runtime.checkpoint_position > 0)
