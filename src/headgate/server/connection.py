"""One client connection: frames in, responses out, in the order of the requests.

Requests of a connection may be answered out of order (a fetch waits, a commit does not); their responses
leave in order, all that are ready at the end of a turn of the loop in one write. What a client gets wrong
closes that client's connection, after a log line that says what was wrong, and touches nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import cast

from headgate.api.contract import Api, Node
from headgate.api.k18_api_versions import unsupported
from headgate.server.metrics import Metrics
from headgate.wire.codec import decode
from headgate.wire.errors import WireError
from headgate.wire.framing import (
    API_VERSIONS_KEY,
    FrameReader,
    read_request_header,
    response_frame,
)
from headgate.wire.message import Message

logger = logging.getLogger(__name__)

MOST_REQUESTS_WAITING = 4096
"""How many requests a connection may have unanswered before its socket is left unread."""


class PendingCall:
    """One request of a connection, from its frame to its response."""

    __slots__ = (
        "_api",
        "_connection",
        "_correlation_id",
        "_started",
        "api_version",
        "client_host",
        "client_id",
        "frame",
        "is_done",
    )

    def __init__(
        self, connection: Connection, api: Api, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self._connection = connection
        self._api = api
        self._correlation_id = correlation_id
        self._started = time.perf_counter()
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = connection.client_host
        self.frame = b""
        self.is_done = False

    def answer(self, response: Message) -> None:
        """Send the response; called once."""
        self._finish(response_frame(self._correlation_id, self._api.key, self.api_version, response))

    def answer_unsupported(self) -> None:
        """Tell a client that asked for an unknown version of ApiVersions, in version 0, which there are."""
        self._finish(response_frame(self._correlation_id, self._api.key, 0, unsupported(self._api)))

    def no_answer(self) -> None:
        """Finish a request that expects no response."""
        self._finish(b"")

    def disconnect(self, reason: str) -> None:
        """Close the connection, saying why in the log."""
        self._connection.refuse(reason)

    def _finish(self, frame: bytes) -> None:
        if self.is_done:
            raise RuntimeError(f"a second answer to one {self._api.name} request")
        self.is_done = True
        self.frame = frame
        self._connection.metrics.observe_request(self._api.key, time.perf_counter() - self._started)
        self._connection.send_ready()


class Connection(asyncio.Protocol):
    """The server's end of one TCP connection."""

    def __init__(
        self, node: Node, apis: dict[int, Api], metrics: Metrics, open_connections: set[Connection]
    ) -> None:
        self.metrics = metrics
        self.client_host = ""
        """The client's address as group descriptions show it: a slash before the address."""
        self._node = node
        self._apis = apis
        self._open_connections = open_connections
        self._frames = FrameReader(node.settings["socket.request.max.bytes"])
        self._waiting: deque[PendingCall] = deque()
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_stopped = False
        self.last_heard = self._loop.time()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is none by inheritance
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.client_host = f"/{peer[0]}"
        self._peer = f"{peer[0]}:{peer[1]}"
        self._open_connections.add(self)
        self.metrics.connections_opened += 1
        logger.debug("connection opened", extra={"peer": self._peer})

    def connection_lost(self, reason: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._waiting.clear()
        self._outgoing.clear()
        logger.debug("connection closed", extra={"peer": self._peer, "reason": reason or "by the client"})

    def data_received(self, data: bytes) -> None:
        self.last_heard = self._loop.time()
        try:
            for frame in self._frames.feed(data):
                if self._transport is None:
                    return
                self._serve(frame)
        except WireError as error:
            self.refuse(str(error))

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._balance()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._balance()

    # --- requests ---

    def _serve(self, frame: bytes) -> None:
        header = read_request_header(frame)
        api = self._apis.get(header.api_key)
        if api is None:
            self.refuse(f"API key {header.api_key} is not spoken here")
            return
        call = PendingCall(self, api, header.api_version, header.correlation_id, header.client_id)
        if not api.min_version <= header.api_version <= api.max_version:
            if api.key != API_VERSIONS_KEY:
                self.refuse(
                    f"{api.name} version {header.api_version} is not spoken here, "
                    f"only {api.min_version} to {api.max_version}"
                )
                return
            self._waiting.append(call)
            call.answer_unsupported()
            return
        request = decode(api.request_type, header.api_version, frame, header.body_at)
        self._waiting.append(call)
        try:
            response = api.handle(self._node, call, request)
            if response is not None:
                call.answer(response)
        except Exception:
            logger.exception(
                "request failed",
                extra={"peer": self._peer, "api": api.name, "version": header.api_version},
            )
            self.refuse(f"an unexpected failure of ours in {api.name}")
            return
        if len(self._waiting) > MOST_REQUESTS_WAITING:
            self._balance()

    def refuse(self, reason: str) -> None:
        """Close the connection, saying why in the log; responses that were ready still leave."""
        if self._transport is None:
            return
        logger.warning("connection closed", extra={"peer": self._peer, "reason": reason})
        self.metrics.connections_refused += 1
        self._write()
        self._transport.close()
        self._transport = None
        self._waiting.clear()

    def close_idle(self) -> None:
        """Close a connection that has been silent for too long and waits for nothing."""
        if not self._waiting and self._transport is not None:
            logger.debug("connection closed", extra={"peer": self._peer, "reason": "idle"})
            self._transport.close()

    def stop_reading(self) -> None:
        """Take no more requests."""
        self._is_stopped = True
        self._balance()

    def close(self) -> None:
        """Send what is ready and close."""
        if self._transport is not None:
            self._write()
            self._transport.close()

    # --- responses ---

    def send_ready(self) -> None:
        """Queue the responses at the head of the line that are ready; they leave at the end of this turn."""
        waiting = self._waiting
        outgoing = self._outgoing
        if not outgoing and waiting and waiting[0].is_done:
            self._loop.call_soon(self._write)
        while waiting and waiting[0].is_done:
            outgoing.append(waiting.popleft().frame)

    def _write(self) -> None:
        outgoing = self._outgoing
        if outgoing and self._transport is not None:
            self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
        outgoing.clear()
        if self._is_read_paused:
            self._balance()

    def _balance(self) -> None:
        """Stop reading from a client that does not read its responses, or waits for too many of them."""
        if self._transport is None:
            return
        is_too_far_ahead = self._is_write_paused or len(self._waiting) > MOST_REQUESTS_WAITING
        is_to_pause = is_too_far_ahead or self._is_stopped
        if is_to_pause and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()
        elif not is_to_pause and self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()
