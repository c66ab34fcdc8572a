"""An event loop without a selector, and its clock: time passes only when nothing is ready.

The loop is asyncio's own, so that the code runs as in the server; instead of waiting for sockets, it advances
the time to the next timer. Each turn of the loop also takes a little time, because work takes time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from tests.simulation.clock import SimulatedTime

from headgate.log.memory_filesystem import PowerCut


class NothingLeft(Exception):
    """No timer is set and nothing is ready: a deadlock."""


class NoEnd(Exception):
    """The life does not end within the maximum number of turns."""


MOST_TURNS = 500_000
"""Maximum number of turns in one life: many times the longest one."""


class _Waiting:
    """Replaces a selector: there are no external events, so waiting advances the time."""

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
    """asyncio's loop on simulated time. Work for a thread runs in the loop, at once, after a delay."""

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
        """Run the work when its thread would have finished it."""
        future: asyncio.Future[Any] = self.create_future()
        self._works[future] = lambda: func(*args)
        self.call_later(self.work_seconds(), self._run_work, future)
        return future

    def work_seconds(self) -> float:
        """Return how long a thread takes for some work."""
        return self._random.random() ** 3 * self._slowest_work_seconds

    def finish_works(self) -> None:
        """End the threads: their work is done, or not begun any more."""
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
        """Return the seconds since the simulation began."""
        return self._time.seconds

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Do nothing: no thread wakes this loop."""

    def forget_tasks(self) -> None:
        """Cancel pending tasks now, not at garbage collection: they must not run in the next life."""
        asyncio._set_running_loop(self)
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert isinstance(coroutine, Coroutine)
            with suppress(asyncio.CancelledError, StopIteration, PowerCut, OSError):
                coroutine.throw(asyncio.CancelledError())
            coroutine.close()
        asyncio._set_running_loop(None)
