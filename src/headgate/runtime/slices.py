"""Drives work that is cut into slices: a slice on the loop, a pause, whatever blocks in a thread.

It takes the loop for a millisecond and leaves it for as long, or for longer while others have need of it
(`busy_share`). Where the turns of others are so long that a millisecond after each were less than its share,
it takes the loop for longer, but for no more than that share of eight milliseconds.

The work is a generator (`Steps`): it asks `is_slice_over` as it goes, yields None to let others have their
turn, and yields a function to have it run in the thread.
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
"""A slice is no longer than its share of so long; what begins just before its end may take as much again."""


def slice_seconds(share: float, left_alone_seconds: float) -> float:
    """How long a slice may be after others had a busy loop for so long."""
    fair = left_alone_seconds * share / (1 - share)
    return max(SLICE_SECONDS, min(fair, share * _ROUND_SECONDS))


class SliceRunner:
    """Runs one piece of work after the other, with a thread of its own for what blocks."""

    processor_seconds: Callable[[], float] = staticmethod(time.thread_time)
    """What the loop's thread has worked so far: how busy it was in a pause shows in it."""
    seconds: Callable[[], float] = staticmethod(time.perf_counter)
    """For how long something takes."""

    def __init__(
        self,
        name: str,
        busy_share: Callable[[], float] = lambda: EVEN_SHARE,
        watch: LoopWatch | None = None,
    ) -> None:
        """`busy_share`: how much of its time the loop gives to this work while it has other work to do; it is
        asked anew before every slice. `name` is that of the work, for the thread's name and the watch.
        """
        self._job = Job(name)
        self._watch = watch or LoopWatch()
        self._executor = ThreadPoolExecutor(1, f"headgate-{name}")
        self._busy_share = busy_share
        self._steps: Steps[Any] | None = None
        self._slice_end = 0.0
        self._owed_seconds = 0.0
        """How long others have to be left alone for what was taken from them."""
        self._left_alone_seconds = 0.0
        """How long they were, since the last slice."""
        self._is_loop_busy = False

    def is_slice_over(self) -> bool:
        """Whether others must have their turn."""
        return self.seconds() > self._slice_end

    async def run(self, steps: Steps[ResultT]) -> ResultT:
        """Drive the work to its end; what it returns, or raises. One at a time."""
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
        """Run it in the thread; what it raised."""
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
        """Leave the loop to others, and see whether they use it."""
        seconds, self._owed_seconds = max(PAUSE_SECONDS, self._owed_seconds), 0.0
        began, before = self.seconds(), self.processor_seconds()
        await asyncio.sleep(seconds)
        self._is_loop_busy = self.processor_seconds() - before > seconds / 2
        self._left_alone_seconds += self.seconds() - began

    def close(self) -> None:
        """Stop, in the midst of the work if there is some: it is closed where it stands."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._steps is not None:
            self._steps.close()
