"""The memory that responses take which their clients do not read.

What one connection may hold is bounded by `headgate.server.connection`; here it is for all of them together.
Above the bound the connection goes that has been stuck for longest: one whose client has read nothing since,
or the least lately. So clients that read nothing cost a bounded amount of memory, however many connections
they have, and keep nobody else from being served.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from headgate.server.seldom import Seldom

logger = logging.getLogger(__name__)

MOST_UNREAD_BYTES: Final = 256 << 20
"""Of all connections together."""


class Reader(Protocol):
    """A connection: how much its client has not read, and the way to end it."""

    def unread_bytes(self) -> int:
        """What the transport holds for the client."""
        ...

    def close_unread(self) -> None:
        """End the connection at once."""
        ...


class ResponseMemory:
    """Counts what connections hold whose client does not keep up."""

    def __init__(self, limit_bytes: int = MOST_UNREAD_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[Reader, int] = {}
        """Who was stuck for longest is first."""
        self.held_bytes = 0
        """What they held when each was looked at last."""
        self._log = Seldom()

    def note(self, reader: Reader) -> None:
        """A client does not keep up, or has more to read than before."""
        unread_bytes = reader.unread_bytes()
        self.held_bytes += unread_bytes - self._held.get(reader, 0)
        self._held[reader] = unread_bytes
        if self.held_bytes > self._limit_bytes:
            self._make_room()

    def gone(self, reader: Reader) -> None:
        """A client keeps up again, or is gone."""
        self.held_bytes -= self._held.pop(reader, 0)

    def _make_room(self) -> None:
        for reader, before in list(self._held.items()):
            unread_bytes = reader.unread_bytes()
            if unread_bytes < before:  # it has read: others are before it
                del self._held[reader]
            self._held[reader] = unread_bytes
            self.held_bytes += unread_bytes - before
        while self.held_bytes > self._limit_bytes and len(self._held) > 1:
            longest = next(iter(self._held))
            self.gone(longest)
            if self._log.is_time():
                logger.warning(
                    "connections are closed whose clients do not read",
                    extra={"unread_bytes": self._limit_bytes, "not_logged": self._log.take_skipped()},
                )
            longest.close_unread()
