"""The two times of this machine, each for what it is good for, as in Kafka.

* Steady time only ever passes, at one pace. Deadlines are of it: sessions, joins, locks, retries, long polls.
  It stands still while the machine is suspended, so that sessions go on afterwards where they were
  (CLOCK_MONOTONIC, as in the JVM).
* The system's time is what people and daemons set the clock to, and may jump in both directions. Timestamps
  are of it, and whatever is compared with timestamps: admission, retention, expiry. It is read when used.
"""

from __future__ import annotations

import time

from headgate.domain.ids import Millis


class Clock:
    """Both times, in milliseconds."""

    def steady_time(self) -> Millis:
        """The time since some moment in the past; it never goes back and never leaps."""
        return Millis(time.monotonic_ns() // 1_000_000)

    def system_time(self) -> Millis:
        """The time since the epoch, as the system's clock has it now."""
        return Millis(time.time_ns() // 1_000_000)
