"""A connection to the simulated node, by the protocol's bytes: every exchange with the times around it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tests.simulation.clock import SimulatedTime

from headgate.server.connection import Connection
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request


class Lost(Exception):
    """The connection was lost before the answer: its outcome is unknown."""


@dataclass(eq=False)
class Exchange:
    """One request and its answer, in seconds of steady time."""

    who: str
    request: Any
    link: Link
    life: int
    """The number of the server's life."""
    arrived: float = -1.0
    """When the server got the request; negative if it did not yet."""
    sent: float = -1.0
    """When the server sent the answer."""
    answer: Any = None


class Audit(Protocol):
    """Who learns of every exchange."""

    def arrived(self, exchange: Exchange) -> None:
        """Note a request that reached the server."""
        ...

    def answered(self, exchange: Exchange) -> None:
        """Check an answer when the server sends it. Raises Violation."""
        ...

    def lost(self, exchange: Exchange) -> None:
        """Note that the answer to a request that may have arrived is lost."""
        ...


@dataclass
class Server:
    """The current life of the server, as links see it."""

    node: BrokerNode
    listener: Listener
    life: int
    time: SimulatedTime
    random: Random
    latency_seconds: float
    audit: Audit
    report: Callable[[BaseException], None]
    is_over: bool = False

    def latency(self) -> float:
        """Return the time that a message takes."""
        return self.random.random() ** 2 * self.latency_seconds


class _Wire:
    """The client's end of the socket."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._bytes = bytearray()

    def write(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:4])
            if len(self._bytes) < end:
                return
            frame = bytes(self._bytes[:end])
            del self._bytes[:end]
            self._link.received(frame)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("10.0.0.1", 5000) if name == "peername" else None

    def close(self) -> None:
        self._link.lose()


class Link:
    """One connection of a client, until either end closes it or the server's life ends."""

    def __init__(self, server: Server, who: str) -> None:
        self.server = server
        self.who = who
        self.is_lost = False
        self.lost_at = float("inf")
        self._connection = Connection(server.node, server.listener.served)
        self._connection.connection_made(_Wire(self))  # type: ignore[arg-type]
        self._asked: deque[tuple[Exchange, asyncio.Future[Any], int]] = deque()
        self._correlation_id = 0

    async def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request and return the answer. Raises Lost."""
        exchange = Exchange(self.who, request, self, self.server.life)
        await asyncio.sleep(self.server.latency())
        if self.is_lost or self.server.is_over:
            raise Lost
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        exchange.arrived = self.server.time.seconds
        self.server.audit.arrived(exchange)
        self._asked.append((exchange, answer, version))
        self._correlation_id += 1
        self._connection.data_received(request_frame(request, version, self._correlation_id, self.who))
        found = await answer
        await asyncio.sleep(self.server.latency())
        if self.is_lost:
            raise Lost
        return found

    def received(self, frame: bytes) -> None:
        """Take an answer of the server."""
        if self.is_lost or self.server.is_over:
            return
        exchange, answer, version = self._asked.popleft()
        body = frame[4:]
        _, at = read_response_header(body, exchange.request.API_KEY, version)
        exchange.answer = decode(exchange.request.response_type(), version, body, at)
        exchange.sent = self.server.time.seconds
        try:
            self.server.audit.answered(exchange)
        except BaseException as problem:
            self.server.report(problem)
            return
        if not answer.done():
            answer.set_result(exchange.answer)

    def lose(self) -> None:
        """Lose the connection: the server notices at once."""
        if self.is_lost:
            return
        self.is_lost = True
        self.lost_at = self.server.time.seconds
        self.forget()
        if not self.server.is_over:
            self._connection.connection_lost(None)

    def forget(self) -> None:
        """Give up what is asked and not answered."""
        self.is_lost = True
        self.lost_at = min(self.lost_at, self.server.time.seconds)
        while self._asked:
            exchange, answer, _ = self._asked.popleft()
            self.server.audit.lost(exchange)
            if not answer.done():
                answer.set_exception(Lost())
                answer.exception()
