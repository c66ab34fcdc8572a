"""A commit of any size is all or nothing, wherever the power fails meanwhile (R3.7, R3.12, R3.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.core.offsets.commands import CommitOffsets, FetchOffsets, OffsetToCommit
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, MemberId, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.batch import iterate_records
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.records import OffsetCommit, decode
from headgate.server import turn_batches
from headgate.server.clock import Clock
from headgate.server.group_commit import GroupCommit
from headgate.server.shard_runtime import ShardRuntime
from headgate.topics.topics import NewTopic, Topics

# A power cut ends the thread that syncs: there is no machine for it to run on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

DATA_DIR = Path("/data")
GROUP, TOPIC = GroupId("wide"), TopicName("t")
PARTITIONS = 60
Offsets = dict[int, int]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide commit takes several batches."""
    monkeypatch.setattr(turn_batches, "BATCH_BYTES", 1500)


class Life:
    """One life of a shard, from a start to a power cut."""

    def __init__(self, files: MemoryFileSystem) -> None:
        clock = Clock()
        self.topics = Topics.open(files, DATA_DIR, Settings(), clock.now())
        topic = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        if topic is None:
            self.topics.create(NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"t" * 16), 1), clock.now())
            topic = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is not None
        self.partition = topic.partition(0)
        self.group_commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None)
        self.runtime = ShardRuntime(lambda: GroupShard(Settings()), self.partition, self.group_commit, clock)

    async def submit(self, command: Any, timeout_s: float = 30) -> Any:
        reply = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, lambda result: None if reply.done() else reply.set_result(result))
        return await asyncio.wait_for(reply, timeout_s)

    async def commit(self, offsets: Offsets, timeout_s: float = 30) -> Any:
        wanted = [OffsetToCommit(partition, offset, -1, "") for partition, offset in offsets.items()]
        return await self.submit(CommitOffsets(GROUP, [(TOPIC, wanted)], MemberId(""), -1), timeout_s)

    async def offsets(self) -> Offsets:
        fetched = await self.submit(FetchOffsets(GROUP, None))
        return {partition: stored.offset for _, found in fetched.topics for partition, stored in found}

    def last_of_each_key(self) -> Offsets:
        """What is left when nothing but the last record of every key is kept, blind to runs."""
        last: Offsets = {}
        for _, batch in self.partition.log.batches(0):
            for _, record in iterate_records(batch):
                match decode(record.key, record.value):
                    case OffsetCommit(partition=partition, offset=offset):
                        last[partition] = offset
                    case gone:
                        last.pop(gone.partition, None)  # type: ignore[union-attr]
        return last

    def end(self) -> None:
        """Stop the threads; what the disk does not have is lost."""
        with suppress(PowerCut, OSError):
            self.group_commit.close()


def new_disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    return files


def cuts() -> Iterator[tuple[int, int]]:
    """Every change on the way of the commit, torn at several places."""
    for operation in range(12):
        for torn_bytes in (0, 1, 61, 700, 1600, 2500, 3300):
            yield operation, torn_bytes


OLD = dict.fromkeys(range(0, PARTITIONS, 2), 1)
NEW = dict.fromkeys(range(PARTITIONS), 2)


async def cut_short(operation: int, torn_bytes: int, random: Random) -> tuple[bool, MemoryFileSystem]:
    """Commit OLD, then NEW while the power fails; whether NEW was acknowledged."""
    files = new_disk()
    life = Life(files)
    await life.runtime.load()
    await life.commit(OLD)
    files.cut_power_after(operation, torn_bytes)
    is_acknowledged = False
    with suppress(PowerCut, OSError, TimeoutError):
        result = await life.commit(NEW, timeout_s=0.05)
        is_acknowledged = not getattr(result, "error", result)
    life.end()
    files.crash(random)
    return is_acknowledged, files


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_commit_is_all_or_nothing_wherever_the_power_fails(seed: int) -> None:
    """After the restart all offsets are the old ones or all the new ones; acknowledged means new."""

    async def scenario() -> set[bool]:
        random = Random(seed)
        outcomes = set()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        for operation, torn_bytes in cuts():
            is_acknowledged, files = await cut_short(operation, torn_bytes, random)
            life = Life(files)
            await life.runtime.load()
            after = await life.offsets()
            assert after in (OLD, NEW), (operation, torn_bytes)
            assert after == NEW or not is_acknowledged
            assert life.last_of_each_key() == after, "the standing values are the last of their keys"
            end = life.partition.log.log_end_offset
            life.end()
            again = Life(files)
            await again.runtime.load()
            assert await again.offsets() == after
            assert again.partition.log.log_end_offset == end, "a second recovery changes nothing"
            again.end()
            outcomes.add(after == NEW)
        return outcomes

    assert asyncio.run(scenario()) == {True, False}


def test_a_wide_commit_takes_several_batches_and_a_narrow_one_shares() -> None:
    """The run is really a run, and what follows it is read."""

    async def scenario() -> None:
        life = Life(new_disk())
        await life.runtime.load()
        await life.commit(NEW)
        assert len(list(life.partition.log.batches(0))) > 2
        await life.commit({0: 3})
        assert await life.offsets() == {**NEW, 0: 3}
        life.end()

    asyncio.run(scenario())
