"""A client's connection to the simulated node: real frames and the real connection, a network of timers.

A connection may be lost before a request arrives, while it is being served, or before its answer arrives. A
request that was on its way may still arrive when its client has long gone on elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.server.connection import Connection
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request, Response

if TYPE_CHECKING:
    from tests.simulation.transactions.life import TransactionLife

ResponseT = TypeVar("ResponseT", bound=Response)

FORGOTTEN_SECONDS = 120.0
"""Time after which a request without an answer is a violation, on a disk that works."""
LATE_SECONDS = 3.0


class Lost(Exception):
    """The connection was lost: it is not known whether the request was served.

    `may_arrive`: it may arrive at the server later.
    """

    def __init__(self, *, may_arrive: bool = False) -> None:
        super().__init__()
        self.may_arrive = may_arrive


class Link:
    """One connection, with one request at a time. It is the transport of the server's end."""

    def __init__(self, life: TransactionLife, name: str, *, is_safe: bool = False) -> None:
        """`is_safe`: it is not lost while the server runs."""
        self._life = life
        self._is_safe = is_safe
        self._name = name
        self._random = life.world.random
        self._received = bytearray()
        self._reply: asyncio.Future[bytes] | None = None
        self._is_lost = False
        self._connection = Connection(life.node, life.listener.served)
        self._connection.connection_made(self)  # type: ignore[arg-type]
        life.links.append(self)

    async def ask(self, request: Request[ResponseT], version: int, *, may_be_late: bool = False) -> ResponseT:
        """Send a request and return its response. Raises Lost.

        `may_be_late`: if the connection is lost, the request may arrive afterwards.
        """
        journal = self._life.world.journal
        journal.trace(f"{self._name} {version} {request!r}")
        frame = request_frame(request, version, 7, self._name)
        await self._travel()
        if self._breaks():
            is_late = may_be_late and self._random.random() < 0.5
            if is_late:
                journal.counts["late requests"] += 1
                delay = self._random.random() ** 2 * LATE_SECONDS
                self._life.later(delay, lambda: self._arrive_late(frame))
            raise Lost(may_arrive=is_late)
        self._reply = asyncio.get_running_loop().create_future()
        self._connection.data_received(frame)
        if self._breaks():
            raise Lost
        answer = await self._answer(request)
        await self._travel()
        if self._breaks():
            raise Lost
        _, at = read_response_header(answer, request.API_KEY, version)
        response = decode(request.response_type(), version, answer, at)
        journal.trace(f"{self._name} -> {response!r}")
        return response

    async def _answer(self, request: Request[Any]) -> bytes:
        assert self._reply is not None
        world = self._life.world
        while True:
            done, _ = await asyncio.wait([self._reply], timeout=FORGOTTEN_SECONDS)
            if done:
                return self._reply.result()
            if world.time.seconds - world.disk.refused_at > FORGOTTEN_SECONDS:
                world.journal.report(f"{self._name} waits forever for {request!r}")
                raise Lost

    def _arrive_late(self, frame: bytes) -> None:
        """Let a request arrive that its client has given up: nobody hears the answer."""
        Link(self._life, f"{self._name}, late").deliver(frame)

    def deliver(self, frame: bytes) -> None:
        """Let a request arrive."""
        self._connection.data_received(frame)

    def _breaks(self) -> bool:
        """Return whether the connection is lost, perhaps just now."""
        if not self._is_safe and self._random.random() < self._life.world.plan.lost_share / 3:
            self.lose()
        return self._is_lost

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.random() ** 2 * self._life.world.plan.latency_seconds)

    def lose(self) -> None:
        """Lose the connection."""
        if not self._is_lost:
            self._is_lost = True
            self._connection.connection_lost(None)
            self._end_reply()

    def _end_reply(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(Lost())

    # --- the server's transport ---

    def write(self, data: bytes) -> None:
        """Take bytes from the server."""
        self._received += data
        while len(self._received) >= 4 + int.from_bytes(self._received[:4]):
            end = 4 + int.from_bytes(self._received[:4])
            frame = bytes(self._received[4:end])
            del self._received[:end]
            if self._reply is not None and not self._reply.done():
                self._reply.set_result(frame)
            if len(self._received) < 4:
                return

    def close(self) -> None:
        """Note that the server closes the connection, which it has no reason for."""
        if not (self._is_lost or self._life.is_ending or self._life.world.disk.is_off):
            self._life.world.journal.report(f"the connection of {self._name} was closed by the server")
        self._is_lost = True
        self._end_reply()

    abort = close

    def pause_reading(self) -> None:
        """Do nothing: a client here sends one request at a time."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: clients here read."""
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        """Return the client's address."""
        return ("10.0.0.1", 5000) if name == "peername" else None
