"""Time that passes only when nothing else is left to do: an event loop without a selector, and its clock.

The loop is asyncio's own, so that the code above it runs as it does in the server; what waits for sockets is
replaced by a jump to the next timer. A turn of the loop costs a little time all the same: work takes time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.clock import SimulatedTime


class NothingLeft(Exception):
    """No timer is set and nothing is ready: everybody waits for somebody else."""


class NoEnd(Exception):
    """So many turns of the loop that whoever is at work here never gets done."""


MOST_TURNS = 500_000
"""Of one life: many times what the longest takes."""


class _Waiting:
    """In the place of a selector: nothing comes from outside, so waiting is time that passes."""

    def __init__(self, time: SimulatedTime, turn_seconds: float) -> None:
        self._time = time
        self._turn_seconds = turn_seconds
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise NoEnd
        self._time.seconds += max(timeout, self._turn_seconds)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """asyncio's loop on simulated time. What would run in a thread runs here, all at once, a while later."""

    def __init__(self, time: SimulatedTime, turn_seconds: float, random: Random, slowest_work: float) -> None:
        super().__init__()
        self._time = time
        self._selector = _Waiting(time, turn_seconds)
        self._random = random
        self._slowest_work_seconds = slowest_work
        self._works: dict[asyncio.Future[Any], Callable[[], Any]] = {}

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it when its thread would have done it."""
        future: asyncio.Future[Any] = self.create_future()
        self._works[future] = lambda: func(*args)
        delay = self._random.random() ** 3 * self._slowest_work_seconds
        self.call_later(delay, self._run_work, future)
        return future

    def finish_works(self) -> None:
        """The threads end: what they were given is done, or not begun any more."""
        for future in list(self._works):
            if self._random.random() < 0.5:
                self._run_work(future)
        self._works.clear()

    def _run_work(self, future: asyncio.Future[Any]) -> None:
        work = self._works.pop(future, None)
        if work is None:
            return
        try:
            result = work()
        except Exception as problem:
            if not future.done():
                future.set_exception(problem)
        else:
            if not future.done():
                future.set_result(result)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._time.seconds

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list
