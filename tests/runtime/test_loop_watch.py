"""Steps that block the event loop are measured and logged with their cause."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from time import perf_counter, sleep

import pytest
from tests.server.clients import Client, run_scenario

from headgate.broker import run
from headgate.runtime import loop_watch
from headgate.runtime.loop_watch import (
    SAMPLE_SECONDS,
    STALL_SECONDS,
    STOPPED_SECONDS,
    WINDOW_SECONDS,
    Job,
    LoopWatch,
)
from headgate.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.timeout(60)


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def held(watch: LoopWatch, seconds: Seconds, name: str, duration: float) -> None:
    """Run a step of this name and duration."""
    with watch.step(name):
        seconds.now += duration


def test_a_step_that_blocks_the_loop_is_reported_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """Above the limit it is counted and logged; below it only the longest duration is recorded."""
    seconds = Seconds()
    watch = LoopWatch(seconds)
    with caplog.at_level(logging.WARNING):
        held(watch, seconds, "short", STALL_SECONDS / 2)
        assert not watch.stalls
        assert not caplog.records
        assert watch.longest_stall_seconds() == pytest.approx(STALL_SECONDS / 2)
        held(watch, seconds, "compaction", STALL_SECONDS * 2)
    assert watch.stalls == {"compaction": 1}
    (record,) = caplog.records
    assert vars(record)["serving"] == "compaction"
    assert vars(record)["seconds"] == pytest.approx(STALL_SECONDS * 2)
    assert watch.longest_stall_seconds() == pytest.approx(STALL_SECONDS * 2)


def test_a_step_within_a_step_belongs_to_the_outer_one() -> None:
    """The reply to a request is part of its step."""
    seconds = Seconds()
    watch = LoopWatch(seconds)
    outer = watch.begin(Job("DeleteGroups"))
    seconds.now += STALL_SECONDS
    held(watch, seconds, "answer", STALL_SECONDS)
    watch.end(outer)
    assert watch.stalls == {"DeleteGroups": 1}
    assert watch.longest_stall_seconds() == pytest.approx(2 * STALL_SECONDS)


def test_the_longest_stall_is_forgotten_after_two_windows() -> None:
    """A scrape every minute sees each stall, and a slow start is not reported for ever."""
    seconds = Seconds()
    watch = LoopWatch(seconds)
    held(watch, seconds, "start", 3.0)
    seconds.now += WINDOW_SECONDS
    held(watch, seconds, "later", 0.01)
    assert watch.longest_stall_seconds() == pytest.approx(3.0)
    seconds.now += WINDOW_SECONDS
    assert watch.longest_stall_seconds() == pytest.approx(0.01)
    seconds.now += 2 * WINDOW_SECONDS
    assert watch.longest_stall_seconds() == 0.0


def test_a_stall_that_nobody_named_is_reported_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The watching thread sees the current function of the loop's thread."""

    async def main() -> LoopWatch:
        watch = LoopWatch()

        def hold_the_loop() -> None:
            # The thread may be late, and may have seen the loop elsewhere before. The limit counts from the
            # moment when it saw this place.
            seen_at: float | None = None
            while seen_at is None or perf_counter() - seen_at < STALL_SECONDS:
                if seen_at is None and "hold_the_loop" in (watch._place or ""):
                    seen_at = perf_counter()

        loop = asyncio.get_running_loop()
        with watch.watching(loop):
            loop.call_soon(hold_the_loop)
            while not watch.stalls:
                await asyncio.sleep(0.01)
        return watch

    with caplog.at_level(logging.WARNING):
        watch = asyncio.run(main())
    assert loop_watch.UNKNOWN in watch.stalls
    assert any("hold_the_loop" in vars(record).get("at", "") for record in caplog.records)


def test_a_request_that_blocks_the_loop_is_reported_by_its_api_and_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is one step from its frame to the end of its first slice."""

    async def scenario(client: Client) -> None:
        seconds = Seconds()
        client.node.watch._seconds = seconds
        by_name = client.node.topics.all

        def slow() -> object:
            seconds.now += 0.5
            return by_name()

        client.node.topics.all = slow  # type: ignore[method-assign,assignment]
        await client.ask(MetadataRequest(topics=None), 9, "impatient")
        # Housekeeping and compaction look at the topics as well, if their time has come.
        assert client.node.watch.stalls["Metadata"] == 1
        told = [vars(record) for record in caplog.records if "serving" in vars(record)]
        clients = [one["client"] for one in told if one["serving"] == "Metadata"]
        assert clients == ["impatient/10.0.0.1"]

    with caplog.at_level(logging.WARNING):
        run_scenario(scenario)


def test_a_process_that_did_not_run_says_so() -> None:
    """Its clients saw a server that does not answer. Nothing else would tell why."""
    with run() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        sleep(STOPPED_SECONDS + 1)
        os.kill(broker.pid, signal.SIGCONT)
        deadline = perf_counter() + 10
        while "the process did not run" not in broker.log_path.read_text() and perf_counter() < deadline:
            sleep(0.05)
        lines = [each for each in broker.log_path.read_text().splitlines() if "did not run" in each]
    assert lines
    assert "it was stopped, or the machine had no time for it" in lines[0]


def test_a_process_that_works_hard_was_not_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """A step that keeps the interpreter for itself delays the watching thread, too."""

    async def main() -> None:
        watch = LoopWatch()
        with watch.watching(asyncio.get_running_loop()):
            await asyncio.sleep(2 * SAMPLE_SECONDS)
            interval = sys.getswitchinterval()
            sys.setswitchinterval(10)
            end = perf_counter() + STOPPED_SECONDS + 0.5
            while perf_counter() < end:
                pass
            sys.setswitchinterval(interval)
            await asyncio.sleep(2 * SAMPLE_SECONDS)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert not [record for record in caplog.records if "did not run" in record.getMessage()]
