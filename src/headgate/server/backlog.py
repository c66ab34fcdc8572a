"""A queue of deferred work of all connections, run in short slices on the event loop.

One read of a socket can bring thousands of requests, and one append can complete thousands of long polls. All
of them at once would block the loop for seconds. Each iteration of the loop runs work from this queue for
`TURN_SECONDS`. Clients with one request at a time are served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from headgate.runtime.failures import Where, unexpected

TURN_SECONDS: Final = 0.004
"""Length of a slice. The piece of work that exceeds it is the last one of the slice."""


class Backlog:
    """A first-in, first-out queue of work."""

    seconds: Callable[[], float] = staticmethod(perf_counter)
    """Monotonic clock, in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._actions: deque[Callable[[], None]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether the queue holds work."""
        return bool(self._actions)

    def add(self, action: Callable[[], None]) -> None:
        """Call `action` in a later iteration of the loop."""
        if not self._actions:
            self._loop.call_soon(self._take_turn)
        self._actions.append(action)

    def _take_turn(self) -> None:
        actions, end = self._actions, self.seconds() + TURN_SECONDS
        for _ in range(len(actions)):  # work added meanwhile runs in the next slice
            try:
                actions[0]()
            except Exception as failure:
                unexpected(Where.CONNECTION, "work that waited for its turn failed", failure)
            actions.popleft()
            if self.seconds() > end:
                break
        if actions:
            self._loop.call_soon(self._take_turn)
