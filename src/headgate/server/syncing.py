"""Who runs a sync while the event loop goes on: the kernel where it takes that on, otherwise a thread.

A thread that waits for the disk needs the interpreter's lock before it can say that the wait is over, and a
busy loop has it: the hand-over there and back costs more than the sync itself. Linux can sync a file by
itself and raise an event when it is done (native asynchronous I/O, `IO_CMD_FDSYNC`), and the loop goes on.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import queue
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from headgate.log.sync import SyncRequest

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
        self._thread = threading.Thread(target=self._work, name="headgate-sync", daemon=True)
        sys.setswitchinterval(GIL_SWITCH_SECONDS)
        self._thread.start()

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """See `Syncer`."""
        self._requests.put((request, on_run))

    def close(self) -> None:
        """See `Syncer`."""
        self._requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._requests.get()) is not None:
            request, on_run = given
            with suppress(OSError):  # the request keeps it, and complete_sync tells
                request.run()
            with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self._loop.call_soon_threadsafe(on_run)


_SYSTEM_CALLS = {
    "x86_64": {"io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209},
    "aarch64": {"io_setup": 0, "io_destroy": 1, "io_getevents": 4, "io_submit": 2},
}
"""The C library has no functions for these; their numbers differ from machine to machine."""

_MOST_IN_FLIGHT = 64
_FDSYNC = 3
_RAISE_EVENT = 1
_control_block = struct.Struct("<QIIHhIQQqQII")
"""`struct iocb`: data, key, flags, operation, priority, file, buffer, size, offset, none, flags, event."""
_event = struct.Struct("<QQqq")
"""`struct io_event`: data, control block, result, second result."""


class _InFlight(NamedTuple):
    request: SyncRequest
    on_run: OnRun
    control_block: Any
    """Kept until the kernel is done with it."""


class KernelSyncer:
    """Hands syncs of one file to the kernel, and the few that are more than that to a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises OSError where the kernel, or whoever stands before it, does not take this on."""
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if numbers is None or sys.platform != "linux" or sys.byteorder != "little":
            raise OSError(f"no asynchronous syncs on {sys.platform} {platform.machine()}")
        self._numbers = numbers
        self._library = ctypes.CDLL(None, use_errno=True)
        self._context = ctypes.c_ulong(0)
        self._call("io_setup", ctypes.c_long(_MOST_IN_FLIGHT), ctypes.byref(self._context))
        self._event_descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._events = ctypes.create_string_buffer(_event.size * _MOST_IN_FLIGHT)
        self._in_flight: dict[int, _InFlight] = {}
        self._last = 0
        self._loop = loop
        self._thread: ThreadSyncer | None = None
        loop.add_reader(self._event_descriptor, self._on_event)

    def _call(self, name: str, *arguments: Any) -> int:
        result: int = self._library.syscall(self._numbers[name], *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{name}: {os.strerror(code)}")
        return result

    def run(self, request: SyncRequest, on_run: OnRun) -> None:
        """See `Syncer`."""
        descriptor = request.only_descriptor
        if descriptor is not None and len(self._in_flight) < _MOST_IN_FLIGHT:
            with suppress(OSError):  # what the kernel does not take, the thread does
                self._submit(descriptor, request, on_run)
                return
        if self._thread is None:
            self._thread = ThreadSyncer(self._loop)
        self._thread.run(request, on_run)

    def _submit(self, descriptor: int, request: SyncRequest, on_run: OnRun) -> None:
        self._last = number = self._last + 1
        block = ctypes.create_string_buffer(_control_block.size)
        event = self._event_descriptor
        _control_block.pack_into(
            block, 0, number, 0, 0, _FDSYNC, 0, descriptor, 0, 0, 0, 0, _RAISE_EVENT, event
        )
        blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        self._call("io_submit", self._context, ctypes.c_long(1), blocks)
        self._in_flight[number] = _InFlight(request, on_run, block)

    def _on_event(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event_descriptor)
        for on_run in self._reap(0):
            on_run()

    def _reap(self, fewest: int) -> list[OnRun]:
        """Take what is done, waiting for as many as `fewest`; the callbacks it leads to."""
        count = self._call(
            "io_getevents",
            self._context,
            ctypes.c_long(fewest),
            ctypes.c_long(_MOST_IN_FLIGHT),
            self._events,
            None,
        )
        done = []
        for index in range(count):
            number, _, result, _ = _event.unpack_from(self._events, index * _event.size)
            request, on_run, _ = self._in_flight.pop(number)
            request.end(OSError(-result, os.strerror(-result)) if result < 0 else None)
            done.append(on_run)
        return done

    def close(self) -> None:
        """See `Syncer`."""
        self._loop.remove_reader(self._event_descriptor)
        while self._in_flight:
            with suppress(InterruptedError):
                self._reap(len(self._in_flight))
        self._call("io_destroy", self._context)
        os.close(self._event_descriptor)
        if self._thread is not None:
            self._thread.close()


def syncer_for(loop: asyncio.AbstractEventLoop) -> Syncer:
    """The kernel if it syncs beside us, otherwise a thread."""
    try:
        return KernelSyncer(loop)
    except OSError:
        return ThreadSyncer(loop)
