"""Time that passes only when nothing else is left to do: an event loop without a selector, and its clock.

The loop is asyncio's own, so that the code above it runs as it does in the server; what waits for sockets is
replaced by a jump to the next timer. A turn of the loop costs a little time all the same: work takes time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from headgate.domain.ids import Millis
from headgate.server.clock import Clock

START_MS = 1_700_000_000_000


class SimulatedTime(Clock):
    """The one time of a simulation; it goes on from one life of the server to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Millis:
        """The time in milliseconds since the epoch, behind the loop's own by less than one."""
        return Millis(START_MS + int(self.seconds * 1000))


class NothingLeft(Exception):
    """No timer is set and nothing is ready: everybody waits for somebody else."""


class _Waiting:
    """In the place of a selector: nothing comes from outside, so waiting is time that passes."""

    def __init__(self, time: SimulatedTime, turn_seconds: float) -> None:
        self._time = time
        self._turn_seconds = turn_seconds

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft
        self._time.seconds += max(timeout, self._turn_seconds)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """asyncio's loop on simulated time."""

    def __init__(self, time: SimulatedTime, turn_seconds: float) -> None:
        super().__init__()
        self._time = time
        self._selector = _Waiting(time, turn_seconds)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._time.seconds

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list
