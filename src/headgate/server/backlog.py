"""Work that may wait for its turn, of all connections: a little of it in each turn of the loop.

One read of a socket can bring thousands of requests, and one append can wake thousands of long polls. Done
at once they would hold the loop for seconds. Here they wait in line, and in each turn of the loop as many
are done as fit into `TURN_SECONDS`. Clients that ask one thing at a time are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from headgate.runtime.failures import Where, unexpected

TURN_SECONDS: Final = 0.004
"""So long work from here may hold the loop in one turn; the piece that passes this is the last one."""


class Backlog:
    """Pieces of work in the order they came."""

    seconds: Callable[[], float] = staticmethod(perf_counter)
    """For how long something takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._actions: deque[Callable[[], None]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether there is work that waits."""
        return bool(self._actions)

    def add(self, action: Callable[[], None]) -> None:
        """Have `action` called in one of the next turns of the loop."""
        if not self._actions:
            self._loop.call_soon(self._take_turn)
        self._actions.append(action)

    def _take_turn(self) -> None:
        actions, end = self._actions, self.seconds() + TURN_SECONDS
        for _ in range(len(actions)):  # what is added meanwhile waits for the next turn
            try:
                actions[0]()
            except Exception as failure:
                unexpected(Where.CONNECTION, "work that waited for its turn failed", failure)
            actions.popleft()
            if self.seconds() > end:
                break
        if actions:
            self._loop.call_soon(self._take_turn)
