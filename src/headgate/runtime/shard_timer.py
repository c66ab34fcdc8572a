"""The timer of a shard's deadlines.

If the loop was blocked, sockets are read before late timers run. So members that sent a heartbeat in time are
kept. Timers wait only once for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headgate.domain.ids import Millis
from headgate.runtime.clock import Clock

LATE_MS: Final = 100
"""Delay of a timer that shows that the loop was blocked: requests may wait unread in the sockets."""
LATE_PAUSE_SECONDS: Final = 0.05
"""Pause of late timers, in which sockets are read."""


class ShardTimer:
    """Calls back at the next deadline of a shard."""

    __slots__ = ("_clock", "_deadline", "_due", "_handle", "_has_waited", "_loop", "_not_before", "_on_due")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, on_due: Callable[[Millis], None]
    ) -> None:
        """`on_due` gets the deadline, and then arms the timer again."""
        self._loop = loop
        self._clock = clock
        self._on_due = on_due
        self._handle: asyncio.TimerHandle | None = None
        self._deadline: Millis | None = None
        self._due = Millis(0)
        """Time of the armed timer, by steady time."""
        self._has_waited = False
        """Whether late timers have waited for unread requests."""
        self._not_before = 0.0
        """Loop time before which timers wait, because of a failed timer or of unread requests."""

    def arm(self, deadline: Millis | None) -> None:
        """Set the timer to a deadline; None stops it."""
        if deadline == self._deadline:
            return
        self._stop()
        self._deadline = deadline
        if deadline is not None:
            now = self._clock.steady_time()
            delay_seconds = max(0, deadline - now) / 1000
            delay_seconds = max(delay_seconds, self._not_before - self._loop.time())
            self._due = Millis(now + int(1000 * delay_seconds))
            self._handle = self._loop.call_later(delay_seconds, self._on_time)

    def pause(self, seconds: float) -> None:
        """Set no timer for a while."""
        self._not_before = max(self._not_before, self._loop.time() + seconds)

    def reset(self) -> None:
        """Stop the timer, and forget its pauses."""
        self._stop()
        self._deadline = None
        self._not_before = 0.0

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_time(self) -> None:
        self._handle = None
        deadline, self._deadline = self._deadline, None
        if deadline is None:
            return
        if self._clock.steady_time() - self._due >= LATE_MS and not self._has_waited:
            self._has_waited = True
            self.pause(LATE_PAUSE_SECONDS)
            self.arm(deadline)
            return
        self._has_waited = False
        self._on_due(deadline)
