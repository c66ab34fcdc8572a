"""How many connections there may be: in all (`max.connections`), and from one address
(`max.connections.per.ip`).

As in Kafka, a connection above the first limit waits in the backlog of the listening socket until another one
ends, and one above the second is closed at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from headgate.domain.setting import INT_MAX
from headgate.server.seldom import Seldom

logger = logging.getLogger(__name__)


class ConnectionLimits:
    """Counts the connections of a listener."""

    def __init__(self, most: int = INT_MAX, most_per_ip: int = INT_MAX) -> None:
        self._most = most
        self._most_per_ip = most_per_ip
        self._count = 0
        self._by_ip: Counter[str] = Counter()
        self.is_full = False
        """Whether there is no room for another connection."""
        self._log = Seldom()
        self.on_full: Callable[[bool], None] = lambda is_full: None
        """Told when there is no room for another connection, and when there is again."""

    def accepted(self) -> None:
        """A connection was accepted, and will be opened."""
        self._count += 1
        self._look()

    def opened(self, ip: str) -> bool:
        """A connection from this address is open; whether it may stay so."""
        self._by_ip[ip] += 1
        if self._by_ip[ip] <= self._most_per_ip:
            return True
        if self._log.is_time():
            logger.warning(
                "connection rejected",
                extra={
                    "ip": ip,
                    "reason": f"there are {self._most_per_ip} from this address (max.connections.per.ip)",
                    "not_logged": self._log.take_skipped(),
                },
            )
        return False

    def closed(self, ip: str) -> None:
        """An accepted connection from this address is gone."""
        self._count -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        self._look()

    def _look(self) -> None:
        is_full = self._count >= self._most
        if is_full != self.is_full:
            self.is_full = is_full
            self.on_full(is_full)
