"""No unsynced data is visible: when a sync fails, cannot begin, or still runs."""

from __future__ import annotations

import asyncio
import errno
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.runtime.counting import Add, Ask, Setup, hold_syncs, run, setup
from tests.waiting import until

from headgate.domain.errors import ErrorCode
from headgate.log.filesystem import OsFileSystem
from headgate.log.memory_filesystem import Fault, MemoryFileSystem
from headgate.runtime import shard_reloading, shard_runtime


@pytest.fixture(autouse=True)
def quick_reloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def write_and_close_the_file(s: Setup) -> list[object]:
    """Add one. It is written; its sync begins in the next iteration and has to open the file again."""
    replies: list[object] = []
    s.runtime.submit(Add(), replies.append)
    s.runtime._flush()
    s.partition.log.close_files()
    return replies


def test_a_sync_that_cannot_open_its_file_fails_the_log(tmp_path: Path) -> None:
    """Without a descriptor no request is answered until the log is loaded again and durable."""

    async def scenario() -> None:
        async with setup(OsFileSystem(), tmp_path / "data") as s:
            assert await s.ask(Add()) == 1
            log = s.partition.log
            with no_descriptors_left():
                replies = await write_and_close_the_file(s)
                await until(lambda: replies, "the sync has failed")
                assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
                assert isinstance(log.failure, OSError) and log.failure.errno == errno.EMFILE
                for _ in range(50):
                    assert await s.ask(Ask()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
                    await asyncio.sleep(0.001)
                assert log.durable_offset == 1
            await until(lambda: s.runtime.is_active, "it is loaded again")
            assert log.durable_offset == log.log_end_offset == 2
            assert await s.ask(Ask()) == 2
            assert await s.ask(Add()) == 3

    run(scenario)


def test_a_sync_that_cannot_begin_keeps_no_file_open(tmp_path: Path) -> None:
    """The descriptors that it had opened are closed."""

    async def scenario() -> None:
        async with setup(OsFileSystem(), tmp_path / "data") as s:
            assert await s.ask(Add()) == 1
            with no_descriptors_left():
                replies = await write_and_close_the_file(s)
                await until(lambda: replies, "the sync has failed")
            await until(lambda: s.runtime.is_active, "it is loaded again")
            s.partition.log.close_files()
            is_open = {path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()}
            assert s.partition.log.directory / "00000000000000000000.log" not in is_open

    run(scenario)


def test_a_shard_is_not_loaded_from_what_may_still_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write fails during a sync, the shard answers only when this sync has ended."""

    async def scenario() -> None:
        gate = threading.Event()
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            hold_syncs(gate, monkeypatch)
            replies = await fail_behind_a_sync(s, files)
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            assert s.partition.log.failure is None, "the write was cut back"
            for _ in range(50):
                answer = await s.ask(Ask())
                assert answer in (
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ), f"told {answer}, durable is {s.partition.log.durable_offset}"
                await asyncio.sleep(0.001)
            gate.set()
            await until(lambda: s.runtime.is_active, "it is loaded again")
            assert s.partition.log.durable_offset == 2
            assert await s.ask(Ask()) == 2

    run(scenario)


def test_a_sync_that_fails_while_its_shard_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is loaded once more, and answered data survives a power failure."""

    async def scenario() -> None:
        gate = threading.Event()
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            hold_syncs(gate, monkeypatch)
            await fail_behind_a_sync(s, files)
            await until(lambda: s.runtime._state is shard_runtime.State.LOADING, "it is being loaded")
            files.inject(Fault(errno.EIO, "datasync"))
            gate.set()
            await until(lambda: s.runtime.is_active, "it is loaded again")
            told = await s.ask(Ask())
            assert told in (1, 2)
            assert s.partition.log.durable_offset == s.partition.log.log_end_offset
            files.cut_power_after(0)
        files.crash()
        async with setup(files) as s:
            assert await s.ask(Ask()) == told

    run(scenario)


async def fail_behind_a_sync(s: Setup, files: MemoryFileSystem) -> list[object]:
    """Add two: the second write fails while the first one is being synced."""
    replies: list[object] = []
    s.runtime.submit(Add(), replies.append)
    s.runtime._flush()
    s.log.flush()
    files.inject(Fault(errno.ENOSPC, "pwrite", times=1))
    s.runtime.submit(Add(), replies.append)
    await until(lambda: len(replies) == 2, "both are refused")
    return replies


def test_a_log_that_cannot_be_opened_at_its_first_write_is_tried_again(tmp_path: Path) -> None:
    """The refusal does not need the missing log."""

    async def scenario() -> None:
        async with setup(OsFileSystem(), tmp_path / "data") as s:
            with no_descriptors_left():
                assert await s.ask(Add()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "it is loaded again")
            assert await s.ask(Add()) == 1

    run(scenario)
