"""How many connections there may be: in all (`max.connections`), and from one address
(`max.connections.per.ip`).

As in Kafka, a connection above the first limit waits until another one ends, and one above the second is
closed at once. Connections that wait are left in the backlog of the listening socket, but for those that were
accepted together with the last one there was room for: these are left unread.

The last descriptors that the process may have are kept for logs: a connection that would take one is closed.
"""

from __future__ import annotations

import logging
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headgate.domain.setting import INT_MAX
from headgate.server.seldom import Seldom

logger = logging.getLogger(__name__)


class Limited(Protocol):
    """A connection: it may have to wait for its place."""

    def take_place(self) -> None:
        """Begin to read: there is room now."""
        ...


MOST_RESERVED = 256
"""So many descriptors, or a quarter of all, no connection takes: what is asked of the others opens logs."""
NO_LIMITS: Mapping[str, Any] = {"max.connections": INT_MAX, "max.connections.per.ip": INT_MAX}


class ConnectionLimits:
    """Counts the connections of a listener."""

    def __init__(self, settings: Mapping[str, Any] = NO_LIMITS) -> None:
        """Both settings may change at any time; `look` takes a change over."""
        self._settings = settings
        self._count = 0
        self._by_ip: Counter[str] = Counter()
        self._waiting: dict[Limited, None] = {}
        """Connections without a place, in their order."""
        self._log = Seldom()
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_descriptors = most - min(most // 4, MOST_RESERVED)
        self.is_full = False
        """Whether there is no room for another connection."""
        self.on_full: Callable[[bool], None] = lambda is_full: None
        """Told when there is no room for another connection, and when there is again."""
        self._is_stopped = False

    def stop(self) -> None:
        """Let no connection stay from now on: one may be accepted before its listening socket is closed, and
        be told of afterwards.
        """
        self._is_stopped = True

    def opened(self, connection: Limited) -> bool:
        """A connection was accepted; whether it has a place, or else `take_place` is called later."""
        if self._count >= self._settings["max.connections"]:
            self._waiting[connection] = None
            return False
        self._count += 1
        self.look()
        return True

    def may_stay(self, ip: str) -> bool:
        """Count a connection from this address; whether it is none too many."""
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
        """Whether logs can be opened beside a connection of this descriptor: the lowest free one."""
        if descriptor < self._most_descriptors:
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
        """A connection from this address is gone."""
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        if connection in self._waiting:
            del self._waiting[connection]
        else:
            self._count -= 1
        self.look()  # its place goes to the next

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
