"""The simulated disk, which records its faults, and syncs that take time."""

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
    """The faulty disk in memory. It records power failures, and the time of its last error."""

    def __init__(self, time: SimulatedTime, counts: Counter[str]) -> None:
        super().__init__()
        self._time = time
        self.now_ms = time.system_time
        self._counts = counts
        self.is_off = False
        self.refused_at = NEVER
        self.on_power_cut: Callable[[], None] = lambda: None

    def pass_change(self, kind: str, path: Path) -> Fault | None:
        """Count faults."""
        try:
            fault = super().pass_change(kind, path)
        except PowerCut:
            self._switch_off()
            raise
        if fault is not None and kind == "pwrite" and fault.written:
            self._counts["torn writes"] += 1
        return fault

    def failure(self, fault: Fault, path: Path) -> Exception:
        """Record an error."""
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
        """End the process; the disk returns no more errors."""
        super().kill()
        self.is_off = False


class SimulatedSyncer:
    """Replaces kernel and thread by timers: each sync takes a while, and so does its completion."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, slowest_sync_seconds: float) -> None:
        self._loop = loop
        self._random = random
        self._slowest = slowest_sync_seconds
        self._left: list[SyncRequest] = []
        self._is_closed = False

    def run(self, request: SyncRequest, on_run: Callable[[], None]) -> None:
        """Run the request after a delay, and report it after another delay."""
        self._left.append(request)
        delay = self._random.random() ** 3 * self._slowest
        self._loop.call_later(delay, lambda: self._run(request, delay / 2, on_run))

    def _run(self, request: SyncRequest, delay: float, on_run: Callable[[], None]) -> None:
        if not self._is_closed:
            self._left.remove(request)
            _run(request)
            self._loop.call_later(delay, lambda: None if self._is_closed else on_run())

    def close(self) -> None:
        """Run all requests."""
        self._is_closed = True
        for request in self._left:
            _run(request)


def _run(request: SyncRequest) -> None:
    with suppress(OSError):
        request.run()
