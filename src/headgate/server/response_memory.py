"""The memory of responses that clients do not read.

`headgate.server.connection` bounds it for one connection; this module bounds it for all of them together.
Above the bound the connection that was stuck for longest is closed: one whose client read nothing since, or
least recently. So clients that do not read cost a bounded amount of memory, however many connections they
have, and other clients are still served.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from headgate.server.seldom import Seldom

logger = logging.getLogger(__name__)

MOST_UNREAD_BYTES: Final = 256 << 20
"""Bytes of all connections together."""


class Reader(Protocol):
    """A connection, with the bytes that its client has not read."""

    def unread_bytes(self) -> int:
        """Return the bytes in the transport's write buffer."""
        ...

    def close_unread(self) -> None:
        """Abort the connection."""
        ...


class ResponseMemory:
    """Counts the unread bytes of connections whose clients do not keep up."""

    def __init__(self, limit_bytes: int = MOST_UNREAD_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[Reader, int] = {}
        """Unread bytes by connection; the one that was stuck for longest is first."""
        self.held_bytes = 0
        """Sum of the values in `_held`."""
        self._log = Seldom()

    def note(self, reader: Reader) -> None:
        """Count a connection whose client does not keep up, or which has more unread bytes than before."""
        unread_bytes = reader.unread_bytes()
        self.held_bytes += unread_bytes - self._held.get(reader, 0)
        self._held[reader] = unread_bytes
        if self.held_bytes > self._limit_bytes:
            self._make_room()

    def gone(self, reader: Reader) -> None:
        """Remove a connection whose client keeps up again, or which is closed."""
        self.held_bytes -= self._held.pop(reader, 0)

    def _make_room(self) -> None:
        for reader, before in list(self._held.items()):
            unread_bytes = reader.unread_bytes()
            if unread_bytes < before:  # the client has read: move it to the end
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
