"""The memory that requests take which are not served yet: incomplete ones, and those that have to wait.

It is bounded for all connections together by `queued.max.request.bytes`. Above the bound, connections with
more than a little of a request are not read, but for one of them at a time, which is closed if its request
does not end soon. Small requests are always read. So a client with large requests that never end keeps nobody
from being served for long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

UNLIMITED = -1
WITHOUT_A_LIMIT_BYTES: Final = 512 << 20
"""The bound where the setting says that there is none: the memory of a machine is one."""
ALWAYS_TAKEN_BYTES: Final = 64 << 10
"""So much of a request is read whatever others hold."""
FAVOURED_SECONDS: Final = 30.0
READ_AT_ONCE_BYTES: Final = 256 << 10
"""What a connection may bring when it is read once."""


class Holder(Protocol):
    """A connection: what of its requests is held, and whether more of it may come."""

    held_request_bytes: int
    is_short_of_memory: bool

    def balance_memory(self, *, is_short: bool) -> None:
        """Take no more of the request that is incomplete, or go on."""
        ...

    def close_short(self) -> None:
        """Close the connection: it keeps memory that others wait for."""
        ...


class RequestMemory:
    """Counts what all connections hold, and stops and resumes the large ones."""

    def __init__(self, limit_bytes: int = UNLIMITED) -> None:
        self._limit_bytes = WITHOUT_A_LIMIT_BYTES if limit_bytes <= 0 else limit_bytes
        self.held_bytes = 0
        self._short: deque[Holder] = deque()
        """Connections that are not read, in their order."""
        self._favoured: Holder | None = None
        """The one that is read though there is no room, so that its request may end."""
        self._deadline: asyncio.TimerHandle | None = None

    def note(self, connection: Holder, held_bytes: int) -> None:
        """A connection holds so much now."""
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
        """A connection holds nothing any more, and never will."""
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
        """The request did not end: somebody else is to have the memory, if somebody waits for it."""
        connection = self._favoured
        self._favour(None)
        if connection is not None and self.held_bytes > self._limit_bytes:
            connection.close_short()

    def _resume(self) -> None:
        """Go on with as many as there is room for, and with one in any case; who waits longest is first."""
        if self._favoured is None:
            first = self._short.popleft()
            self._favour(first)
            first.balance_memory(is_short=False)
        expected_bytes = self.held_bytes + READ_AT_ONCE_BYTES
        while self._short and expected_bytes <= self._limit_bytes:
            self._short.popleft().balance_memory(is_short=False)
            expected_bytes += READ_AT_ONCE_BYTES
