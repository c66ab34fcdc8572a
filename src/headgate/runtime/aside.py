"""A thread beside the event loop, for work that does not use the loop's state.

It runs work in the order of submission and reports each end on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class AsideThread:
    """One thread, started at once: a process that has all threads that it may have could not start it later,
    when work is already queued.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, name)
        self._executor.submit(bool)  # any work starts the thread
        self._is_closed = False

    def __call__(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
        """Run `work` in the thread, then `on_done` on the loop, with the exception of `work` or None.

        Call it on the loop. After `close` neither function is called.
        """
        if not self._is_closed:
            self._executor.submit(self._run, work, on_done)

    def close(self) -> None:
        """Wait for the work that runs, and drop the rest and all reports."""
        self._is_closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as problem:
            failure = problem
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell, on_done, failure)

    def _tell(self, on_done: Callable[[BaseException | None], None], failure: BaseException | None) -> None:
        if not self._is_closed:
            on_done(failure)
