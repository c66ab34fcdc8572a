"""What the connections of one listener share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Protocol

from headgate.api.registration import Api
from headgate.api.repeats import Repeats
from headgate.runtime.loop_watch import LoopWatch
from headgate.security.authorizer import ALLOW_ALL, Authorizer
from headgate.server.backlog import Backlog
from headgate.server.calls import Line
from headgate.server.client_requests import ClientRequests, CountingConnection
from headgate.server.connection_limits import ConnectionLimits
from headgate.server.large_requests import LargeRequests
from headgate.server.metrics import Metrics
from headgate.server.request_memory import RequestMemory
from headgate.server.request_work import RequestWork
from headgate.server.response_memory import ResponseMemory
from headgate.server.seldom import Seldom
from headgate.server.turn import Turn

REFUSALS_TOLD: Final = 20
"""Log lines per period for connections closed because of invalid requests; the metric counts all of them."""


class OpenConnection(CountingConnection, Protocol):
    """A connection, as its listener and the outbox use it."""

    line: Line

    def close_idle(self) -> None:
        """Close the connection if it is idle, if the client does not read, or if the client is gone."""
        ...

    def stop_reading(self) -> None:
        """Accept no more requests."""
        ...

    def close(self) -> None:
        """Send the ready responses and close."""
        ...

    def send(self) -> None:
        """Send all queued responses in one write."""
        ...

    def refuse_unexpected(self, failure: Exception) -> None:
        """Close the connection because of an unexpected exception."""
        ...


class Outbox:
    """The connections with responses to send by the end of this loop iteration."""

    __slots__ = ("_connections", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._connections: list[OpenConnection] = []

    def add(self, connection: OpenConnection) -> None:
        """Send the ready responses of `connection` at the end of this loop iteration."""
        if not self._connections:
            self.loop.call_soon(self.send)
        self._connections.append(connection)

    def send(self) -> None:
        """Send all ready responses now."""
        connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.send()
            except Exception as failure:
                connection.refuse_unexpected(failure)


@dataclass(slots=True, frozen=True)
class Served:
    """What all connections of one listener share."""

    apis: dict[int, Api]
    metrics: Metrics
    turn: Turn
    watch: LoopWatch
    work: RequestWork
    backlog: Backlog
    open_connections: set[OpenConnection] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)
    outbox: Outbox = field(default_factory=Outbox)
    memory: RequestMemory = field(default_factory=RequestMemory)
    responses: ResponseMemory = field(default_factory=ResponseMemory)
    large: LargeRequests = field(default_factory=LargeRequests)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    requests: ClientRequests = field(default_factory=ClientRequests)
    refusals: Seldom = field(default_factory=lambda: Seldom(REFUSALS_TOLD))
    authorizer: Authorizer = ALLOW_ALL
