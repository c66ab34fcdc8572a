"""Every sync ends, and only as done if it was done, whatever the kernel or a thread does."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.support import append
from tests.waiting import until

from headgate.log.filesystem import OsFileSystem
from headgate.log.log import Log, LogSettings
from headgate.log.sync import SyncRequest
from headgate.runtime import syncing
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.kernel_queues import Outcome
from headgate.runtime.syncing import KernelSyncer, ThreadSyncer


class ScriptedQueue:
    """A kernel that a test controls: it accepts every sync and runs none."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self.numbers: list[int] = []
        self.outcomes: list[Outcome] = []
        self.failure: OSError | None = None
        self.looks = 0
        self.is_closed = False

    def submit(self, descriptor: int, number: int) -> None:
        self.numbers.append(number)

    def announce(self, *outcomes: Outcome) -> None:
        self.outcomes += outcomes
        os.eventfd_write(self.descriptor, 1)

    def take(self, fewest: int) -> list[Outcome]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        outcomes, self.outcomes = self.outcomes, []
        if outcomes:
            os.eventfd_read(self.descriptor)
        return outcomes

    def close(self) -> None:
        self.is_closed = True
        os.close(self.descriptor)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Make a log with one unsynced record in one file."""
    log = Log.open(OsFileSystem(), tmp_path / "t-0", LogSettings(), clean=True)
    append(log)
    request = log.begin_sync()
    request.run()
    log.complete_sync(request)
    append(log)
    yield log
    log.close_files()


def test_an_announcement_without_outcomes_does_not_spin_for_ever(log: Log) -> None:
    """The kernel queue is abandoned, the sync in flight has failed, and a thread runs the next one."""

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        request = log.begin_sync()
        ran = asyncio.Event()
        syncer.run(request, ran.set)
        assert queue.numbers == [1]
        queue.announce()
        await asyncio.wait_for(ran.wait(), 10)
        assert queue.is_closed and queue.looks <= syncing.MOST_LOOKS_IN_VAIN + 1
        with pytest.raises(OSError, match="has none"):
            log.complete_sync(request)
        log.recover()
        append(log)
        request = log.begin_sync()
        ran.clear()
        syncer.run(request, ran.set)
        await asyncio.wait_for(ran.wait(), 10)
        log.complete_sync(request)
        assert queue.numbers == [1]
        syncer.close()

    asyncio.run(scenario())


def test_a_kernel_that_cannot_be_asked_for_outcomes_is_given_up(log: Log) -> None:
    """A sync in flight has failed, also if this is detected at a stop."""

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        request = log.begin_sync()
        syncer.run(request, lambda: None)
        queue.failure = OSError(errno.EBADR, "outcomes were dropped")
        queue.announce()
        syncer.close()
        assert queue.is_closed
        assert request.has_run and request.error is queue.failure

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [errno.ECANCELED, errno.EAGAIN, errno.EINTR])
def test_what_the_kernel_did_not_run_is_run_by_the_thread(log: Log, code: int) -> None:
    """A sync that was accepted and returned has not run; it has not failed."""

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        request = log.begin_sync()
        ran = asyncio.Event()
        syncer.run(request, ran.set)
        queue.announce((1, -code))
        await asyncio.wait_for(ran.wait(), 10)
        log.complete_sync(request)
        assert log.durable_offset == 2
        syncer.close()

    asyncio.run(scenario())


@pytest.mark.plants_failures("sync")
def test_a_callback_that_raises_does_not_delay_the_next(log: Log) -> None:
    """Several outcomes arrive at once, each of another log."""

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        first, second = log.begin_sync(), log.begin_sync()
        ran = asyncio.Event()
        syncer.run(first, lambda: 1 / 0)  # type: ignore[arg-type]
        syncer.run(second, ran.set)
        queue.announce((1, 0), (2, 0))
        await asyncio.wait_for(ran.wait(), 10)
        assert first.has_run and second.has_run
        syncer.close()

    asyncio.run(scenario())


def test_a_stop_says_that_it_waits(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits as long as the disk needs, and logs this once."""
    monkeypatch.setattr(syncing, "PATIENCE_SECONDS", 0.05)

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        request = log.begin_sync()
        syncer.run(request, lambda: None)
        disk = threading.Timer(0.3, lambda: queue.announce((1, 0)))
        disk.start()
        syncer.close()
        disk.join()
        assert request.has_run and request.error is None

    asyncio.run(scenario())
    waiting = [record for record in caplog.records if "waits for syncs" in record.getMessage()]
    assert len(waiting) == 1


