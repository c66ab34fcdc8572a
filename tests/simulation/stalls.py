"""The process stands still for a while, like one that is suspended or gets no processor time.

Timers that were due meanwhile run late, in the order in which they were due. Nothing else happens.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.calm import Calm
from tests.simulation.clock import SimulatedTime
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan

if TYPE_CHECKING:
    from tests.simulation.life import Life

# From a fraction of the shortest session to several of the longest, and past the retention of offsets.
LENGTHS_SECONDS = (0.2, 0.9, 3.0, 15.0, 90.0)


class Stalls:
    """Stalls of the process, with a random generator of their own: the rest of a seed is unaffected."""

    def __init__(self, plan: Plan, seed: int, time: SimulatedTime, journal: Journal, calm: Calm) -> None:
        self._seconds = plan.stall_seconds
        self._random = Random(f"stalls of {seed}")
        self._time = time
        self._journal = journal
        self._calm = calm
        self._life: Life

    def begin(self, life: Life) -> None:
        """Note the start of a life of the server."""
        self._life = life
        if self._seconds:
            self._rest()

    def _rest(self) -> None:
        self._life.later(self._random.expovariate(1 / self._seconds), self._stall)

    def _stall(self) -> None:
        if not self._calm.is_under_way:
            seconds = self._random.choice(LENGTHS_SECONDS)
            self._time.stall(seconds)
            self._journal.trace(f"nothing happened for {seconds} s")
            self._journal.counts["stalls"] += 1
        self._rest()
