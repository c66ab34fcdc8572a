"""The two times of a shard.

* Deadlines are in steady time: the `now` of every command.
* Records have the system time, and age by it. People and daemons set the system clock, in both directions and
  by any amount, so it is compared with recorded times only, and no deadline depends on it.

The runtime sets the distance between the two by a command; until then they are equal.
"""

from __future__ import annotations

from headgate.domain.ids import Millis


class SystemTime:
    """The system time, from the distance last set; volatile."""

    __slots__ = ("ahead_ms",)

    def __init__(self) -> None:
        self.ahead_ms = 0
        """How far the system time is ahead of steady time, in ms."""

    def at(self, now: Millis) -> Millis:
        """Return the system time, in ms since the epoch, at this steady time."""
        return Millis(now + self.ahead_ms)