@pytest.mark.interpreted
@pytest.mark.plants_failures("sync")
def test_a_thread_continues_after_a_sync_that_ended_unexpectedly(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This sync has failed, whatever the exception, and the next one runs."""
    run = SyncRequest.run

    def fail(request: SyncRequest) -> None:
        request.directories.append(None)  # type: ignore[arg-type]
        run(request)

    async def scenario() -> None:
        syncer = ThreadSyncer(asyncio.get_running_loop())
        request = log.begin_sync()
        ran = asyncio.Event()
        monkeypatch.setattr(SyncRequest, "run", fail)
        syncer.run(request, ran.set)
        await asyncio.wait_for(ran.wait(), 10)
        monkeypatch.setattr(SyncRequest, "run", run)
        with pytest.raises(OSError, match="TypeError"):
            log.complete_sync(request)
        log.recover()
        append(log)
        request = log.begin_sync()
        ran.clear()
        syncer.run(request, ran.set)
        await asyncio.wait_for(ran.wait(), 10)
        log.complete_sync(request)
        syncer.close()

    asyncio.run(scenario())


def test_a_sync_that_did_not_run_made_nothing_durable(log: Log) -> None:
    """Its completion raises, and the log has failed."""
    request = log.begin_sync()
    with pytest.raises(OSError, match="did not run"):
        log.complete_sync(request)
    assert log.failure is not None
    assert log.durable_offset == 1


def test_a_machine_without_a_thread_to_spare_fails_the_sync(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync fails at once, and the next one may succeed."""

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        queue = ScriptedQueue()
        queue.submit = refuse  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        commit = GroupCommit(loop, lambda seconds: None, KernelSyncer(loop, queue))
        told: list[bool] = []
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            commit.when_durable(log, told.append)
            await until(lambda: told, "it has ended")
        assert told == [False]
        assert log.failure is not None
        log.recover()
        append(log)
        commit.when_durable(log, told.append)
        await until(lambda: len(told) == 2, "it has ended")
        assert told == [False, True]
        commit.close()

    asyncio.run(scenario())


def refuse(descriptor: int, number: int) -> None:
    raise OSError(errno.EAGAIN, "no room")


def test_no_callback_is_called_after_a_close(log: Log) -> None:
    """Callbacks of requests that end during the close are not called."""

    async def scenario() -> None:
        told: list[str] = []
        syncer = ThreadSyncer(asyncio.get_running_loop())
        request = log.begin_sync()
        syncer.run(request, lambda: told.append("told"))
        syncer.close()
        assert request.has_run
        log.complete_sync(request)
        await asyncio.sleep(0.01)
        assert told == []

    asyncio.run(scenario())


def test_what_is_asked_for_after_the_close_is_not_durable(log: Log) -> None:
    """No sync runs any more: the request is refused in the next iteration."""

    async def scenario() -> None:
        commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None)
        commit.close()
        told: list[bool] = []
        commit.when_durable(log, told.append)
        commit.begin(log)
        assert told == []
        await until(lambda: told, "it is refused")
        assert told == [False]
        assert log.durable_offset == 1

    asyncio.run(scenario())


def test_an_outcome_of_nothing_harms_no_other(log: Log) -> None:
    """The unknown number is ignored, and the submitted sync ends."""

    async def scenario() -> None:
        queue = ScriptedQueue()
        syncer = KernelSyncer(asyncio.get_running_loop(), queue)
        request = log.begin_sync()
        ran = asyncio.Event()
        syncer.run(request, ran.set)
        queue.announce((77, 0), (1, 0))
        await asyncio.wait_for(ran.wait(), 10)
        log.complete_sync(request)
        assert log.durable_offset == 2
        syncer.close()

    asyncio.run(scenario())
