"""The memory of requests that are not served yet: incomplete ones and waiting ones.

`queued.max.request.bytes` bounds it for all connections together. Above the bound, connections that hold
more than a small part of a request are not read. One of them at a time is still read, and is closed if its
request does not end soon. Small requests are always read. So a client whose large requests never end delays
other clients only briefly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

UNLIMITED = -1
WITHOUT_A_LIMIT_BYTES: Final = 512 << 20
"""The bound when the setting says unlimited: the memory of a machine is finite."""
ALWAYS_TAKEN_BYTES: Final = 64 << 10
"""Bytes of a request that are read even above the bound."""
FAVOURED_SECONDS: Final = 30.0
READ_AT_ONCE_BYTES: Final = 256 << 10
"""Bytes that one read of a connection may bring."""


class Holder(Protocol):
    """A connection, with the bytes it holds and whether it is read."""

    held_request_bytes: int
    is_short_of_memory: bool

    def balance_memory(self, *, is_short: bool) -> None:
        """Stop reading the incomplete request, or resume it."""
        ...

    def close_short(self) -> None:
        """Close the connection: it holds memory that others wait for."""
        ...


class RequestMemory:
    """Counts the bytes that all connections hold; pauses and resumes those with large requests."""

    def __init__(self, limit_bytes: int = UNLIMITED) -> None:
        self._limit_bytes = WITHOUT_A_LIMIT_BYTES if limit_bytes <= 0 else limit_bytes
        self.held_bytes = 0
        self._short: deque[Holder] = deque()
        """Connections that are not read, in the order of their pause."""
        self._favoured: Holder | None = None
        """The connection that is read although the bound is reached, so that its request can end."""
        self._deadline: asyncio.TimerHandle | None = None

    def note(self, connection: Holder, held_bytes: int) -> None:
        """Set the bytes that a connection holds."""
        self.held_bytes += held_bytes - connection.held_request_bytes
        connection.held_request_bytes = held_bytes
        if held_bytes <= ALWAYS_TAKEN_BYTES:
            if connection is self._favoured:
                self._favour(None)
        elif self.held_bytes > self._limit_bytes and not connection.is_short_of_memory:
            if self._favoured is None:
                self._favour(connection)
            elif connection is not self._favoured:
                self._short.append(connection)
                connection.balance_memory(is_short=True)
        if self._short:
            self._resume()

    def gone(self, connection: Holder) -> None:
        """Remove a connection that holds no more bytes."""
        self.held_bytes -= connection.held_request_bytes
        connection.held_request_bytes = 0
        if connection.is_short_of_memory:
            connection.is_short_of_memory = False
            self._short.remove(connection)
        if connection is self._favoured:
            self._favour(None)
        if self._short:
            self._resume()

    def _favour(self, connection: Holder | None) -> None:
        self._favoured = connection
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if connection is not None:
            self._deadline = asyncio.get_running_loop().call_later(FAVOURED_SECONDS, self._on_deadline)

    def _on_deadline(self) -> None:
        """Close the favoured connection, whose request did not end in time, if others wait for memory."""
        connection = self._favoured
        self._favour(None)
        if connection is not None and self.held_bytes > self._limit_bytes:
            connection.close_short()

    def _resume(self) -> None:
        """Resume the connections there is room for, at least one, in the order of their pause."""
        if self._favoured is None:
            first = self._short.popleft()
            self._favour(first)
            first.balance_memory(is_short=False)
        expected_bytes = self.held_bytes + READ_AT_ONCE_BYTES
        while self._short and expected_bytes <= self._limit_bytes:
            self._short.popleft().balance_memory(is_short=False)
            expected_bytes += READ_AT_ONCE_BYTES
