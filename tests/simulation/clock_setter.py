"""Sets the clock of the server's machine ahead, back and right again, or stops it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.clock import SimulatedTime
from tests.simulation.journal import Journal
from tests.simulation.plan import RETENTION_MS, Plan

if TYPE_CHECKING:
    from tests.simulation.life import Life

HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS
JUMPS_MS = (1, 40, 1500, RETENTION_MS // 2, RETENTION_MS + 1, 3 * RETENTION_MS, 2 * HOUR_MS, MONTH_MS)
LONGEST_STANDSTILL_SECONDS = 4.0


class ClockSetter:
    """Settings of the clock, with a random generator of their own: the rest of a seed is unaffected."""

    def __init__(self, plan: Plan, seed: int, time: SimulatedTime, journal: Journal) -> None:
        self._seconds = plan.clock_seconds
        self._random = Random(f"clock of {seed}")
        self._time = time
        self._journal = journal
        self._life: Life

    def begin(self, life: Life) -> None:
        """Note the start of a life of the server."""
        self._life = life
        if self._seconds:
            self._rest(self._random.expovariate(1 / self._seconds))

    def between_lives(self) -> None:
        """Perhaps set the clock while the server is down."""
        if self._seconds and self._random.random() < 0.5:
            self._set()

    def _rest(self, seconds: float) -> None:
        self._life.later(seconds, lambda: self._life.soon(self._make_trouble))

    def _make_trouble(self) -> None:
        if self._random.random() < 0.2:
            self._time.set(self._time.system_time(), is_running=False)
            self._journal.trace("the clock stands still")
            self._journal.counts["standstills of the clock"] += 1
            self._rest(self._random.random() * LONGEST_STANDSTILL_SECONDS)
        else:
            self._set()
            self._rest(self._random.expovariate(1 / self._seconds))

    def _set(self) -> None:
        random, time = self._random, self._time
        if random.random() < 0.4:
            self._time.set(time.true_ms)
        else:
            by_ms = random.choice(JUMPS_MS) * random.choice((-1, 1))
            self._time.set(time.system_time() + by_ms)
        self._journal.trace(f"the clock is {time.system_time() - time.true_ms} ms ahead")
        self._journal.counts["settings of the clock"] += 1
