"""The shell around a shard: when replies leave, and what a failing disk does to them.

The shard is a counter that commits offsets, the topics and the log are the real ones, the disk is the one in
memory that fails on demand.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from headgate.core.commands import Tick
from headgate.core.contract import Effects, Reply, Token
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.batch import CorruptBatch
from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.records import OffsetCommit, Record
from headgate.server import shard_runtime
from headgate.server.clock import Clock
from headgate.server.group_commit import GroupCommit
from headgate.server.shard_runtime import ShardRuntime
from headgate.topics.partition import Partition
from headgate.topics.topics import NewTopic, Topics

DATA_DIR = Path("/data")


@dataclass
class Add:
    """Count one; the reply is the new count."""


@dataclass
class Ask:
    """The reply is the count."""


@dataclass
class AnswerLater:
    """The reply comes with the next Tick."""


class Counter:
    """A shard that remembers one number, in the form of a committed offset."""

    def __init__(self) -> None:
        self.count = 0
        self.parked: list[Token] = []
        self.deadline: Millis | None = None
        self.is_loaded = False

    def handle(self, command: object, now: Millis, token: Token = 0) -> Effects[Record]:
        match command:
            case Add():
                record = OffsetCommit(GroupId("g"), TopicName("t"), 0, self.count + 1, -1, "", now)
                return Effects([record], [Reply(token, self.count + 1)])
            case AnswerLater():
                self.parked.append(token)
                self.deadline = Millis(now + 20)
                return Effects()
            case Tick():
                parked, self.parked, self.deadline = self.parked, [], None
                return Effects(replies=[Reply(waiting, "late") for waiting in parked])
        return Effects(replies=[Reply(token, self.count)])

    def apply(self, record: Record, position: int) -> None:
        assert isinstance(record, OffsetCommit)
        assert record.offset == position + 1
        self.count = record.offset

    def standing(self, record: Record) -> Record | None:
        return None

    def loaded(self, now: Millis) -> None:
        self.is_loaded = True

    def next_deadline(self) -> Millis | None:
        return self.deadline


@dataclass
class Setup:
    """A runtime over a fresh data directory."""

    runtime: ShardRuntime[Counter]
    partition: Partition
    files: MemoryFileSystem
    sync_seconds: list[float]

    async def ask(self, command: object) -> Any:
        """Submit and wait for the reply."""
        reply = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, reply.set_result)
        return await asyncio.wait_for(reply, 10)


@asynccontextmanager
async def setup(files: MemoryFileSystem, **given: str) -> AsyncIterator[Setup]:
    settings = Settings({name.replace("_", "."): value for name, value in given.items()})
    clock = Clock()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    topics = Topics.open(files, DATA_DIR, settings, clock.now())
    topic = topics.by_name(GROUP_OFFSETS_TOPIC)
    if topic is None:
        created = topics.create(NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"t" * 16), 1), clock.now())
        topic = topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is created
    sync_seconds: list[float] = []
    group_commit = GroupCommit(asyncio.get_running_loop(), sync_seconds.append)
    partition = topic.partition(0)
    runtime = ShardRuntime(Counter, partition, group_commit, clock)
    await runtime.load()
    yield Setup(runtime, partition, files, sync_seconds)
    group_commit.close()
    with suppress(PowerCut):
        runtime.close()
        topics.close()


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def hold_syncs(partition: Partition, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every sync of the partition's log wait for `gate`."""
    begin_sync = type(partition.log).begin_sync

    def begin(log: Any) -> Any:
        request = begin_sync(log)
        file_sync = type(request).run

        class Held:
            def __getattr__(self, name: str) -> Any:
                return getattr(request, name)

            def run(self) -> None:
                assert gate.wait(10)
                file_sync(request)

        return Held()

    monkeypatch.setattr(type(partition.log), "begin_sync", begin)


def test_no_reply_leaves_before_the_disk_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit waits for its sync, and a read that saw the commit waits with it."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            gate = threading.Event()
            hold_syncs(s.partition, gate, monkeypatch)
            replies: list[tuple[str, object]] = []
            s.runtime.submit(Add(), lambda reply: replies.append(("add", reply)))
            await asyncio.sleep(0.05)
            s.runtime.submit(Ask(), lambda reply: replies.append(("ask", reply)))
            await asyncio.sleep(0.05)
            assert replies == []
            gate.set()
            assert await s.ask(Ask()) == 2
            assert replies == [("add", 2), ("ask", 2)]

    run(scenario)


