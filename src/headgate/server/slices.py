"""Drives work that is cut into slices: a slice on the loop, a pause, whatever blocks in a thread.

It takes the loop for a few milliseconds and leaves it for as long. The work is a generator (`Steps`): it asks
`is_slice_over` as it goes, yields None to let others have their turn, and yields a function to have it run in
the thread.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headgate.log.compaction import Steps

ResultT = TypeVar("ResultT")

SLICE_SECONDS = 0.002
PAUSE_SECONDS = 0.002


class SliceRunner:
    """Runs one piece of work after the other, with a thread of its own for what blocks."""

    def __init__(self, thread_name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name)
        self._steps: Steps[Any] | None = None
        self._slice_end = 0.0

    def is_slice_over(self) -> bool:
        """Whether others must have their turn."""
        return time.perf_counter() > self._slice_end

    async def run(self, steps: Steps[ResultT]) -> ResultT:
        """Drive the work to its end; what it returns, or raises. One at a time."""
        assert self._steps is None, "something is being run already"
        loop = asyncio.get_running_loop()
        self._steps = steps
        try:
            while True:
                self._slice_end = time.perf_counter() + SLICE_SECONDS
                work = next(steps)
                if work is None:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                try:
                    await loop.run_in_executor(self._executor, work)
                except Exception as problem:
                    steps.throw(problem)
        except StopIteration as stop:
            result: ResultT = stop.value
            return result
        finally:
            self._steps = None
            steps.close()

    def close(self) -> None:
        """Stop, in the midst of the work if there is some: it is closed where it stands."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._steps is not None:
            self._steps.close()
