"""The simulation's clock: steady time, and a system's time that stands still and jumps.

The system's time is a line of stretches, in each of which it runs with steady time or stands still. The
models ask what it was between two moments: when an offset may be gone at the earliest, and must be at last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.domain.ids import Millis
from headgate.runtime.clock import Clock

START_MS = 1_700_000_000_000
_SETTING_SECONDS = 0.002
"""What it takes to set the clock: no two readings of one millisecond differ."""


@dataclass(frozen=True)
class Stretch:
    """From one setting of the system's clock to the next."""

    since: float
    """By steady time, in seconds."""
    system_ms: int
    is_running: bool

    def at(self, seconds: float) -> int:
        """The system's time at a moment of the stretch."""
        passed_ms = int(seconds * 1000) - int(self.since * 1000)
        return self.system_ms + (passed_ms if self.is_running else 0)


class SimulatedTime(Clock):
    """The times of a simulation; steady time goes on from one life of the server to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._stalls: list[tuple[float, float]] = [(0.0, 0.0)]
        """When the process went on after each stall, and for how long it had stood still until then."""
        self._stretches = [Stretch(0.0, START_MS, is_running=True)]

    # --- for the server ---

    def steady_time(self) -> Millis:
        """The loop's own time, behind it by less than a millisecond."""
        return Millis(int(self.seconds * 1000))

    def system_time(self) -> Millis:
        """The time since the epoch."""
        return Millis(self._stretches[-1].at(self.seconds))

    def stall(self, seconds: float) -> None:
        """Let time pass in which nothing happens."""
        before = self._stalls[-1][1]
        self.seconds += seconds
        self._stalls.append((self.seconds, before + seconds))

    # --- for whoever sets it ---

    def set(self, system_ms: int, *, is_running: bool = True) -> None:
        """Set the system's clock, and let it stand still from there or run."""
        self.seconds += _SETTING_SECONDS
        self._stretches.append(Stretch(self.seconds, system_ms, is_running))
        self.seconds += _SETTING_SECONDS

    @property
    def true_ms(self) -> int:
        """What the system's time would be if nobody had ever set it."""
        return self._stretches[0].at(self.seconds)

    # --- for the models ---

    @property
    def was_set(self) -> bool:
        """Whether the system's time is not what steady time makes it."""
        return len(self._stretches) > 1

    def _awake_at(self, at: float) -> float:
        """For how long the process had not stood still by then."""
        index = max(0, bisect_right(self._stalls, at, key=lambda one: one[0]) - 1)
        awake = at - self._stalls[index][1]
        if index + 1 < len(self._stalls):  # the next stall may have begun
            ended, stalled = self._stalls[index + 1]
            awake = min(awake, ended - stalled)
        return awake

    def awake_seconds(self, start: float, end: float) -> float:
        """For how long between two moments the process did not stand still: only then something can happen.

        What was due at `start` has happened by `end` if this is more than it takes: after a stall all that
        was late comes first.
        """
        return (
            max(end, start) - start if len(self._stalls) == 1 else self._awake_at(end) - self._awake_at(start)
        )

    def _between(self, start: float, end: float) -> Iterator[tuple[float, float, Stretch]]:
        """The stretches between two moments, cut to them."""
        first = max(0, bisect_right(self._stretches, start, key=lambda one: one.since) - 1)
        following = [*self._stretches[first + 1 :], Stretch(float("inf"), 0, is_running=True)]
        for stretch, after in zip(self._stretches[first:], following, strict=True):
            if stretch.since > end:
                return
            yield max(stretch.since, start), min(after.since, end), stretch

    def highest(self, start: float, end: float) -> int:
        """The latest that the system's time was between two moments."""
        return max((stretch.at(last) for _, last, stretch in self._between(start, end)), default=-1)

    def lowest(self, start: float, end: float) -> int:
        """The earliest that the system's time was between two moments."""
        return min((stretch.at(first) for first, _, stretch in self._between(start, end)), default=-1)

    def largest_rise(self, start: float, end: float) -> int:
        """The most by which the system's time ever was ahead of what it was before, between two moments."""
        lowest, rise = 1 << 62, 0
        for first, last, stretch in self._between(start, end):
            lowest = min(lowest, stretch.at(first))
            rise = max(rise, stretch.at(last) - lowest)
        return rise

    def longest_past(self, due_ms: int, start: float, end: float) -> float:
        """For how many seconds on end the system's time was at or past `due_ms`, between two moments.

        Those in which the process stood still do not count: it cannot have noticed.
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
