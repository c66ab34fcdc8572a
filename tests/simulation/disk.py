"""The disk of the simulation, which knows what it did wrong, and syncs that take their time on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.simulation.loop import SimulatedTime

from headgate.log.log import Log
from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.log.sync import SyncRequest
from headgate.server.group_commit import GroupCommit

NEVER = float("-inf")


class SimulatedDisk(MemoryFileSystem):
    """The faulty disk in memory. It tells when the power went, and when it last refused something."""

    def __init__(self, time: SimulatedTime, counts: Counter[str]) -> None:
        super().__init__()
        self._time = time
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


class SimulatedGroupCommit(GroupCommit):
    """The real group commit, with a thread that is a chain of timers: log by log, each sync takes a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, slowest_sync_seconds: float) -> None:
        self._loop = loop
        self._observe_sync = lambda seconds: None
        self._waiting = {}
        self._served = {}
        self._is_busy = False
        thread = _SyncTimers(self, random, slowest_sync_seconds)
        self._requests = cast(Any, thread)
        self._thread = cast(Any, thread)

    def schedule(self, delay: float, action: Callable[[], None]) -> None:
        """Run `action` a while later."""
        self._loop.call_later(delay, action)

    def end(self, requests: list[tuple[Log, SyncRequest]]) -> None:
        """The syncs of one round have run."""
        self._end(requests, 0.0)


class _SyncTimers:
    """In the place of the queue and of the thread that reads it."""

    def __init__(self, commit: SimulatedGroupCommit, random: Random, slowest_sync_seconds: float) -> None:
        self._commit = commit
        self._random = random
        self._slowest = slowest_sync_seconds
        self._left: list[SyncRequest] = []
        self._is_closed = False

    def put(self, requests: list[tuple[Log, SyncRequest]] | None) -> None:
        if requests is not None:
            self._left = [request for _, request in requests]
            self._run_next(requests)

    def _run_next(self, requests: list[tuple[Log, SyncRequest]]) -> None:
        delay = self._random.random() ** 3 * self._slowest
        if self._left:
            self._commit.schedule(delay, lambda: self._run(requests))
        else:
            self._commit.schedule(delay / 2, lambda: self._tell(requests))

    def _tell(self, requests: list[tuple[Log, SyncRequest]]) -> None:
        if not self._is_closed:
            self._commit.end(requests)

    def _run(self, requests: list[tuple[Log, SyncRequest]]) -> None:
        if self._is_closed:
            return
        request = self._left.pop(0)
        with suppress(OSError):
            request.run()
        self._run_next(requests)

    def join(self) -> None:
        """The thread ends when it has run what it was given."""
        self._is_closed = True
        for request in self._left:
            with suppress(OSError):
                request.run()
        self._left = []
