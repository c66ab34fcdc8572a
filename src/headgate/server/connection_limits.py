"""The limits of connections: in total (`max.connections`) and per address (`max.connections.per.ip`).

As in Kafka, a connection above the first limit waits until another one closes, and one above the second limit
is closed at once. Waiting connections stay in the backlog of the listening socket. Only those accepted in the
same call as the last one within the limit are open, and they are not read.

A part of the process's file descriptors is reserved for logs (`descriptors.py`): a connection that would use
one of them is closed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headgate.domain.setting import INT_MAX
from headgate.server.descriptors import first_for_a_moment, most_connections
from headgate.server.seldom import Seldom

logger = logging.getLogger(__name__)


class Limited(Protocol):
    """A connection that may have to wait for its place."""

    def take_place(self) -> None:
        """Start reading: the number of connections is within its limit now."""
        ...


NO_LIMITS: Mapping[str, Any] = {"max.connections": INT_MAX, "max.connections.per.ip": INT_MAX}


class ConnectionLimits:
    """Counts the connections of a listener."""

    def __init__(self, settings: Mapping[str, Any] = NO_LIMITS) -> None:
        """`settings` may change at any time; `look` applies a change."""
        self._settings = settings
        self._count = 0
        self._by_ip: Counter[str] = Counter()
        self._waiting: dict[Limited, None] = {}
        """Connections above the limit, in the order of their arrival."""
        self._log = Seldom()
        self._most_with_descriptors = most_connections()
        self._most_descriptors = first_for_a_moment()
        self.is_full = False
        """Whether the limit is reached."""
        self.on_full: Callable[[bool], None] = lambda is_full: None
        """Called when `is_full` changes, with its new value."""
        self._is_stopped = False

    def stop(self) -> None:
        """Reject every connection from now on. The event loop may still report one that it accepted before
        the listening socket was closed.
        """
        self._is_stopped = True

    def opened(self, connection: Limited) -> bool:
        """Count a connection. Return whether it is within the limit; if not, `take_place` is called later."""
        if self._count >= self._settings["max.connections"]:
            self._waiting[connection] = None
            return False
        self._count += 1
        self.look()
        return True

    def may_stay(self, ip: str) -> bool:
        """Count a connection from this address. Return whether it is within the limit per address."""
        self._by_ip[ip] += 1
        if self._is_stopped:
            return False
        most_per_ip: int = self._settings["max.connections.per.ip"]
        if self._by_ip[ip] <= most_per_ip:
            return True
        if self._log.is_time():
            logger.warning(
                "connection rejected",
                extra={
                    "ip": ip,
                    "reason": f"there are {most_per_ip} from this address (max.connections.per.ip)",
                    "not_logged": self._log.take_skipped(),
                },
            )
        return False

    def leaves_descriptors(self, descriptor: int) -> bool:
        """Return whether enough descriptors for logs remain if the last connection keeps this one.

        The system assigns the lowest free number.
        """
        count = self._count + len(self._waiting)
        if count <= self._most_with_descriptors and descriptor < self._most_descriptors:
            return True
        if self._log.is_time():
            logger.warning(
                "connection rejected",
                extra={
                    "reason": "the last descriptors are for logs (ulimit -n)",
                    "not_logged": self._log.take_skipped(),
                },
            )
        return False

    def closed(self, connection: Limited, ip: str) -> None:
        """Remove a closed connection from this address from the counts."""
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        if connection in self._waiting:
            del self._waiting[connection]
        else:
            self._count -= 1
        self.look()

    def look(self) -> None:
        """Compare the number of connections with the limit, which may have changed."""
        while self._waiting and self._count < self._settings["max.connections"]:
            self._count += 1
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.take_place()
        is_full = self._count >= self._settings["max.connections"]
        if is_full != self.is_full:
            self.is_full = is_full
            self.on_full(is_full)
