"""The two interfaces of Linux for asynchronous syncs of files, which need no waiting thread in this process.

* A *ring* (`io_uring`): memory shared with the kernel, with a queue of requests and a queue of outcomes.
  Kernel threads run the syncs, on any free processor. Containers often forbid it.
* *Native asynchronous I/O*: older, and allowed nearly everywhere. The kernel runs a sync on the processor
  that submitted it, interleaved with the event loop.

Both have a descriptor that is readable when an outcome is ready: the ring's own, or an eventfd. The C library
has no functions for either, so this module makes system calls by number.

The kernel reads the indexes of a ring at any moment. So they are accessed through a `memoryview` of 32-bit
words, which makes each access one load or one store. `struct` does not: it writes zeros before a value, and
assembles a value from single bytes. A kernel that reads 0 as the number of outcomes taken considers the queue
full, and holds back further outcomes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import sys
from contextlib import ExitStack, suppress
from typing import Any, NoReturn, Protocol

MOST_IN_FLIGHT = 64
"""Limit of submitted syncs."""


Outcome = tuple[int, int]
"""Outcome of one sync: its number, and 0 or a negative errno."""


class KernelQueue(Protocol):
    """A queue of syncs that the kernel runs."""

    descriptor: int
    """File descriptor that is readable while there are outcomes to take."""

    def submit(self, descriptor: int, number: int) -> None:
        """Submit a sync of an open file's data; at most `MOST_IN_FLIGHT` at a time. Raises OSError."""
        ...

    def take(self, fewest: int) -> list[Outcome]:
        """Return the outcomes since the last call, waiting until there are at least `fewest`."""
        ...

    def close(self) -> None:
        """Release the queue. Nothing is in flight."""
        ...


_call = ctypes.CDLL(None, use_errno=True).syscall
_call_at_once = ctypes.PyDLL(None, use_errno=True).syscall
"""For calls that never block: it keeps the interpreter's lock, whose release costs more than the call."""


def _system_call(name: str, number: int, *arguments: Any) -> int:
    result: int = _call(number, *arguments)
    if result < 0:
        _raise(name)
    return result


def _raise(name: str) -> NoReturn:
    code = ctypes.get_errno()
    raise OSError(code, f"{name}: {os.strerror(code)}")


# --- the ring ---

_RING_SETUP, _RING_ENTER = 425, 426
"""Numbers that are equal on every architecture."""
_SINGLE_MAPPING = 1
"""Feature flag: both queues are in one piece of memory, since Linux 5.4."""
_NO_DROP = 2
"""Feature flag: outcomes that do not fit into the queue are held back, not dropped, since Linux 5.5."""
_OVERFLOWED = 2
"""Queue flag: outcomes are held back until the next call into the kernel."""
_AT_REQUESTS = 0x10000000
_WAIT = 1
_RING_FSYNC = 3
_DATA_ONLY = 1
_parameters = struct.Struct("<7I12x10I10I")
"""`struct io_uring_params`: sizes, flags and features, then the offsets within the two queues."""
_request = struct.Struct("<BBHiQQIIQ24x")
"""`struct io_uring_sqe`: operation, flags, priority, file, offset, buffer, size, its own flags, data."""
_outcome = struct.Struct("<Qi4x")
"""`struct io_uring_cqe`: data and result."""
_WORD_BYTES = 4
_LARGEST_INDEX = 0xFFFF_FFFF


