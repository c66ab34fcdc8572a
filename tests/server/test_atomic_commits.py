"""A commit of any size is all or nothing, wherever the power fails meanwhile (R3.4, R3.7, R3.12, R3.13).

The power fails at every byte that is written and at every change of the disk's names: of a small commit, of
one that takes several batches, of one that begins a new segment, of a compaction, and of the recovery that
cuts off what another failure left. Time is simulated, so that nothing is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from tests.log.compacting import drive
from tests.simulation.disk import SimulatedSyncer
from tests.simulation.loop import SimulatedLoop, SimulatedTime

from headgate.core.offsets.commands import CommitOffsets, FetchOffsets, OffsetToCommit
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, MemberId, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.batch import iterate_records
from headgate.log.compaction import CompactionOrder, compact
from headgate.log.log import LogSettings
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.records import OffsetCommit, decode
from headgate.records.run_completeness import RunCompleteness
from headgate.server import turn_batches
from headgate.server.clock import Clock
from headgate.server.group_commit import GroupCommit
from headgate.server.shard_runtime import ShardRuntime
from headgate.topics.topics import NewTopic, Topics

ResultT = TypeVar("ResultT")

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
        loop = asyncio.get_running_loop()
        self.group_commit = GroupCommit(loop, lambda seconds: None, SimulatedSyncer(loop, Random(0), 0.0))
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
        """Stop; what the disk does not have is lost."""
        with suppress(PowerCut, OSError):
            self.group_commit.close()


def simulated(scenario: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """Run on a loop whose time passes when nothing is left to do; a power cut in a callback just ends it."""
    loop = SimulatedLoop(SimulatedTime(), 0.0001, Random(0), 0.0)
    loop.set_exception_handler(lambda loop, context: None)
    try:
        return loop.run_until_complete(scenario())
    finally:
        loop.close()


def new_disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    return files


OLD = dict.fromkeys(range(0, PARTITIONS, 2), 1)
NEW = dict.fromkeys(range(PARTITIONS), 2)

Crash = Callable[[MemoryFileSystem, Random], None]
CRASHES: dict[str, Crash] = {
    "the process ends": lambda files, random: files.kill(),
    "the machine ends": lambda files, random: files.crash(),
    "the machine ends and some survives": lambda files, random: files.crash(random),
}


async def begin(files: MemoryFileSystem, *, segment_bytes: int | None = None) -> Life:
    """A shard in which OLD is committed, and for a while longer something else."""
    life = Life(files)
    await life.runtime.load()
    if segment_bytes is not None:
        life.partition.log.settings = LogSettings(segment_bytes=segment_bytes)
    await life.commit({0: 0})
    await life.commit(OLD)
    return life


async def cut_short(
    operation: int, torn_bytes: int, new: Offsets = NEW, segment_bytes: int | None = None
) -> tuple[bool, MemoryFileSystem]:
    """Commit OLD, then more while the power fails, if it does; whether that was acknowledged."""
    files = new_disk()
    life = await begin(files, segment_bytes=segment_bytes)
    files.cut_power_after(operation, torn_bytes)
    is_acknowledged = False
    with suppress(PowerCut, OSError, TimeoutError):
        result = await life.commit(new, timeout_s=0.05)
        is_acknowledged = not getattr(result, "error", result)
    if not files.has_power:
        life.end()
    return is_acknowledged, files


async def found_after(files: MemoryFileSystem, what: object) -> Offsets:
    """What a start finds, and the next one finds in the same log."""
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


async def holds_wherever_the_power_fails(
    new: Offsets, torn: Iterable[int], segment_bytes: int | None = None
) -> set[bool]:
    """Whether the commit was there after each failure, which is as it was answered, and all or nothing."""
    outcomes = set()
    random = Random(len(new))
    for operation in range(100):
        has_got_through = False
        # What is torn is a write; at any other change there is nothing to tear.
        for torn_bytes in torn if operation == 0 else (0, 40):
            # Of many places in a write each is torn in one way, and its neighbours in the others.
            kinds = list(CRASHES) if operation else [list(CRASHES)[torn_bytes % len(CRASHES)]]
            for kind in kinds:
                is_acknowledged, files = await cut_short(operation, torn_bytes, new, segment_bytes)
                has_got_through = files.has_power
                assert is_acknowledged or not has_got_through
                CRASHES[kind](files, random)
                after = await found_after(files, (operation, torn_bytes, kind))
                assert after in (OLD, OLD | new), (operation, torn_bytes, kind)
                assert after == OLD | new or not is_acknowledged, (operation, torn_bytes, kind)
                outcomes.add(after == OLD | new)
        if has_got_through:
            return outcomes
    raise AssertionError("the commit never got through")


def test_a_small_commit_is_all_or_nothing_wherever_the_power_fails() -> None:
    """At every byte of its batch, and at every change after that."""
    assert simulated(lambda: holds_wherever_the_power_fails({0: 2}, range(140))) == {True, False}


def test_a_commit_of_several_batches_is_all_or_nothing_at_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch holds a few of its partitions."""
    monkeypatch.setattr(turn_batches, "BATCH_BYTES", 330)
    new = dict.fromkeys(range(10), 2)
    assert simulated(lambda: holds_wherever_the_power_fails(new, range(0, 1300, 2))) == {True, False}


