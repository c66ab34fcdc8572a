"""Who runs a sync while the event loop goes on: the kernel where it takes that on, otherwise a thread.

A thread that waits for the disk needs the interpreter's lock before it can say that the wait is over, and a
busy loop has it: the hand-over there and back costs more than the sync itself. Linux can sync a file by
itself and raise an event when it is done (`headgate.server.kernel_queues`), and the loop goes on.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from headgate.log.sync import SyncRequest
from headgate.server.kernel_queues import MOST_IN_FLIGHT, AsynchronousIo, KernelQueue, RingQueue

OnRun = Callable[[], None]

GIL_SWITCH_SECONDS = 0.0005
"""How long a sync that has ended may wait for the loop to let its thread run; Python's default is 5 ms."""


class Syncer(Protocol):
    """Runs sync requests beside the loop."""

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """Run the request, whose outcome it keeps, then call `on_run` on the loop."""
        ...

    def close(self) -> None:
        """Return when every request given has run; none of the callbacks is called any more."""
        ...


class ThreadSyncer:
    """One thread, one request after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._requests: queue.SimpleQueue[tuple[SyncRequest, OnRun] | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="headgate-sync", daemon=True)
        sys.setswitchinterval(GIL_SWITCH_SECONDS)
        self._worker.start()

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """See `Syncer`."""
        self._requests.put((request, on_run))

    def close(self) -> None:
        """See `Syncer`."""
        self._requests.put(None)
        self._worker.join()

    def _work(self) -> None:
        while (given := self._requests.get()) is not None:
            request, on_run = given
            with suppress(OSError):  # the request keeps it, and complete_sync tells
                request.run()
            with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self._loop.call_soon_threadsafe(on_run)


class KernelSyncer:
    """Hands syncs of one file to the kernel, and the few that are more than that to a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: KernelQueue) -> None:
        """Takes `queue` over."""
        self._loop = loop
        self._queue = queue
        self._in_flight: dict[int, tuple[SyncRequest, OnRun]] = {}
        self._last = 0
        self._fallback: ThreadSyncer | None = None
        loop.add_reader(queue.descriptor, self._on_outcomes)

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """See `Syncer`."""
        descriptor = request.only_descriptor
        if descriptor is not None and len(self._in_flight) < MOST_IN_FLIGHT:
            number = self._last + 1
            try:
                self._queue.submit(descriptor, number)
            except OSError:
                pass  # what the kernel does not take, the thread does
            else:
                self._last = number
                self._in_flight[number] = request, on_run
                return
        if self._fallback is None:
            self._fallback = ThreadSyncer(self._loop)
        self._fallback.run(request, on_run)

    def _on_outcomes(self) -> None:
        for on_run in self._take(0):
            on_run()

    def _take(self, fewest: int) -> list[OnRun]:
        """Take what is done, waiting for as many as `fewest`; the callbacks it leads to."""
        callbacks = []
        for number, result in self._queue.take(fewest):
            request, on_run = self._in_flight.pop(number)
            request.end(OSError(-result, os.strerror(-result)) if result < 0 else None)
            callbacks.append(on_run)
        return callbacks

    def close(self) -> None:
        """See `Syncer`."""
        self._loop.remove_reader(self._queue.descriptor)
        while self._in_flight:
            with suppress(InterruptedError):
                self._take(len(self._in_flight))
        self._queue.close()
        if self._fallback is not None:
            self._fallback.close()


def syncer_for(loop: asyncio.AbstractEventLoop) -> Syncer:
    """The kernel if it syncs beside us, otherwise a thread."""
    for new_queue in (RingQueue, AsynchronousIo):
        with suppress(OSError):
            return KernelSyncer(loop, new_queue())
    return ThreadSyncer(loop)
