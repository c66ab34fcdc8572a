"""The two ways in which Linux takes syncs of files on, without a thread of ours that waits for them.

* A *ring* (`io_uring`): memory shared with the kernel, where requests and outcomes stand in line. Threads of
  the kernel's own run the syncs, on whichever processor is free. Containers are often not allowed it.
* *Native asynchronous I/O*: older, and allowed nearly everywhere. The kernel runs a sync on the very
  processor that asked for it, in between whatever the event loop does there.

Both have a descriptor that is readable when something is done: a ring its own, the other an event's. The C
library has no functions for either, so they are system calls by number.

The kernel looks at the indexes of a ring at any moment. They are therefore read and written through a
`memoryview` of 32-bit words, which does each as one load or one store. `struct` does not: it writes zeros
before it writes a value, and puts a value together from single bytes. A kernel that reads 0 as the number of
outcomes that were taken believes the line full, and keeps further outcomes to itself.
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
"""How many syncs the kernel is given at once."""


Outcome = tuple[int, int]
"""Of one sync: the number it was submitted under, and 0 or a negative error number."""


class KernelQueue(Protocol):
    """Syncs that the kernel runs."""

    descriptor: int
    """Is readable as long as there are outcomes that were not taken."""

    def submit(self, descriptor: int, number: int) -> None:
        """Have the data of an open file synced; at most `MOST_IN_FLIGHT` at once. Raises OSError."""
        ...

    def take(self, fewest: int) -> list[Outcome]:
        """The outcomes there are that were not taken yet, waiting until there are as many as `fewest`."""
        ...

    def close(self) -> None:
        """Let go of it; nothing is in flight any more."""
        ...


_call = ctypes.CDLL(None, use_errno=True).syscall
_call_at_once = ctypes.PyDLL(None, use_errno=True).syscall
"""For what never waits: the interpreter's lock is not let go, which costs more than the call."""


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
"""The same on every kind of machine."""
_SINGLE_MAPPING = 1
"""A feature: both lines stand in one piece of memory, since Linux 5.4."""
_NO_DROP = 2
"""A feature: outcomes for which the line has no place are kept aside and not dropped, since Linux 5.5."""
_OVERFLOWED = 2
"""A flag of the kernel's: outcomes are kept aside until somebody enters the kernel for them."""
_AT_REQUESTS = 0x10000000
_WAIT = 1
_RING_FSYNC = 3
_DATA_ONLY = 1
_parameters = struct.Struct("<7I12x10I10I")
"""`struct io_uring_params`: sizes, flags and features, then where things stand in the two lines."""
_request = struct.Struct("<BBHiQQIIQ24x")
"""`struct io_uring_sqe`: operation, flags, priority, file, offset, buffer, size, its own flags, data."""
_outcome = struct.Struct("<Qi4x")
"""`struct io_uring_cqe`: data and result."""
_WORD_BYTES = 4
_LARGEST_INDEX = 0xFFFF_FFFF


class RingQueue:
    """Syncs through an `io_uring`."""

    def __init__(self) -> None:
        """Raises OSError where the kernel has none, or does not allow it."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            # Elsewhere a processor may read an outcome before the index that says it is there.
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
            # Places of words, in words.
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
        """How many outcomes have a place in the line; the kernel keeps more than these aside."""
        self._submitted = 0
        self._taken = 0

    def submit(self, descriptor: int, number: int) -> None:
        """See `KernelQueue`."""
        submitted = self._submitted
        at = (submitted & self._request_mask) * _request.size
        _request.pack_into(self._requests, at, _RING_FSYNC, 0, 0, descriptor, 0, 0, 0, _DATA_ONLY, number)
        self._submitted = (submitted + 1) & _LARGEST_INDEX
        self._words[self._tail_at] = self._submitted
        count = _call_at_once(_RING_ENTER, self.descriptor, 1, 0, 0, None, 0)
        if count != 1:
            self._submitted = submitted  # it is not to be found there later
            self._words[self._tail_at] = submitted
            if count < 0:
                _raise("io_uring_enter")
            raise BlockingIOError(errno.EAGAIN, "io_uring_enter: the kernel did not take the request")

    def take(self, fewest: int) -> list[Outcome]:
        """See `KernelQueue`."""
        if fewest:
            _system_call("io_uring_enter", _RING_ENTER, self.descriptor, 0, fewest, _WAIT, None, 0)
        outcomes = self._take_from_line()
        while self._words[self._flags_at] & _OVERFLOWED:
            _system_call("io_uring_enter", _RING_ENTER, self.descriptor, 0, 0, _WAIT, None, 0)
            more = self._take_from_line()
            if not more:
                break  # asked again when the descriptor is readable
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
        """See `KernelQueue`."""
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
    """Syncs through native asynchronous I/O."""

    def __init__(self) -> None:
        """Raises OSError where the kernel has none, or does not allow it."""
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
        """Kept until the kernel is done with them."""

    def _call(self, name: str, *arguments: Any) -> int:
        return _system_call(name, self._numbers[name], *arguments)

    def submit(self, descriptor: int, number: int) -> None:
        """See `KernelQueue`."""
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
        """See `KernelQueue`."""
        with suppress(BlockingIOError):  # nothing new
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
        """See `KernelQueue`."""
        self._call(_DESTROY, self._context)
        os.close(self.descriptor)