def test_a_wide_commit_is_all_or_nothing_wherever_the_power_fails() -> None:
    """So is one of many more."""
    torn = (0, 1, 61, 700, 1600, 2500, 3300, 4200, 10_000)
    assert simulated(lambda: holds_wherever_the_power_fails(NEW, torn)) == {True, False}


@pytest.mark.parametrize("new", [{0: 2}, NEW], ids=["small", "wide"])
def test_a_commit_that_begins_a_segment_is_all_or_nothing_wherever_the_power_fails(new: Offsets) -> None:
    """The segment before it is closed and synced, its indexes are written, and the new one is created."""
    torn = (0, 1, 100)
    assert simulated(lambda: holds_wherever_the_power_fails(new, torn, segment_bytes=1)) == {True, False}


@pytest.mark.parametrize("kind", CRASHES)
def test_a_compaction_changes_no_offset_wherever_the_power_fails(kind: str) -> None:
    """With a commit among what is compacted that a crash had cut short."""

    async def scenario() -> None:
        for operation in range(200):
            _, files = await cut_short(0, 1600, segment_bytes=1)
            files.kill()
            life = Life(files)
            await life.runtime.load()
            life.partition.log.settings = LogSettings(segment_bytes=1)
            expected = OLD | {1: 5, 2: 6}
            for offsets in ({1: 4}, {1: 5}, {2: 6}):
                await life.commit(offsets)
            files.cut_power_after(operation, torn_bytes=operation % 200)
            with suppress(PowerCut):
                compact_all(life)
            has_got_through = files.has_power
            life.end()
            CRASHES[kind](files, Random(operation))
            assert await found_after(files, operation) == expected, operation
            if has_got_through:
                assert operation > 20
                return
        raise AssertionError("the compaction never got through")

    simulated(scenario)


def compact_all(life: Life) -> None:
    """Compact all closed segments of the shard's log."""
    log = life.partition.log
    end = log.segments.closed[-1].next_offset
    order = CompactionOrder(now_ms=0, delete_retention_ms=0, not_beyond=end, new_completeness=RunCompleteness)
    drive(compact(log, order))
    assert log.compacted_to == end


@pytest.mark.parametrize("kind", CRASHES)
@pytest.mark.parametrize("torn_bytes", [30, 900, 1600, 3300])
def test_a_recovery_can_fail_anywhere_and_be_done_again(kind: str, torn_bytes: int) -> None:
    """While it cuts off what was torn, and while it commits again what stood before that."""

    async def scenario() -> None:
        for operation in range(100):
            _, files = await cut_short(0, torn_bytes)
            files.kill()
            files.cut_power_after(operation, torn_bytes=operation % 100)
            with suppress(PowerCut):
                life = Life(files)
                await life.runtime.load()
                # What it decided is written and synced behind its back.
                await asyncio.sleep(1)
                life.end()
            has_got_through = files.has_power
            CRASHES[kind](files, Random(operation))
            assert await found_after(files, operation) == OLD, operation
            if has_got_through:
                return
        raise AssertionError("the recovery never got through")

    simulated(scenario)


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

    simulated(scenario)
