"""Drives work that is cut into slices: a slice on the loop, a pause, whatever blocks in a thread.

It takes the loop for a millisecond and leaves it for as long, or for longer while others have need of it
(`busy_share`). The work is a generator (`Steps`): it asks `is_slice_over` as it goes, yields None to let
others have their turn, and yields a function to have it run in the thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headgate.log.compaction import Steps

ResultT = TypeVar("ResultT")

SLICE_SECONDS = 0.001
PAUSE_SECONDS = 0.001
EVEN_SHARE = 0.5


class SliceRunner:
    """Runs one piece of work after the other, with a thread of its own for what blocks."""

    processor_seconds: Callable[[], float] = staticmethod(time.thread_time)
    """What the loop's thread has worked so far: how busy it was in a pause shows in it."""

    def __init__(self, thread_name: str, busy_share: float = EVEN_SHARE) -> None:
        """`busy_share`: how much of its time the loop gives to this work while it has other work to do."""
        self._executor = ThreadPoolExecutor(1, thread_name)
        self._busy_pause = 1 / busy_share - 1
        self._steps: Steps[Any] | None = None
        self._slice_end = 0.0
        self._owed_seconds = 0.0
        """How long others have to be left alone for what was taken from them."""
        self._is_loop_busy = False

    def is_slice_over(self) -> bool:
        """Whether others must have their turn."""
        return time.perf_counter() > self._slice_end

    async def run(self, steps: Steps[ResultT]) -> ResultT:
        """Drive the work to its end; what it returns, or raises. One at a time."""
        assert self._steps is None, "something is being run already"
        self._steps = steps
        try:
            while True:
                began = time.perf_counter()
                self._slice_end = began + SLICE_SECONDS
                work = next(steps)
                if self._is_loop_busy:
                    self._owed_seconds += (time.perf_counter() - began) * self._busy_pause
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

    async def _run_aside(self, work: Callable[[], None]) -> Exception | None:
        """Run it in the thread; what it raised."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except Exception as problem:
            return problem
        return None

    async def _pause(self) -> None:
        """Leave the loop to others, and see whether they use it."""
        seconds, self._owed_seconds = max(PAUSE_SECONDS, self._owed_seconds), 0.0
        before = self.processor_seconds()
        await asyncio.sleep(seconds)
        self._is_loop_busy = self.processor_seconds() - before > seconds / 2

    def close(self) -> None:
        """Stop, in the midst of the work if there is some: it is closed where it stands."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._steps is not None:
            self._steps.close()
