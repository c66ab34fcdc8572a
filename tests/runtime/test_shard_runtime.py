"""The runtime of a shard: when replies are released, and what a loop iteration writes and syncs."""

from __future__ import annotations

import asyncio
import threading
from itertools import count, pairwise
from typing import Any

import pytest
from tests.runtime.counting import Add, AnswerLater, Ask, Counter, counters, hold_syncs, run, setup
from tests.waiting import until

from headgate.domain.errors import ErrorCode
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime import held_replies, shard_runtime
from headgate.runtime.clock import Clock
from headgate.runtime.local_log import LocalLog
from headgate.runtime.loop_watch import LoopWatch, Step
from headgate.runtime.shard_runtime import ShardRuntime


def test_no_reply_leaves_before_the_disk_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit waits for its sync, and so does a read that saw the commit."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            gate = threading.Event()
            hold_syncs(gate, monkeypatch)
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
    """A hundred commands of one iteration are one batch in the log and one sync."""

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
    """The first records are written and synced meanwhile; the rest waits for the end of this sync."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    seconds = count()

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            s.runtime.seconds = s.log.seconds = lambda: float(next(seconds))
            assert await s.ask(Add()) == 1
            s.sync_seconds.clear()
            gate = threading.Event()
            hold_syncs(gate, monkeypatch)
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
    """Two syncs per iteration would halve the throughput of a disk whose syncs outlast an iteration."""
    monkeypatch.setattr(shard_runtime, "EARLY_RECORDS", 5)
    now = 0.0

    async def scenario() -> None:
        nonlocal now
        async with setup(MemoryFileSystem()) as s:
            s.runtime.seconds = s.log.seconds = lambda: now
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


def test_a_read_with_nothing_outstanding_needs_no_sync() -> None:
    """Replies wait only for data that could be lost."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.sync_seconds.clear()
            assert await s.ask(Ask()) == 1
            assert s.sync_seconds == []

    run(scenario)


def test_trusting_the_page_cache_answers_without_a_sync() -> None:
    """With headgate.durability=page-cache a written commit is acknowledged."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem(), headgate_durability="page-cache") as s:
            assert [await s.ask(Add()) for _ in range(3)] == [1, 2, 3]
            assert s.sync_seconds == []
            assert s.partition.high_watermark == 3

    run(scenario)


def test_a_deadline_brings_a_tick() -> None:
    """A parked request is answered at its deadline, without another command."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(AnswerLater()) == "late"

    run(scenario)


def test_many_replies_leave_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command may answer thousands: other work runs in between, and every request is answered."""
    monkeypatch.setattr(held_replies, "RELEASED_AT_ONCE", 3)

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            told: list[Any] = []
            for _ in range(10):
                s.runtime.submit(AnswerLater(), told.append)
            loop = asyncio.get_running_loop()
            counts: list[int] = []

            def look() -> None:
                counts.append(len(told))
                if len(told) < 10:
                    loop.call_later(0, look)

            look()
            assert await s.ask(AnswerLater()) == "late"
            assert told == ["late"] * 10
            assert max(now - before for before, now in pairwise(counts)) <= 6

    run(scenario)


@pytest.mark.interpreted
def test_what_blocks_the_loop_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps without a request are named: a write, timers, and the slices of a load."""
    names: list[str] = []
    begin = LoopWatch.begin

    def noted(watch: LoopWatch, step: Step) -> Step | None:
        names.append(step.step_name)
        return begin(watch, step)

    monkeypatch.setattr(LoopWatch, "begin", noted)

    async def scenario() -> None:
        files = MemoryFileSystem()
        async with setup(files) as s:
            assert await s.ask(Add()) == 1
            assert await s.ask(AnswerLater()) == "late"
        async with setup(files) as s:
            assert await s.ask(Ask()) == 1

    run(scenario)
    assert set(names) == {"shard write", "shard timers", "shard loading"}


def test_commands_are_refused_while_the_log_is_loaded() -> None:
    """Until the shard is loaded, every command gets a retriable error."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            await s.ask(Add())
            fresh = ShardRuntime(counters(), LocalLog(s.partition, s.group_commit), Clock())
            replies: list[object] = []
            fresh.submit(Ask(), replies.append)
            assert replies == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
            await fresh.load()
            assert isinstance(fresh.shard, Counter)
            assert (fresh.shard.count, fresh.shard.is_loaded) == (1, True)

    run(scenario)


def test_a_closed_shard_takes_no_command() -> None:
    """Its log was closed with it, and is not opened again."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            s.runtime.close()
            replies: list[object] = []
            s.runtime.submit(Add(), replies.append)
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert s.partition.log.log_end_offset == 1

    run(scenario)
