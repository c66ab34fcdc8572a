"""Runs syncs beside the event loop: in the kernel if it supports it, otherwise in a thread.

A thread that waits for the disk needs the interpreter's lock to report the end of the wait, and a busy loop
holds it. This hand-over costs more than the sync. Linux can sync a file asynchronously and signal an event at
its end (`headgate.runtime.kernel_queues`), and the loop continues.

Every submitted request ends: the thread runs what the kernel did not run, and a request with an unknown
outcome ends as a failed sync.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from headgate.log.sync import SyncRequest
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.kernel_queues import MOST_IN_FLIGHT, AsynchronousIo, KernelQueue, RingQueue

logger = logging.getLogger(__name__)

OnRun = Callable[[], None]

GIL_SWITCH_SECONDS = 0.0005
"""Time that a thread with a finished sync may wait for the interpreter's lock; Python's default is 5 ms."""
MOST_LOOKS_IN_VAIN = 1000
"""Consecutive events without an outcome after which the kernel queue is abandoned."""
PATIENCE_SECONDS = 5.0
"""Time after which a stop that waits for syncs logs this; it waits on."""
_NOT_RUN = frozenset({errno.ECANCELED, errno.EAGAIN, errno.EINTR})
"""Outcomes of syncs that the kernel accepted and did not run."""


class Syncer(Protocol):
    """Runs sync requests beside the loop."""

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """Run the request, which stores its outcome, then call `on_run` on the loop.

        Raises RuntimeError if a thread is needed and cannot be started; the request has not run then.
        """
        ...

    def close(self) -> None:
        """Wait until every submitted request has run. No callback is called after that."""
        ...


class ThreadSyncer:
    """Runs requests in one thread, one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises RuntimeError if the thread cannot be started."""
        self._loop = loop
        self._requests: queue.SimpleQueue[tuple[SyncRequest, OnRun] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._worker = threading.Thread(target=self._work, name="headgate-sync", daemon=True)
        sys.setswitchinterval(GIL_SWITCH_SECONDS)
        self._worker.start()

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """Run a request; see `Syncer`."""
        self._requests.put((request, on_run))

    def close(self) -> None:
        """Wait for all requests; see `Syncer`."""
        self._is_closed = True
        self._requests.put(None)
        self._worker.join(PATIENCE_SECONDS)
        if self._worker.is_alive():
            _tell_waiting(self._requests.qsize())
            self._worker.join()

    def _work(self) -> None:
        while (given := self._requests.get()) is not None:
            request, on_run = given
            problem: BaseException | None = None
            try:
                request.run()
            except OSError:
                pass  # the request keeps the error, and complete_sync raises it
            except BaseException as unforeseen:  # this request failed; the next one runs nevertheless
                problem = unforeseen
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell, on_run, problem)

    def _tell(self, on_run: OnRun, problem: BaseException | None) -> None:
        if problem is not None:
            unexpected(Where.SYNC, "a sync failed", problem)
        if not self._is_closed:
            on_run()


class KernelSyncer:
    """Submits syncs of one file to the kernel; syncs of several files, or above the limit, to a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: KernelQueue) -> None:
        """Takes ownership of `queue`."""
        self._loop = loop
        self._queue = queue
        self._in_flight: dict[int, tuple[SyncRequest, OnRun]] = {}
        self._last = 0
        self._looks_in_vain = 0
        self._is_given_up = False
        self._fallback: ThreadSyncer | None = None
        loop.add_reader(queue.descriptor, self._on_outcomes)

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """Run a request; see `Syncer`."""
        descriptor = request.only_descriptor
        if descriptor is not None and len(self._in_flight) < MOST_IN_FLIGHT and not self._is_given_up:
            number = self._last + 1
            try:
                self._queue.submit(descriptor, number)
            except OSError:
                pass  # the thread runs what the kernel rejects
            else:
                self._last = number
                self._in_flight[number] = request, on_run
                return
        self._run_aside(request, on_run)

    def _run_aside(self, request: SyncRequest, on_run: OnRun) -> None:
        if self._fallback is None:
            self._fallback = ThreadSyncer(self._loop)
        self._fallback.run(request, on_run)

    def _on_outcomes(self) -> None:
        try:
            ended = self._take()
        except OSError as failure:
            ended = self._give_up(failure)
        for on_run in ended:
            try:
                on_run()
            except Exception as fault:  # one log must not delay the others
                unexpected(Where.SYNC, "a callback of a sync failed", fault)

    def _take(self) -> list[OnRun]:
        """Take finished syncs. Return their callbacks. Raises OSError when the queue is unusable."""
        outcomes = self._queue.take(0)
        self._looks_in_vain = 0 if outcomes else self._looks_in_vain + 1
        if self._looks_in_vain > MOST_LOOKS_IN_VAIN:
            raise OSError(errno.EIO, "the kernel announces outcomes of syncs and has none")
        ended: list[OnRun] = []
        for number, result in outcomes:
            given = self._in_flight.pop(number, None)
            if given is None:
                logger.error("the kernel ended a sync that it was not given", extra={"number": number})
                continue
            request, on_run = given
            if -result in _NOT_RUN:
                try:
                    self._run_aside(request, on_run)
                    continue
                except RuntimeError:
                    pass  # no thread can be started: the sync has failed
            request.end(OSError(-result, os.strerror(-result)) if result < 0 else None)
            ended.append(on_run)
        return ended

    def _give_up(self, failure: OSError) -> list[OnRun]:
        """Abandon the queue. Syncs in flight have failed, because their outcome is unknown.

        They cannot be run again: the kernel reports a failed write once, and may have reported it already.
        """
        logger.error(
            "the kernel runs no more syncs, a thread does",
            extra={"error": str(failure), "in_flight": len(self._in_flight)},
        )
        self._is_given_up = True
        self._loop.remove_reader(self._queue.descriptor)
        self._queue.close()
        in_flight, self._in_flight = self._in_flight, {}
        for request, _ in in_flight.values():
            request.end(failure)
        return [on_run for _, on_run in in_flight.values()]

    def close(self) -> None:
        """Wait for all requests; see `Syncer`."""
        if not self._is_given_up:
            self._loop.remove_reader(self._queue.descriptor)
            self._drain()
        if not self._is_given_up:
            self._queue.close()
        if self._fallback is not None:
            self._fallback.close()

    def _drain(self) -> None:
        """Take outcomes until nothing is in flight."""
        readable = select.poll()
        readable.register(self._queue.descriptor, select.POLLIN)
        is_told = False
        while self._in_flight:
            if not readable.poll(PATIENCE_SECONDS * 1000) and not is_told:
                is_told = True
                _tell_waiting(len(self._in_flight))
            try:
                self._take()
            except OSError as failure:
                self._give_up(failure)


def _tell_waiting(count: int) -> None:
    logger.warning("the stop waits for syncs that do not end", extra={"syncs": count})


def syncer_for(loop: asyncio.AbstractEventLoop) -> Syncer:
    """Return a kernel syncer if the kernel syncs asynchronously, otherwise a thread."""
    for new_queue in (RingQueue, AsynchronousIo):
        with suppress(OSError):
            return KernelSyncer(loop, new_queue())
    return ThreadSyncer(loop)
