"""The faults of a simulation with transactions, one after another."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.requests import Violation

from headgate.log.memory_filesystem import Fault

if TYPE_CHECKING:
    from tests.simulation.transactions.life import TransactionLife
    from tests.simulation.transactions.world import TransactionWorld

MOST_FAILED_STARTS = 5
LOOK_EVERY_SECONDS = 0.2
JUMPS_MS = (0, 1, 40, 900, 5_000, 30_000, 2 * 3_600_000)
"""How far the clock is set from the true time, forward or back; shorter than any retention."""


class Nemesis:
    """Causes faults in the server and on its connections."""

    def __init__(self, world: TransactionWorld) -> None:
        self._world = world
        self._failed_starts = 0
        self._clock_random = Random(f"clock of {world.seed}")
        self._life: TransactionLife

    def begin(self, life: TransactionLife) -> None:
        """Begin to make trouble in a life of the server."""
        self._life = life
        self._failed_starts = 0
        self._rest()
        self._look()
        self._rest_of_clock()

    def ended(self, kind: str) -> None:
        """Note how a life ended. Raises Violation if the server does not start any more."""
        self._failed_starts = self._failed_starts + 1 if kind == "failed starts" else 0
        if self._failed_starts > 1:
            self._world.disk.heal()
        if self._failed_starts > MOST_FAILED_STARTS:
            raise Violation("the server does not start any more on a disk that works")

    # --- the clock ---

    def between_lives(self) -> None:
        """Perhaps set the clock while the server is down."""
        if self._world.plan.clock_seconds and self._clock_random.random() < 0.5:
            self._set_clock()

    def _rest_of_clock(self) -> None:
        seconds = self._world.plan.clock_seconds
        if seconds:
            self._life.later(self._clock_random.expovariate(1 / seconds), self._set_clock_and_rest)

    def _set_clock_and_rest(self) -> None:
        self._set_clock()
        self._rest_of_clock()

    def _set_clock(self) -> None:
        random, time, journal = self._clock_random, self._world.time, self._world.journal
        time.set(time.true_ms + random.choice(JUMPS_MS) * random.choice((-1, 1)))
        journal.trace(f"the clock is {time.system_time() - time.true_ms} ms ahead")
        journal.counts["settings of the clock"] += 1

    # --- faults ---

    def _look(self) -> None:
        """End the life when there were enough transactions."""
        if self._world.is_enough:
            self._life.end("kills")
        self._life.later(LOOK_EVERY_SECONDS, self._look)

    def _rest(self) -> None:
        delay = self._world.random.expovariate(1 / self._world.plan.trouble_seconds)
        self._life.later(delay, self._make_trouble)

    def _make_trouble(self) -> None:
        random, disk = self._world.random, self._world.disk
        kind = random.choice(self._world.plan.troubles)
        self._world.journal.trace(f"trouble {kind}")
        match kind:
            case "power":
                disk.cut_power_after(random.choice((0, 1, 2, 5, 20)), random.choice((0, 1, 61, 500)))
            case "kill" | "stop":
                self._life.end({"kill": "kills", "stop": "clean stops"}[kind])
                return
            case "write":
                self._inject("pwrite", random.choice((0, 1, 70, 900)))
            case "sync":
                self._inject("datasync", 0)
            case _:
                self._world.journal.counts["lost connections"] += 1
                for link in list(self._life.links):
                    if random.random() < 0.5:
                        link.lose()
        self._rest()

    def _inject(self, kind: str, written: int) -> None:
        random, disk = self._world.random, self._world.disk
        code = random.choice((errno.EIO, errno.ENOSPC))
        disk.inject(Fault(code, kind, random.randrange(3), random.choice((1, 1, 3, None)), written))
        self._life.later(random.random() * 3, disk.heal)