def test_one_write_and_one_sync_serve_a_whole_turn() -> None:
    """A hundred commands of one turn are one batch in the log and one sync."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.sync_seconds.clear()
            replies: list[object] = []
            for _ in range(100):
                s.runtime.submit(Add(), replies.append)
            await s.ask(Ask())
            assert replies == list(range(2, 102))
            assert len(s.sync_seconds) == 1
            batches = list(s.partition.log.batches(0))
            assert [header.record_count for header, _ in batches] == [1, 100]

    run(scenario)


def test_a_turn_that_decides_much_does_not_let_the_disk_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its beginning is written and synced while it goes on; what follows waits for that sync to end."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    seconds = count()

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            s.runtime.seconds = lambda: float(next(seconds))
            assert await s.ask(Add()) == 1
            s.sync_seconds.clear()
            gate = threading.Event()
            hold_syncs(s.partition, gate, monkeypatch)
            replies: list[object] = []
            ends = []
            for _ in range(14):
                s.runtime.submit(Add(), replies.append)
                ends.append(s.partition.log.log_end_offset)
            assert ends == [1] * 4 + [6] * 10
            await until(lambda: s.partition.log.log_end_offset == 15, "the end of the turn, sync or not")
            assert s.partition.log.log_end_offset == 15
            assert replies == []
            gate.set()
            assert await s.ask(Ask()) == 15
            assert replies == list(range(2, 16))
            assert len(s.sync_seconds) == 2
            assert [header.record_count for header, _ in s.partition.log.batches(0)] == [1, 5, 9]
            assert s.runtime.shard.count == 15

    run(scenario)


def test_a_slow_disk_gets_the_turn_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two syncs for a turn would halve what a disk takes that needs longer for one than a turn."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    now = 0.0

    async def scenario() -> None:
        nonlocal now
        async with setup(MemoryFileSystem()) as s:
            s.runtime.seconds = lambda: now
            for sync_seconds, turn_seconds, is_early in (
                (50.0, 1.0, False),
                (3.0, 1.0, True),
                (4.0, 1.0, False),
            ):
                s.runtime.submit(Add(), lambda reply: None)
                await asyncio.sleep(0)
                await asyncio.sleep(0)  # the sync runs
                now += sync_seconds
                before = await s.ask(Ask())
                for place in range(6):
                    s.runtime.submit(Add(), lambda reply: None)
                    if not place:
                        now += turn_seconds
                assert (s.partition.log.log_end_offset > before) == is_early
                await s.ask(Ask())

    run(scenario)


def test_a_write_that_fails_in_the_midst_of_a_turn_fails_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked before it gets a retriable error, and so does who asks after it in the same turn."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    monkeypatch.setattr(shard_runtime, "EARLY_SYNC_FACTOR", 1e9)
    monkeypatch.setattr(shard_runtime, "RELOAD_DELAY_SECONDS", 0.01)

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.files.inject(Fault(errno.ENOSPC, "pwrite", times=1))
            replies: list[object] = []
            for _ in range(7):
                s.runtime.submit(Add(), replies.append)
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 7
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Ask()) == 1
            assert await s.ask(Add()) == 2

    run(scenario)


def test_a_log_that_fails_in_other_hands_is_mended_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard does not wait for a commit to find out, and no commit is refused because of it."""
    monkeypatch.setattr(shard_runtime, "RELOAD_DELAY_SECONDS", 0.01)

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.runtime.look_at_log()
            assert await s.ask(Add()) == 2, "nothing is wrong"
            s.partition.log.fail(OSError(errno.EIO, "as a compaction does"))
            assert await s.ask(Ask()) == 2, "what is told meanwhile is true"
            s.runtime.look_at_log()
            assert await s.ask(Ask()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Add()) == 3

    run(scenario)


