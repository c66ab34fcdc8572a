"""Group commit: one sync of a log serves every request that was written before it began.

A sync runs in a thread beside the event loop. While it runs, the next turns append to the same logs; what
they wait for is served by the next sync, which starts as soon as this one ends. No timer lingers: an idle
server syncs at once, a busy one syncs as often as the disk can.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from headgate.log.log import Log
from headgate.log.sync import SyncRequest

logger = logging.getLogger(__name__)

OnDone = Callable[[bool], None]

GIL_SWITCH_SECONDS = 0.0005
"""How long a sync that has ended may wait for the loop to let its thread run; Python's default is 5 ms."""


class GroupCommit:
    """Calls back when what a log held at the time of asking is on disk."""

    def __init__(self, loop: asyncio.AbstractEventLoop, observe_sync: Callable[[float], None]) -> None:
        """`observe_sync` is told the seconds each round of syncs took."""
        self._loop = loop
        self._observe_sync = observe_sync
        self._waiting: dict[Log, list[OnDone]] = {}
        self._served: dict[Log, list[OnDone]] = {}
        self._is_busy = False
        self._requests: queue.SimpleQueue[list[tuple[Log, SyncRequest]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headgate-sync", daemon=True)
        sys.setswitchinterval(GIL_SWITCH_SECONDS)
        self._thread.start()

    def when_durable(self, log: Log, on_done: OnDone) -> None:
        """Call `on_done(True)` when all that `log` holds now is durable, `on_done(False)` if it cannot be."""
        self._waiting.setdefault(log, []).append(on_done)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._begin)

    def close(self) -> None:
        """End the thread, then sync what still waits, here and now, so that its replies can leave."""
        self._requests.put(None)
        self._thread.join()
        for waiting in (self._served, self._waiting):
            for log, callbacks in waiting.items():
                request = log.begin_sync()
                with suppress(OSError):
                    request.run()
                _call_all(callbacks, _complete(log, request))
        self._served, self._waiting = {}, {}

    def _begin(self) -> None:
        self._served, self._waiting = self._waiting, {}
        requests: list[tuple[Log, SyncRequest]] = []
        refused: list[list[OnDone]] = []
        for log in self._served:
            try:
                requests.append((log, log.begin_sync()))
            except OSError as failure:  # its files cannot be opened again
                logger.error("sync failed", extra={"log": log.directory, "error": str(failure)})
                refused.append(self._served[log])
        self._requests.put(requests)
        for callbacks in refused:
            _call_all(callbacks, False)

    def _run(self) -> None:
        while (requests := self._requests.get()) is not None:
            started = time.perf_counter()
            for _, request in requests:
                with suppress(OSError):  # the request keeps it, and complete_sync tells
                    request.run()
            seconds = time.perf_counter() - started
            try:
                self._loop.call_soon_threadsafe(self._end, requests, seconds)
            except RuntimeError:
                return  # the loop is closed: nobody is left to tell

    def _end(self, requests: list[tuple[Log, SyncRequest]], seconds: float) -> None:
        self._observe_sync(seconds)
        outcomes = [(log, _complete(log, request)) for log, request in requests]
        served, self._served = self._served, {}
        if self._waiting:
            self._begin()  # before the answers go out: the disk works while the loop does
        else:
            self._is_busy = False
        for log, is_durable in outcomes:
            _call_all(served.get(log, ()), is_durable)


def _complete(log: Log, request: SyncRequest) -> bool:
    try:
        log.complete_sync(request)
    except OSError as failure:
        logger.error("sync failed", extra={"log": log.directory, "error": str(failure)})
        return False
    return True


def _call_all(callbacks: Iterable[OnDone], is_durable: bool) -> None:
    for callback in callbacks:
        try:
            callback(is_durable)
        except Exception:
            logger.exception("a callback of the group commit failed")
