"""Requests by client: which clients cause the load.

A connection counts its own requests. They are added up by client id and host when the metrics are read, and
when the connection closes. Only the clients that sent the most since the last reading have a series.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, Protocol

from prometheus_client.metrics_core import Metric

from headgate.runtime.gauges import counter

MOST_TOLD: Final = 20
"""Clients with a series."""
MOST_REMEMBERED: Final = 1000
"""Clients whose totals are kept: those with the most requests. The total of another one begins again at 0."""
_LONGEST_NAME: Final = 100
_SLICE: Final = 500


class CountingConnection(Protocol):
    """A connection that counts its requests."""

    @property
    def client(self) -> tuple[str, str]:
        """The client id of its last new request header, and the client's address."""
        ...

    def take_requests(self) -> int:
        """Return the number of requests since the last call."""
        ...


class ClientRequests:
    """The number of requests of each client."""

    def __init__(self) -> None:
        self._totals: Counter[tuple[str, str]] = Counter()
        self._recent: Counter[tuple[str, str]] = Counter()
        """Requests since the metrics were last read."""

    def take(self, connection: CountingConnection) -> None:
        """Add what a connection has counted. Call it when the connection closes."""
        count = connection.take_requests()
        if count:
            client_id, host = connection.client
            self._recent[client_id[:_LONGEST_NAME], host] += count
            if len(self._recent) > 2 * MOST_REMEMBERED:
                self._recent = _largest(self._recent, MOST_REMEMBERED)

    def gauges(self, connections: Collection[CountingConnection]) -> Iterator[Metric | None]:
        """Yield the requests of the clients that sent the most, and None where a slice may end."""
        for number, connection in enumerate(list(connections)):
            self.take(connection)
            if number % _SLICE == _SLICE - 1:
                yield None
        recent, self._recent = self._recent, Counter()
        self._totals.update(recent)
        if len(self._totals) > 2 * MOST_REMEMBERED:
            self._totals = _largest(self._totals, MOST_REMEMBERED)
        told = [(client, self._totals[client]) for client in _largest(recent, MOST_TOLD)]
        yield counter(
            "headgate_client_requests",
            f"Requests of a client, of the {MOST_TOLD} that sent the most since the metrics were last read.",
            told,
            ("client", "host"),
        )


def _largest(counts: Counter[tuple[str, str]], most: int) -> Counter[tuple[str, str]]:
    return Counter(dict(heapq.nlargest(most, counts.items(), key=lambda item: item[1])))
