"""The two clocks of the machine and their uses, as in Kafka.

* Steady time only advances, at one rate. It is used for deadlines: sessions, joins, locks, retries, long
  polls. It stops while the machine is suspended, so that sessions resume afterwards (CLOCK_MONOTONIC, as in
  the JVM).
* System time is set by people and daemons, and may jump in both directions. It is used for timestamps and for
  all comparisons with timestamps: admission, retention, expiry. It is read when it is used.
"""

from __future__ import annotations

import time

from headgate.domain.ids import Millis


class Clock:
    """Both clocks, in milliseconds."""

    def steady_time(self) -> Millis:
        """Return the monotonic time since an arbitrary moment."""
        return Millis(time.monotonic_ns() // 1_000_000)

    def system_time(self) -> Millis:
        """Return the system clock's time since the epoch."""
        return Millis(time.time_ns() // 1_000_000)
