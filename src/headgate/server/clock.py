"""The time for timers that must not jump: the wall clock at start, carried on by the monotonic one.

A step of the system's clock (NTP, a suspended machine) would otherwise expire every session at once.
"""

from __future__ import annotations

import time

from headgate.domain.ids import Millis


class Clock:
    """Milliseconds since the epoch that never go back and never leap."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> Millis:
        """The time in milliseconds since the epoch."""
        return Millis((time.monotonic_ns() + self._offset_ns) // 1_000_000)
