"""The disk of the simulation, which knows what it did wrong, and syncs that take their time on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.simulation.clock import SimulatedTime

from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.log.sync import SyncRequest

NEVER = float("-inf")


class SimulatedDisk(MemoryFileSystem):
    """The faulty disk in memory. It tells when the power went, and when it last refused something."""

    def __init__(self, time: SimulatedTime, counts: Counter[str]) -> None:
        super().__init__()
        self._time = time
        self.now_ms = time.system_time
        self._counts = counts
        self.is_off = False
        self.refused_at = NEVER
        self.on_power_cut: Callable[[], None] = lambda: None

    def pass_change(self, kind: str, path: Path) -> Fault | None:
        """Count what goes wrong on the way."""
        try:
            fault = super().pass_change(kind, path)
        except PowerCut:
            self._switch_off()
            raise
        if fault is not None and kind == "pwrite" and fault.written:
            self._counts["torn writes"] += 1
        return fault

    def failure(self, fault: Fault, path: Path) -> Exception:
        """Remember it."""
        failure = super().failure(fault, path)
        if isinstance(failure, PowerCut):
            self._switch_off()
        else:
            self.refused_at = self._time.seconds
            self._counts[f"failed {fault.kind or 'changes'}"] += 1
        return failure

    def _switch_off(self) -> None:
        if not self.is_off:
            self.is_off = True
            self.on_power_cut()

    def kill(self) -> None:
        """The process is gone, and the disk refuses nothing any more."""
        super().kill()
        self.is_off = False


class SimulatedSyncer:
    """In the place of kernel and thread: a chain of timers; each sync takes a while, and so does the news."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, slowest_sync_seconds: float) -> None:
        self._loop = loop
        self._random = random
        self._slowest = slowest_sync_seconds
        self._left: list[SyncRequest] = []
        self._is_closed = False

    def run(self, request: SyncRequest, on_run: Callable[[], None]) -> None:
        """Run the request a while later, and tell of it another while later."""
        self._left.append(request)
        delay = self._random.random() ** 3 * self._slowest
        self._loop.call_later(delay, lambda: self._run(request, delay / 2, on_run))

    def _run(self, request: SyncRequest, delay: float, on_run: Callable[[], None]) -> None:
        if not self._is_closed:
            self._left.remove(request)
            _run(request)
            self._loop.call_later(delay, lambda: None if self._is_closed else on_run())

    def close(self) -> None:
        """Run what was given."""
        self._is_closed = True
        for request in self._left:
            _run(request)


def _run(request: SyncRequest) -> None:
    with suppress(OSError):
        request.run()
