"""The faults of a simulation, one after another, drawn from the plan and the seed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.calm import Calm
from tests.simulation.clients import Client
from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Journal
from tests.simulation.plan import RETENTION_MS, Plan
from tests.simulation.remote_logs import RemoteLogs

from headgate.log.memory_filesystem import Fault

if TYPE_CHECKING:
    from tests.simulation.life import Life


class Nemesis:
    """Causes faults in the server and its clients."""

    def __init__(
        self,
        plan: Plan,
        random: Random,
        disk: SimulatedDisk,
        remote: RemoteLogs | None,
        journal: Journal,
        clients: Sequence[Client],
        calm: Calm,
    ) -> None:
        self._plan = plan
        self._random = random
        self._disk = disk
        self._remote = remote
        self._journal = journal
        self._clients = clients
        self._calm = calm
        self._life: Life

    def begin(self, life: Life) -> None:
        """Note the start of a life of the server."""
        self._life = life
        self._calm.broken()
        self._rest()

    def _rest(self) -> None:
        delay = self._random.expovariate(1 / self._plan.trouble_seconds)
        self._life.later(delay, self._make_trouble)

    def _make_trouble(self) -> None:
        random, disk = self._random, self._disk
        kind = random.choice(self._plan.all_troubles())
        self._journal.trace(f"trouble {kind}")
        match kind:
            case "power" if self._plan.is_durable:
                disk.cut_power_after(
                    random.choice((0, 1, 2, 5, 20)), random.choice((0, 1, 61, 500, 1500, 5000))
                )
            case "power" | "kill" | "stop":
                self._life.end({"power": "kills", "kill": "kills", "stop": "clean stops"}[kind])
                return
            case "write":
                self._inject("pwrite", random.choice((0, 0, 1, 70, 900, 3000)))
            case "short":
                disk.inject(Fault(None, "pwrite", random.randrange(3), 1, random.choice((1, 70, 900))))
                self._journal.counts["short writes"] += 1
            case "sync":
                self._inject("datasync", 0)
            case "any":
                self._inject(None, 0)
            case "read":
                self._inject("pread", 0)
            case "caches":
                # Data of a failed sync exists only in memory, but was acknowledged.
                if self._plan.is_durable:
                    disk.drop_caches()
            case "refuse" | "fence" | "compact" if self._remote is not None:
                self._remote.make_trouble(kind, self._life)
            case "lull":
                self._lull()
                return
            case "calm" if self._plan.consumers or self._plan.mixed:
                if self._remote is not None:
                    self._remote.heal()
                self._calm.begin(self._life, self._rest)
                return
            case _:
                self._journal.counts["lost connections"] += len(self._clients)
                for client in self._clients:
                    if random.random() < 0.5:
                        client.connect()
        self._rest()

    def _inject(self, kind: str | None, written: int) -> None:
        times = self._random.choice((1, 1, 3, None))
        code = self._random.choice((errno.EIO, errno.ENOSPC))
        self._disk.inject(Fault(code, kind, self._random.randrange(3), times, written))
        self._life.later(self._random.random() * 3, self._disk.heal)

    def _lull(self) -> None:
        """Disconnect all clients; they return shortly before or after the offsets expire."""
        self._journal.counts["lulls"] += 1
        back_seconds = RETENTION_MS / 1000 * self._random.choice((0.3, 0.99, 1.3, 5.0))
        for client in self._clients:
            client.rest(back_seconds)
        self._life.later(back_seconds * self._random.choice((0.1, 1.0)), self._rest)