class RingQueue:
    """A queue of syncs through an `io_uring`."""

    def __init__(self) -> None:
        """Raises OSError if the kernel does not support or does not allow it."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            # Other processors may read an outcome before the index that announces it.
            raise OSError(f"no ring for syncs on {sys.platform} {platform.machine()}")
        block = ctypes.create_string_buffer(_parameters.size)
        with ExitStack() as undo:
            self.descriptor = _system_call("io_uring_setup", _RING_SETUP, MOST_IN_FLIGHT, block)
            undo.callback(os.close, self.descriptor)
            fields = _parameters.unpack(block.raw)
            (requests, outcomes, _, _, _, features, _), places = fields[:7], fields[7:]
            if not features & _SINGLE_MAPPING or not features & _NO_DROP:
                raise OSError("an io_uring of Linux before 5.5")
            _, tail_at, _, _, flags_at, _, requests_at, *_ = places[:10]
            head_at, done_at, _, _, _, self._outcomes_at, *_ = places[10:]
            # Offsets, in words.
            self._tail_at, self._flags_at = tail_at // _WORD_BYTES, flags_at // _WORD_BYTES
            self._head_at, self._done_at = head_at // _WORD_BYTES, done_at // _WORD_BYTES
            self._request_mask, self._outcome_mask = requests - 1, outcomes - 1
            size = max(requests_at + requests * _WORD_BYTES, self._outcomes_at + outcomes * _outcome.size)
            self._lines = undo.enter_context(mmap.mmap(self.descriptor, size))
            self._words = undo.enter_context(memoryview(self._lines).cast("I"))
            self._requests = undo.enter_context(
                mmap.mmap(self.descriptor, requests * _request.size, offset=_AT_REQUESTS)
            )
            for slot in range(requests):
                self._words[requests_at // _WORD_BYTES + slot] = slot
            self._let_go = undo.pop_all()
        self.most_outcomes: int = outcomes
        """Capacity of the outcome queue; the kernel holds back the rest."""
        self._submitted = 0
        self._taken = 0

    def submit(self, descriptor: int, number: int) -> None:
        """Submit a sync; see `KernelQueue`."""
        submitted = self._submitted
        at = (submitted & self._request_mask) * _request.size
        _request.pack_into(self._requests, at, _RING_FSYNC, 0, 0, descriptor, 0, 0, 0, _DATA_ONLY, number)
        self._submitted = (submitted + 1) & _LARGEST_INDEX
        self._words[self._tail_at] = self._submitted
        count = _call_at_once(_RING_ENTER, self.descriptor, 1, 0, 0, None, 0)
        if count != 1:
            self._submitted = submitted  # the kernel does not take the request later
            self._words[self._tail_at] = submitted
            if count < 0:
                _raise("io_uring_enter")
            raise BlockingIOError(errno.EAGAIN, "io_uring_enter: the kernel did not take the request")

    def take(self, fewest: int) -> list[Outcome]:
        """Return the outcomes; see `KernelQueue`."""
        if fewest:
            _system_call("io_uring_enter", _RING_ENTER, self.descriptor, 0, fewest, _WAIT, None, 0)
        outcomes = self._take_from_line()
        while self._words[self._flags_at] & _OVERFLOWED:
            _system_call("io_uring_enter", _RING_ENTER, self.descriptor, 0, 0, _WAIT, None, 0)
            more = self._take_from_line()
            if not more:
                break  # tried again when the descriptor is readable
            outcomes += more
        return outcomes

    def _take_from_line(self) -> list[Outcome]:
        done = self._words[self._done_at]
        outcomes = []
        while self._taken != done:
            at = self._outcomes_at + (self._taken & self._outcome_mask) * _outcome.size
            outcomes.append(_outcome.unpack_from(self._lines, at))
            self._taken = (self._taken + 1) & _LARGEST_INDEX
        self._words[self._head_at] = done
        return outcomes

    def close(self) -> None:
        """Release the queue; see `KernelQueue`."""
        self._let_go.close()


# --- native asynchronous I/O ---

_SETUP, _DESTROY, _GET_EVENTS, _SUBMIT = "io_setup", "io_destroy", "io_getevents", "io_submit"
_CALLS = {
    "x86_64": {_SETUP: 206, _DESTROY: 207, _GET_EVENTS: 208, _SUBMIT: 209},
    "aarch64": {_SETUP: 0, _DESTROY: 1, _GET_EVENTS: 4, _SUBMIT: 2},
}
_DATA_SYNC = 3
_RAISE_EVENT = 1
_control_block = struct.Struct("<QIIHhIQQqQII")
"""`struct iocb`: data, key, flags, operation, priority, file, buffer, size, offset, none, flags, event."""
_event = struct.Struct("<QQqq")
"""`struct io_event`: data, control block, result, second result."""


class AsynchronousIo:
    """A queue of syncs through native asynchronous I/O."""

    def __init__(self) -> None:
        """Raises OSError if the kernel does not support or does not allow it."""
        numbers = _CALLS.get(platform.machine())
        if numbers is None or sys.platform != "linux" or sys.byteorder != "little":
            raise OSError(f"no asynchronous syncs on {sys.platform} {platform.machine()}")
        self._numbers = numbers
        self._context = ctypes.c_ulong(0)
        self._call(_SETUP, ctypes.c_long(MOST_IN_FLIGHT), ctypes.byref(self._context))
        try:
            self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._call(_DESTROY, self._context)
            raise
        self._events = ctypes.create_string_buffer(_event.size * MOST_IN_FLIGHT)
        self._blocks: dict[int, Any] = {}
        """Control blocks in use by the kernel, by number."""

    def _call(self, name: str, *arguments: Any) -> int:
        return _system_call(name, self._numbers[name], *arguments)

    def submit(self, descriptor: int, number: int) -> None:
        """Submit a sync; see `KernelQueue`."""
        block = ctypes.create_string_buffer(_control_block.size)
        _control_block.pack_into(
            block,
            0,
            *(number, 0, 0, _DATA_SYNC, 0, descriptor, 0, 0, 0, 0, _RAISE_EVENT, self.descriptor),
        )
        blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        self._call(_SUBMIT, self._context, ctypes.c_long(1), blocks)
        self._blocks[number] = block

    def take(self, fewest: int) -> list[Outcome]:
        """Return the outcomes; see `KernelQueue`."""
        with suppress(BlockingIOError):  # no new events
            os.eventfd_read(self.descriptor)
        count = self._call(
            _GET_EVENTS,
            self._context,
            ctypes.c_long(fewest),
            ctypes.c_long(MOST_IN_FLIGHT),
            self._events,
            None,
        )
        outcomes = []
        for index in range(count):
            number, _, result, _ = _event.unpack_from(self._events, index * _event.size)
            del self._blocks[number]
            outcomes.append((number, result))
        return outcomes

    def close(self) -> None:
        """Release the queue; see `KernelQueue`."""
        self._call(_DESTROY, self._context)
        os.close(self.descriptor)
