"""Runs long work in slices: a slice on the loop, a pause, and blocking functions in a thread.

A slice takes a millisecond, and the pause after it as long, or longer while the loop is busy (`busy_share`).
If other work takes the loop for so long that a millisecond would be less than the share, the slice is longer,
but at most this share of eight milliseconds.

The work is a generator (`Steps`). It calls `is_slice_over` regularly, yields None to end a slice, and yields
a function to run it in the thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headgate.log.compaction import Steps
from headgate.runtime.loop_watch import Job, LoopWatch

ResultT = TypeVar("ResultT")

SLICE_SECONDS = 0.001
PAUSE_SECONDS = 0.001
EVEN_SHARE = 0.5
_ROUND_SECONDS = 0.008
"""Upper bound of a slice divided by its share. A step that begins just before the end may double it."""


def slice_seconds(share: float, left_alone_seconds: float) -> float:
    """Return the length of the next slice after other work had a busy loop for `left_alone_seconds`."""
    fair = left_alone_seconds * share / (1 - share)
    return max(SLICE_SECONDS, min(fair, share * _ROUND_SECONDS))


class SliceRunner:
    """Runs one piece of work at a time, with a thread of its own for blocking functions."""

    processor_seconds: Callable[[], float] = staticmethod(time.thread_time)
    """Processor time of the loop's thread, which shows how busy it was in a pause."""
    seconds: Callable[[], float] = staticmethod(time.perf_counter)
    """Monotonic clock, in seconds."""

    def __init__(
        self,
        name: str,
        busy_share: Callable[[], float] = lambda: EVEN_SHARE,
        watch: LoopWatch | None = None,
    ) -> None:
        """`busy_share`: this work's share of a busy loop, read before every slice. `name` is the name of the
        work, for the thread and the watch.
        """
        self._job = Job(name)
        self._watch = watch or LoopWatch()
        self._executor = ThreadPoolExecutor(1, f"headgate-{name}")
        self._busy_share = busy_share
        self._steps: Steps[Any] | None = None
        self._slice_end = 0.0
        self._owed_seconds = 0.0
        """Length of the pause that other work is still due for the last slices."""
        self._left_alone_seconds = 0.0
        """Time since the last slice."""
        self._is_loop_busy = False

    def is_slice_over(self) -> bool:
        """Return whether the current slice is over."""
        return self.seconds() > self._slice_end

    async def run(self, steps: Steps[ResultT]) -> ResultT:
        """Run the work to its end. Return its result, or raise its exception. One at a time."""
        assert self._steps is None, "something is being run already"
        self._steps = steps
        try:
            while True:
                began, share = self.seconds(), self._busy_share()
                is_busy, left_alone = self._is_loop_busy, self._left_alone_seconds
                self._slice_end = began + (slice_seconds(share, left_alone) if is_busy else SLICE_SECONDS)
                self._left_alone_seconds = 0.0
                work = self._slice(steps)
                if is_busy:
                    self._owed_seconds += (self.seconds() - began) * (1 / share - 1)
                if work is not None:
                    problem = await self._run_aside(work)
                    if problem is not None:
                        steps.throw(problem)
                if work is None or self._owed_seconds > PAUSE_SECONDS:
                    await self._pause()
        except StopIteration as stop:
            result: ResultT = stop.value
            return result
        finally:
            self._steps = None
            steps.close()

    def _slice(self, steps: Steps[Any]) -> Callable[[], None] | None:
        outer = self._watch.begin(self._job)
        try:
            return next(steps)
        finally:
            self._watch.end(outer)

    async def _run_aside(self, work: Callable[[], None]) -> Exception | None:
        """Run `work` in the thread. Return its exception, if any."""
        began = self.seconds()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except Exception as problem:
            return problem
        finally:
            seconds = self.seconds() - began
            self._owed_seconds = max(self._owed_seconds - seconds, 0.0)
            self._left_alone_seconds += seconds
        return None

    async def _pause(self) -> None:
        """Leave the loop to other work, and measure whether it is busy."""
        seconds, self._owed_seconds = max(PAUSE_SECONDS, self._owed_seconds), 0.0
        began, before = self.seconds(), self.processor_seconds()
        await asyncio.sleep(seconds)
        self._is_loop_busy = self.processor_seconds() - before > seconds / 2
        self._left_alone_seconds += self.seconds() - began

    def close(self) -> None:
        """Stop, also during work, whose generator is closed."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._steps is not None:
            self._steps.close()
