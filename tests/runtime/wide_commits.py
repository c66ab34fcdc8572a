"""Commits of several batches, on a shard with power failures and simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import numpy as np
from tests.fetched import each_fetched
from tests.runtime.shard_life import ShardLife
from tests.server.disk import new_disk
from tests.simulation.clock import SimulatedTime
from tests.simulation.disk import SimulatedSyncer
from tests.simulation.loop import SimulatedLoop

from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import (
    NO_RETENTION,
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
    ToCommit,
)
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.log.batch import iterate_records
from headgate.log.log import LogSettings
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.records import OffsetCommit, OffsetTombstone, decode

ResultT = TypeVar("ResultT")
Act = Callable[["Life"], Coroutine[Any, Any, Any]]
GROUP, TOPIC = GroupId("wide"), TopicName("t")
PARTITIONS = 60
Offsets = dict[int, int]


class Life(ShardLife):
    """One run of a shard, from a start to a power failure."""

    def __init__(self, files: MemoryFileSystem) -> None:
        super().__init__(files, syncer=SimulatedSyncer(asyncio.get_running_loop(), Random(0), 0.0))

    async def commit(
        self,
        offsets: Offsets,
        timeout_s: float = 30,
        retention_ms: int = NO_RETENTION,
        *,
        in_columns: bool = False,
    ) -> Any:
        wanted: ToCommit = [
            OffsetToCommit(partition, offset, -1, "") for partition, offset in offsets.items()
        ]
        if in_columns:
            partitions, committed = np.array(list(offsets.items()), np.int64).T
            wanted = OffsetColumns(partitions, committed, np.full(len(offsets), -1), "")
        command = CommitOffsets(GROUP, [(TOPIC, wanted)], MemberId(""), -1, retention_ms=retention_ms)
        return await self.submit(command, timeout_s)

    async def delete_offsets(self, partitions: Iterable[int], timeout_s: float = 30) -> Any:
        return await self.submit(DeleteOffsets(GROUP, [(TOPIC, list(partitions))]), timeout_s)

    async def delete_group(self, timeout_s: float = 30) -> Any:
        return await self.submit(DeleteGroup(GROUP), timeout_s)

    async def offsets(self) -> Offsets:
        fetched = await self.submit(FetchOffsets(GROUP, None))
        return {partition: offset for _, partition, offset, _, _ in each_fetched(fetched)}

    def last_of_each_key(self) -> Offsets:
        """Return the last record of every key, without knowledge of runs."""
        last: Offsets = {}
        for _, batch in self.partition.log.batches(0):
            for _, record in iterate_records(batch):
                match decode(record.key, record.value):
                    case OffsetCommit(partition=partition, offset=offset):
                        last[partition] = offset
                    case OffsetTombstone(partition=partition):
                        last.pop(partition, None)
        return last


def simulated(scenario: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """Run on a loop whose time advances when it is idle; a power failure in a callback ends the callback."""
    loop = SimulatedLoop(SimulatedTime(), 0.0001, Random(0), 0.0)
    loop.set_exception_handler(lambda loop, context: None)
    try:
        return loop.run_until_complete(scenario())
    finally:
        loop.close()


OLD = dict.fromkeys(range(0, PARTITIONS, 2), 1)
NEW = dict.fromkeys(range(PARTITIONS), 2)
Crash = Callable[[MemoryFileSystem, Random], None]
CRASHES: dict[str, Crash] = {
    "the process ends": lambda files, random: files.kill(),
    "the machine ends": lambda files, random: files.crash(),
    "the machine ends and some survives": lambda files, random: files.crash(random),
}


async def begin(files: MemoryFileSystem, *, segment_bytes: int | None = None) -> Life:
    """Start a shard in which OLD is committed, after earlier offsets."""
    life = Life(files)
    await life.runtime.load()
    if segment_bytes is not None:
        life.partition.log.settings = LogSettings(segment_bytes=segment_bytes)
    await life.commit({0: 0})
    await life.commit(OLD)
    return life


async def cut_short(
    operation: int,
    torn_bytes: int,
    new: Offsets = NEW,
    segment_bytes: int | None = None,
    act: Act | None = None,
) -> tuple[bool, MemoryFileSystem]:
    """Commit OLD, then `new`, or run `act`, with a power failure. Return whether it was acknowledged."""
    files = new_disk()
    life = await begin(files, segment_bytes=segment_bytes)
    files.cut_power_after(operation, torn_bytes)
    is_acknowledged = False
    with suppress(PowerCut, OSError, TimeoutError):
        result = await (life.commit(new, timeout_s=0.05) if act is None else act(life))
        is_acknowledged = not getattr(result, "error", result)
    if not files.has_power:
        life.end()
    return is_acknowledged, files


async def found_after(files: MemoryFileSystem, what: object) -> Offsets:
    """Return what a start loads, and check that the next start loads the same."""
    life = Life(files)
    await life.runtime.load()
    after = await life.offsets()
    assert life.last_of_each_key() == after, f"the standing values are not the last of their keys: {what}"
    end = life.partition.log.log_end_offset
    life.end()
    again = Life(files)
    await again.runtime.load()
    assert await again.offsets() == after, what
    assert again.partition.log.log_end_offset == end, f"a second recovery changed something: {what}"
    again.end()
    return after
