"""The simulation's clock: steady time, and a system time that may stand still and jump.

The system time is a sequence of stretches, in each of which it runs with the steady time or stands still. The
models ask for its values between two moments: when an offset may expire at the earliest, and must at the
latest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.domain.ids import Millis
from headgate.runtime.clock import Clock

START_MS = 1_700_000_000_000
_SETTING_SECONDS = 0.002
"""The time to set the clock: readings within one millisecond are equal."""


@dataclass(frozen=True)
class Stretch:
    """The time between two settings of the system clock."""

    since: float
    """In steady time, in seconds."""
    system_ms: int
    is_running: bool

    def at(self, seconds: float) -> int:
        """Return the system time at a moment of the stretch."""
        passed_ms = int(seconds * 1000) - int(self.since * 1000)
        return self.system_ms + (passed_ms if self.is_running else 0)


class SimulatedTime(Clock):
    """The times of a simulation; steady time continues from one life of the server to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._stalls: list[tuple[float, float]] = [(0.0, 0.0)]
        """The end of each stall in steady time, and the total duration of stalls until then."""
        self._stretches = [Stretch(0.0, START_MS, is_running=True)]

    # --- for the server ---

    def steady_time(self) -> Millis:
        """Return the loop's time, at most a millisecond behind it."""
        return Millis(int(self.seconds * 1000))

    def system_time(self) -> Millis:
        """Return the milliseconds since the epoch."""
        return Millis(self._stretches[-1].at(self.seconds))

    def stall(self, seconds: float) -> None:
        """Advance the time while the process stands still."""
        before = self._stalls[-1][1]
        self.seconds += seconds
        self._stalls.append((self.seconds, before + seconds))

    # --- for the clock setter ---

    def set(self, system_ms: int, *, is_running: bool = True) -> None:
        """Set the system clock, and let it run or stand still from there."""
        self.seconds += _SETTING_SECONDS
        self._stretches.append(Stretch(self.seconds, system_ms, is_running))
        self.seconds += _SETTING_SECONDS

    @property
    def true_ms(self) -> int:
        """Return the system time without any setting."""
        return self._stretches[0].at(self.seconds)

    # --- for the models ---

    @property
    def was_set(self) -> bool:
        """Return whether the system time was set."""
        return len(self._stretches) > 1

    def _awake_at(self, at: float) -> float:
        """Return how long the process had not stood still by then."""
        index = max(0, bisect_right(self._stalls, at, key=lambda one: one[0]) - 1)
        awake = at - self._stalls[index][1]
        if index + 1 < len(self._stalls):  # the next stall may have begun
            ended, stalled = self._stalls[index + 1]
            awake = min(awake, ended - stalled)
        return awake

    def awake_seconds(self, start: float, end: float) -> float:
        """Return how long the process did not stand still between two moments: only then can anything happen.

        Actions due at `start` are done by `end` if this exceeds their duration: after a stall all late timers
        run first.
        """
        return (
            max(end, start) - start if len(self._stalls) == 1 else self._awake_at(end) - self._awake_at(start)
        )

    def _between(self, start: float, end: float) -> Iterator[tuple[float, float, Stretch]]:
        """Yield the stretches between two moments, cut to them."""
        first = max(0, bisect_right(self._stretches, start, key=lambda one: one.since) - 1)
        following = [*self._stretches[first + 1 :], Stretch(float("inf"), 0, is_running=True)]
        for stretch, after in zip(self._stretches[first:], following, strict=True):
            if stretch.since > end:
                return
            yield max(stretch.since, start), min(after.since, end), stretch

    def highest(self, start: float, end: float) -> int:
        """Return the maximum of the system time between two moments."""
        return max((stretch.at(last) for _, last, stretch in self._between(start, end)), default=-1)

    def lowest(self, start: float, end: float) -> int:
        """Return the minimum of the system time between two moments."""
        return min((stretch.at(first) for first, _, stretch in self._between(start, end)), default=-1)

    def largest_rise(self, start: float, end: float) -> int:
        """Return the maximum rise of the system time over an earlier value, between two moments."""
        lowest, rise = 1 << 62, 0
        for first, last, stretch in self._between(start, end):
            lowest = min(lowest, stretch.at(first))
            rise = max(rise, stretch.at(last) - lowest)
        return rise

    def longest_past(self, due_ms: int, start: float, end: float) -> float:
        """Return the longest time in seconds during which the system time was at or past `due_ms`.

        Stalls of the process do not count: it cannot notice anything then.
        """
        longest, since = 0.0, end
        is_past = False
        for first, last, stretch in self._between(start, end):
            begins = first
            if stretch.at(first) < due_ms:
                is_past = False
                if stretch.at(last) < due_ms:
                    continue
                begins = last - (stretch.at(last) - due_ms) / 1000
            since = since if is_past else begins
            is_past = True
            longest = max(longest, self.awake_seconds(since, last))
        return longest
