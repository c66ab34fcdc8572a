"""A shard's runtime when the disk or the log fails: it refuses commands, loads again, and continues."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from tests.runtime.counting import Add, Ask, counters, run, setup
from tests.waiting import until

from headgate.domain.errors import ErrorCode
from headgate.log.batch import CorruptBatch
from headgate.log.memory_filesystem import Fault, MemoryFileSystem
from headgate.runtime import shard_reloading, shard_runtime
from headgate.runtime.clock import Clock
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.runtime.shard_start import ShardStart


def test_a_write_that_fails_in_the_midst_of_a_turn_fails_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands before and after it in the same iteration get a retriable error."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    monkeypatch.setattr(shard_runtime, "EARLY_SYNC_FACTOR", 10**9)
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            files.inject(Fault(errno.ENOSPC, "pwrite", times=1))
            replies: list[object] = []
            for _ in range(7):
                s.runtime.submit(Add(), replies.append)
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 7
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Ask()) == 1
            assert await s.ask(Add()) == 2

    run(scenario)


def test_a_log_that_fails_in_other_hands_is_mended_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard notices the failure without a commit, so that no commit is refused because of it."""
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.log.look()
            assert await s.ask(Add()) == 2, "nothing is wrong"
            s.partition.log.fail(OSError(errno.EIO, "as a compaction does"))
            assert await s.ask(Ask()) == 2, "what is told meanwhile is true"
            s.log.look()
            assert await s.ask(Ask()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Add()) == 3

    run(scenario)


@pytest.mark.parametrize("kind", ["pwrite", "datasync"])
def test_a_failing_disk_is_reported_and_survived(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting requests get a retriable error, the count equals the log's, and the shard recovers."""
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.05)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            files.inject(Fault(errno.ENOSPC, kind, times=None))
            assert await s.ask(Add()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await s.ask(Ask()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.12)
            # After a failed write the log can be read; after a failed sync its contents are uncertain.
            readable = 1 if kind == "pwrite" else ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await s.ask(Ask()) == readable
            files.heal()
            await until(lambda: s.runtime.is_active, "it is loaded again")
            # The commit whose sync failed was refused, but the log may hold it.
            count = await s.ask(Ask())
            assert count == 1 if kind == "pwrite" else count in (1, 2)
            assert await s.ask(Add()) == count + 1

    run(scenario)


@pytest.mark.interpreted
def test_a_log_that_cannot_be_read_again_is_tried_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the load itself fails, the shard remains unavailable, tries again, and succeeds in the end."""
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.05)
    monkeypatch.setattr(shard_reloading, "DAMAGED_DELAY_SECONDS", 0.05)
    apply_log = ShardStart._apply_log
    failures = [OSError(errno.EIO, "the disk"), CorruptBatch("the bytes")]

    async def fail_twice(start: ShardStart[Any]) -> None:
        if failures:
            raise failures.pop()
        await apply_log(start)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            monkeypatch.setattr(ShardStart, "_apply_log", fail_twice)
            files.inject(Fault(errno.ENOSPC, "pwrite", times=1))
            assert await s.ask(Add()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: len(failures) == 1, "the first reload failed")
            assert await s.ask(Ask()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "a reload worked")
            assert failures == []
            assert await s.ask(Add()) == 2

    run(scenario)


def test_what_was_answered_is_there_after_a_power_cut() -> None:
    """A new runtime on the surviving disk continues from the last answered count."""

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


def test_every_shard_gets_its_context_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run when the shard is loaded, and again when it is loaded after a failure."""

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)
            told: list[int] = []

            def first_commands() -> list[object]:
                told.append(1)
                return [Ask(), Ask()]

            kind = counters(first_commands=first_commands)
            runtime = ShardRuntime(kind, LocalLog(s.partition, s.group_commit), Clock())
            assert not told
            await runtime.load()
            assert told == [1]
            runtime._fail("failed on purpose", None)
            await until(lambda: runtime.is_active, "it is loaded again")
            assert told == [1, 1]
            runtime.close()

    run(scenario)
