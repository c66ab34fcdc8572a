"""The two times of a shard.

* Deadlines are of steady time, which only ever passes: the `now` of every command.
* What is recorded bears the system's time, and ages by it. People and daemons set the system's clock, in both
  directions and by any amount, so it is compared with recorded times only, and no deadline depends on it.

The runtime tells how far apart the two are, by a command; until it has, they are the same.
"""

from __future__ import annotations

from headgate.domain.ids import Millis


class SystemTime:
    """The system's time as of a shard's last word of it; volatile."""

    __slots__ = ("ahead_ms",)

    def __init__(self) -> None:
        self.ahead_ms = 0
        """How far the system's time is ahead of steady time."""

    def at(self, now: Millis) -> Millis:
        """The system's time, in milliseconds since the epoch, at this steady time."""
        return Millis(now + self.ahead_ms)
