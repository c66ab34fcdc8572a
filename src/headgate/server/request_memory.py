"""The memory that requests take which are not served yet: incomplete ones, and those that have to wait.

It is bounded for all connections together by `queued.max.request.bytes`. Above the bound, connections with
more than a little of a request are not read. Small requests always are, so that a client with a large request
that it never completes keeps nobody else from being served; it is closed when it has been idle for too long.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

UNLIMITED = -1
WITHOUT_A_LIMIT_BYTES = 512 << 20
"""The bound where the setting says that there is none: the memory of a machine is one."""
ALWAYS_TAKEN_BYTES = 64 << 10
"""So much of a request is read whatever others hold."""
READ_AT_ONCE_BYTES = 256 << 10
"""What a connection may bring when it is read once."""


class Holder(Protocol):
    """A connection: what of its requests is held, and whether more of it may come."""

    held_request_bytes: int
    is_short_of_memory: bool

    def balance_memory(self, *, is_short: bool) -> None:
        """Take no more of the request that is incomplete, or go on."""
        ...


class RequestMemory:
    """Counts what all connections hold, and stops and resumes the large ones."""

    def __init__(self, limit_bytes: int = UNLIMITED) -> None:
        self._limit_bytes = WITHOUT_A_LIMIT_BYTES if limit_bytes <= 0 else limit_bytes
        self.held_bytes = 0
        self._short: deque[Holder] = deque()

    def note(self, connection: Holder, held_bytes: int) -> None:
        """A connection holds so much now."""
        self.held_bytes += held_bytes - connection.held_request_bytes
        connection.held_request_bytes = held_bytes
        is_short = self.held_bytes > self._limit_bytes and held_bytes > ALWAYS_TAKEN_BYTES
        if is_short and not connection.is_short_of_memory:
            self._short.append(connection)
            connection.balance_memory(is_short=True)
        elif self._short:
            self._resume()

    def gone(self, connection: Holder) -> None:
        """A connection holds nothing any more, and never will."""
        self.held_bytes -= connection.held_request_bytes
        connection.held_request_bytes = 0
        if connection.is_short_of_memory:
            connection.is_short_of_memory = False
            self._short.remove(connection)
        if self._short:
            self._resume()

    def _resume(self) -> None:
        """Go on with as many as there is room for, those first that wait longest."""
        expected_bytes = self.held_bytes + READ_AT_ONCE_BYTES
        while self._short and (expected_bytes <= self._limit_bytes or not self.held_bytes):
            self._short.popleft().balance_memory(is_short=False)
            expected_bytes += READ_AT_ONCE_BYTES
