"""Syncs beside the loop: both implementations run them, report each once, and keep errors."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.log.support import append

from headgate.log.filesystem import OsFileSystem
from headgate.log.log import Log, LogSettings
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.kernel_queues import AsynchronousIo, RingQueue
from headgate.runtime.syncing import KernelSyncer, Syncer, ThreadSyncer, syncer_for

MakeSyncer = Callable[[asyncio.AbstractEventLoop], Syncer]
QUEUES: list[type[RingQueue | AsynchronousIo] | None] = [RingQueue, AsynchronousIo, None]


@pytest.fixture(params=QUEUES, ids=["ring", "aio", "thread"])
def make_syncer(request: pytest.FixtureRequest) -> MakeSyncer:
    """Make a syncer of each kind that this machine supports."""
    new_queue: type[RingQueue | AsynchronousIo] | None = request.param
    if new_queue is None:
        return ThreadSyncer
    try:
        new_queue().close()
    except OSError as reason:
        pytest.skip(f"not on this machine: {reason}")
    return lambda loop: KernelSyncer(loop, new_queue())


def open_log(directory: Path) -> Log:
    log = Log.open(OsFileSystem(), directory, LogSettings(), clean=True)
    append(log)
    request = log.begin_sync()  # with names: after this there is only one file to sync
    request.run()
    log.complete_sync(request)
    append(log)
    return log


def test_a_sync_is_run_and_reported_once(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """At the callback the request has run, and the log is durable up to its end at the start of the sync."""

    async def scenario() -> None:
        log = open_log(tmp_path / "t-0")
        syncer = make_syncer(asyncio.get_running_loop())
        for _ in range(20):
            end = log.log_end_offset
            request = log.begin_sync()
            assert request.only_descriptor is not None
            told: asyncio.Queue[bool] = asyncio.Queue()
            syncer.run(request, lambda told=told, request=request: told.put_nowait(request.has_run))  # type: ignore[misc]
            append(log)
            assert await asyncio.wait_for(told.get(), 10)
            assert told.empty()
            log.complete_sync(request)
            assert log.durable_offset == end
        if isinstance(syncer, KernelSyncer):
            assert syncer._fallback is None, "the kernel was not asked"
        syncer.close()
        log.close()

    asyncio.run(scenario())


def test_a_sync_of_more_than_one_file_is_run_too(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """A new log has names to sync, and several segments have several files."""

    async def scenario() -> None:
        syncer = make_syncer(asyncio.get_running_loop())
        log = Log.open(
            OsFileSystem(), tmp_path / "t-0", LogSettings(segment_bytes=200, sync_on_roll=False), clean=True
        )
        for _ in range(10):
            append(log)
        request = log.begin_sync()
        assert request.only_descriptor is None
        ran = asyncio.Event()
        syncer.run(request, ran.set)
        await asyncio.wait_for(ran.wait(), 10)
        log.complete_sync(request)
        assert log.durable_offset == log.log_end_offset == 10
        syncer.close()
        log.close()

    asyncio.run(scenario())


def test_a_sync_that_fails_keeps_its_error(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """A file that is closed during a sync makes it fail, and the log with it."""

    async def scenario() -> None:
        log = open_log(tmp_path / "t-0")
        syncer = make_syncer(asyncio.get_running_loop())
        request = log.begin_sync()
        ((_, file, _),) = request.parts
        assert file.descriptor is not None
        os.close(file.descriptor)
        ran = asyncio.Event()
        syncer.run(request, ran.set)
        await asyncio.wait_for(ran.wait(), 10)
        with pytest.raises(OSError) as failure:
            log.complete_sync(request)
        assert failure.value.errno == errno.EBADF
        assert log.failure is not None
        syncer.close()

    asyncio.run(scenario())


def test_closing_waits_for_what_runs(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """No sync continues, and no callback is called."""

    async def scenario() -> None:
        logs = [open_log(tmp_path / f"t-{index}") for index in range(100)]
        syncer = make_syncer(asyncio.get_running_loop())
        told: list[int] = []
        requests = [log.begin_sync() for log in logs]
        for index, request in enumerate(requests):
            syncer.run(request, lambda index=index: told.append(index))  # type: ignore[misc]
        syncer.close()
        assert all(request.has_run and request.error is None for request in requests)
        for log, request in zip(logs, requests, strict=True):
            log.complete_sync(request)
            assert log.durable_offset == 2
            log.close()

    asyncio.run(scenario())


def test_logs_do_not_wait_for_each_other(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """Each log has its own queue: all are synced, each in the order of its requests."""

    async def scenario() -> None:
        logs = [open_log(tmp_path / f"t-{index}") for index in range(8)]
        seconds: list[float] = []
        loop = asyncio.get_running_loop()
        commit = GroupCommit(loop, seconds.append, make_syncer(loop))
        served: list[tuple[int, int]] = []
        done = asyncio.Event()

        def on_done(index: int, round_: int, is_durable: bool) -> None:
            assert is_durable
            assert logs[index].durable_offset >= round_ + 3
            served.append((index, round_))
            if len(served) == 5 * len(logs):
                done.set()

        for round_ in range(5):
            for index, log in enumerate(logs):
                append(log)
                commit.when_durable(
                    log,
                    lambda is_durable, index=index, round_=round_: on_done(index, round_, is_durable),  # type: ignore[misc]
                )
            await asyncio.sleep(0)
        await asyncio.wait_for(done.wait(), 10)
        for index in range(len(logs)):
            assert [one for one in served if one[0] == index] == [(index, round_) for round_ in range(5)]
        assert len(logs) <= len(seconds) <= 5 * len(logs)
        commit.close()

    asyncio.run(scenario())


def test_what_waits_when_the_group_commit_closes_is_synced(make_syncer: MakeSyncer, tmp_path: Path) -> None:
    """Requests of the running sync and waiting ones are both reported as durable."""

    async def scenario() -> None:
        log = open_log(tmp_path / "t-0")
        loop = asyncio.get_running_loop()
        commit = GroupCommit(loop, lambda seconds: None, make_syncer(loop))
        told: list[tuple[str, bool]] = []
        commit.when_durable(log, lambda is_durable: told.append(("served", is_durable)))
        await asyncio.sleep(0)
        append(log)
        commit.when_durable(log, lambda is_durable: told.append(("waits", is_durable)))
        commit.close()
        assert told == [("served", True), ("waits", True)]
        assert log.durable_offset == log.log_end_offset
        await asyncio.sleep(0.01)
        assert len(told) == 2
        log.close()

    asyncio.run(scenario())


def test_a_machine_without_asynchronous_syncs_has_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without support by the kernel, a thread runs the syncs."""
    monkeypatch.setattr("platform.machine", lambda: "z80")

    async def scenario() -> None:
        syncer = syncer_for(asyncio.get_running_loop())
        assert isinstance(syncer, ThreadSyncer)
        syncer.close()

    asyncio.run(scenario())


def test_a_ring_that_is_refused_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not have a ring continues without it and without its descriptors."""
    try:
        RingQueue().close()
    except OSError as reason:
        pytest.skip(f"not on this machine: {reason}")
    monkeypatch.setattr("headgate.runtime.kernel_queues._AT_REQUESTS", 0x7000_0000)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match=r"Cannot allocate memory|Invalid argument"):  # depends on the kernel
        RingQueue()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