def test_a_read_with_nothing_outstanding_needs_no_sync() -> None:
    """Only what could be lost is waited for."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.sync_seconds.clear()
            assert await s.ask(Ask()) == 1
            assert s.sync_seconds == []

    run(scenario)


def test_trusting_the_page_cache_answers_without_a_sync() -> None:
    """With headgate.durability=page-cache a written commit is answered."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem(), headgate_durability="page-cache") as s:
            assert [await s.ask(Add()) for _ in range(3)] == [1, 2, 3]
            assert s.sync_seconds == []
            assert s.partition.high_watermark == 3

    run(scenario)


@pytest.mark.parametrize("kind", ["pwrite", "datasync"])
def test_a_failing_disk_is_told_survived_and_left_behind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits gets a retriable error, the count is the one of the log, and it goes on by itself."""
    monkeypatch.setattr(shard_runtime, "RELOAD_DELAY_SECONDS", 0.05)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            files.inject(Fault(errno.ENOSPC, kind, times=None))
            assert await s.ask(Add()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await s.ask(Ask()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.12)
            # Where a write fails the log is whole, and can be read; where a sync fails nobody knows what is.
            readable = 1 if kind == "pwrite" else ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await s.ask(Ask()) == readable
            files.heal()
            await until(lambda: s.runtime.is_active, "it is loaded again")
            # A commit whose sync failed was refused, but may have reached the log whole.
            count = await s.ask(Ask())
            assert count == 1 if kind == "pwrite" else count in (1, 2)
            assert await s.ask(Add()) == count + 1

    run(scenario)


def test_a_log_that_cannot_be_read_again_is_tried_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the reload itself fails, the shard stays unavailable, tries again, and goes on in the end."""
    monkeypatch.setattr(shard_runtime, "RELOAD_DELAY_SECONDS", 0.05)
    apply_log = ShardRuntime._apply_log
    failures = [OSError(errno.EIO, "the disk"), CorruptBatch("the bytes")]

    async def fail_twice(runtime: ShardRuntime[Counter], log: Any, from_offset: Any) -> None:
        if failures:
            raise failures.pop()
        await apply_log(runtime, log, from_offset)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            monkeypatch.setattr(ShardRuntime, "_apply_log", fail_twice)
            files.inject(Fault(errno.ENOSPC, "pwrite", times=1))
            assert await s.ask(Add()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: len(failures) == 1, "the first reload failed")
            assert await s.ask(Ask()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "a reload worked")
            assert failures == []
            assert await s.ask(Add()) == 2

    run(scenario)


def test_what_was_answered_is_there_after_a_power_cut() -> None:
    """A fresh runtime over the surviving disk counts on from the last answer."""

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            for _ in range(5):
                last = await s.ask(Add())
            files.cut_power_after(0)
        files.crash()
        async with setup(files) as s:
            assert await s.ask(Ask()) == last == 5
            assert await s.ask(Add()) == 6

    run(scenario)


def test_a_deadline_brings_a_tick() -> None:
    """What the shard parked is answered when its deadline comes, without any other command."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(AnswerLater()) == "late"

    run(scenario)


def test_commands_are_refused_while_the_log_is_loaded() -> None:
    """Until the shard is loaded, everyone is told to come back."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            await s.ask(Add())
            fresh = ShardRuntime(Counter, s.partition, s.runtime._group_commit, Clock())
            replies: list[object] = []
            fresh.submit(Ask(), replies.append)
            assert replies == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
            await fresh.load()
            assert isinstance(fresh.shard, Counter)
            assert (fresh.shard.count, fresh.shard.is_loaded) == (1, True)

    run(scenario)


def test_every_shard_is_told_first_what_it_has_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as it is loaded, and again by itself when it was loaded after a failure."""

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            monkeypatch.setattr(shard_runtime, "RELOAD_DELAY_SECONDS", 0.01)
            told: list[int] = []

            def first_commands() -> list[object]:
                told.append(1)
                return [Ask(), Ask()]

            runtime = ShardRuntime(
                Counter, s.partition, s.runtime._group_commit, Clock(), first_commands=first_commands
            )
            assert not told
            await runtime.load()
            assert told == [1]
            runtime._fail("failed on purpose", None)
            await until(lambda: runtime.is_active, "it is loaded again")
            assert told == [1, 1]
            runtime.close()

    run(scenario)
