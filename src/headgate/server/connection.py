"""One client connection: frames in, responses out, in the order of the requests.

Requests of a connection may be answered out of order (a fetch waits, a commit does not); their responses
leave in order, all that are ready at the end of a turn of the loop in one write. What a client gets wrong
closes that client's connection, after a log line that says what was wrong, and touches nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar, cast

from headgate.api.contract import Api, Node, RequestSteps
from headgate.api.repeats import Habit, Repeats
from headgate.server.calls import PendingCall, Route
from headgate.server.loop_watch import LoopWatch
from headgate.server.metrics import Metrics
from headgate.server.request_work import RequestWork, answering, reading
from headgate.server.turn import Turn
from headgate.wire.codec import reader_for
from headgate.wire.errors import WireError
from headgate.wire.framing import (
    API_VERSIONS_KEY,
    FrameReader,
    RequestHeader,
    read_request_header,
)
from headgate.wire.message import Message

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

MOST_REQUESTS_WAITING = 4096
"""How many requests a connection may have unanswered before its socket is left unread."""


def _read_nothing(frame: bytes, at: int) -> None:
    raise AssertionError("a request in a version that is not spoken is not read")


class Outbox:
    """The connections that have responses to send, at the end of this turn of the loop at the latest."""

    __slots__ = ("_connections", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """Have the connection send what is ready."""
        if not self._connections:
            self._loop.call_soon(self.send)
        self._connections.append(connection)

    def send(self) -> None:
        """Send now what there is."""
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.send()


@dataclass(slots=True, frozen=True)
class Served:
    """What the connections of one listener share."""

    apis: dict[int, Api]
    metrics: Metrics
    turn: Turn
    watch: LoopWatch
    work: RequestWork
    open_connections: set[Connection] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)
    outbox: Outbox = field(default_factory=Outbox)


class Connection(asyncio.Protocol):
    """The server's end of one TCP connection."""

    def __init__(self, node: Node, served: Served) -> None:
        self.metrics = served.metrics
        self.watch = served.watch
        self.client_host = ""
        """The client's address as group descriptions show it: a slash before the address."""
        self._node = node
        self._apis = served.apis
        self._repeats = served.repeats
        self._habit = Habit()
        self._outbox = served.outbox
        self._turn = served.turn
        self._open_connections = served.open_connections
        self._frames = FrameReader(node.settings["socket.request.max.bytes"])
        self.waiting: deque[PendingCall] = deque()
        self.when_lost: dict[PendingCall, Callable[[], None]] = {}
        """What to do for requests that wait, if the connection is lost first."""
        self.outgoing: list[bytes | bytearray] = []
        self._routes: dict[bytes, tuple[bytes, Route]] = {}
        """By api key and version as they stand in the frame: what the last such request said of itself."""
        self._transport: asyncio.Transport | None = None
        self._work = served.work
        self._occupations = 0
        """How many requests are served in steps."""
        self._behind: list[bytes] = []
        """Requests that came behind those."""
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_stopped = False
        self._is_receiving = False
        self.last_heard = perf_counter()
        """When bytes arrived last, by the clock for durations."""

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
        self._give_up_waiting()
        self.outgoing.clear()
        logger.debug("connection closed", extra={"peer": self._peer, "reason": reason or "by the client"})

    def data_received(self, data: bytes) -> None:
        self.last_heard = perf_counter()
        frame = self._frames.only_frame(data)
        if frame is not None and not self._occupations:
            found = self._repeats.find(frame, self._habit)
            if found is not None:  # nearly always: there is nothing to read
                self._turn.add(self, found, frame)
                if len(self.waiting) > MOST_REQUESTS_WAITING:
                    self._balance()
                return
        self._is_receiving = True
        try:
            if frame is None:
                self._serve(self._frames.feed(data))
            elif self._occupations:
                self._serve((frame,))
            else:
                self._read(frame)
        except WireError as error:
            self.refuse(str(error))
        finally:
            self._is_receiving = False
        if self.outgoing:
            self.send()  # what could be answered at once leaves at once, without another turn of the loop

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._balance()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._balance()

    # --- requests ---

    def _serve(self, frames: Sequence[bytes]) -> None:
        """Serve requests in their order; those that came before are served at the end of the turn."""
        find = self._repeats.find
        turn = self._turn
        waiting = self.waiting
        for frame in frames:
            if self._transport is None:
                return
            if self._occupations:
                self._behind.append(frame)
                continue
            found = find(frame, self._habit)
            if found is None:
                self._read(frame)
                continue
            turn.add(self, found, frame)
        if len(waiting) > MOST_REQUESTS_WAITING or self._behind:
            self._balance()

    def _read(self, frame: bytes) -> None:
        if self.waiting:
            self._turn.serve()  # what came before this one comes first
        # A client says the same of itself in every header: only the correlation id has to be read again.
        known = self._routes.get(frame[:4])
        if known is not None and frame[8 : known[1].body_at] == known[0]:
            route = known[1]
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        else:
            header = read_request_header(frame)
            correlation_id = header.correlation_id
            wanted = self._find_route(header)
            if wanted is None:
                return
            route = wanted
            self._routes[frame[:4]] = (frame[8 : route.body_at], route)
        call = PendingCall(self, route, correlation_id)
        self.waiting.append(call)
        self._handle(call, frame)
        if len(self.waiting) > MOST_REQUESTS_WAITING:
            self._balance()

    def _handle(self, call: PendingCall, frame: bytes) -> None:
        """Read a request that stands in line, and hand it to its API."""
        route = call.route
        if len(frame) > route.api.read_aside_bytes:
            self.occupy(call, reading(call, frame), lambda request: self._decide(call, frame, request))
            return
        outer = self.watch.begin(call)
        try:
            self._decide(call, frame, route.read(frame, route.body_at))
        finally:
            self.watch.end(outer)

    def _decide(self, call: PendingCall, frame: bytes, request: Any) -> None:
        """Hand a request to its API."""
        route = call.route
        try:
            response = route.api.handle(self._node, call, request)
            if response is not None:
                call.answer(response)
            if route.api.repeat is not None:
                self._repeats.learn(self._node, frame, route, request)
        except Exception:
            self.refuse_failed(route)

    # --- requests that may take long ---

    def serve_in_steps(self, call: PendingCall, steps: RequestSteps[Message]) -> None:
        """Answer a request with what the steps return; later requests of the connection wait for it."""
        self.occupy(call, answering(call, steps), lambda answer: answer())

    def occupy(
        self, call: PendingCall, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]
    ) -> None:
        """Drive work of a request. What comes behind it is kept until that is done."""
        self._occupations += 1

        def on_done(result: ResultT) -> None:
            self._occupations -= 1
            if self._transport is None:
                return
            try:
                then(result)
            except Exception:
                self.refuse_failed(call.route)
            self._serve_behind()

        def on_failed(failure: Exception) -> None:
            self._occupations -= 1
            if isinstance(failure, WireError):
                self.refuse(str(failure))
            else:
                self.refuse_failed(call.route)

        self._work.run(steps, call, on_done, on_failed)

    def _serve_behind(self) -> None:
        """Go on with the requests that were kept, if nothing keeps them any longer."""
        if not self._behind or self._occupations:
            return
        frames, self._behind = self._behind, []
        try:
            self._serve(frames)
        except WireError as error:
            self.refuse(str(error))
        if self._is_read_paused:
            self._balance()

    def read_again(self, call: PendingCall, frame: bytes) -> None:
        """Read a request that stands in line and cannot be served as it was before."""
        if self._transport is None:
            return
        try:
            self._handle(call, frame)
        except WireError as error:
            self.refuse(str(error))

    def refuse_failed(self, route: Route) -> None:
        """Close the connection over a request that failed for no fault of the client's."""
        name = route.api.name
        logger.exception(
            "request failed", extra={"peer": self._peer, "api": name, "version": route.api_version}
        )
        self.refuse(f"an unexpected failure of ours in {name}")

    def _find_route(self, header: RequestHeader) -> Route | None:
        """Where a request goes; None for one that is answered here, or ends the connection."""
        api = self._apis.get(header.api_key)
        if api is None:
            self.refuse(f"API key {header.api_key} is not spoken here")
            return None
        version = header.api_version
        if api.min_version <= version <= api.max_version:
            read = reader_for(api.request_type, version)
            return Route(api, version, header.client_id, header.body_at, read)
        if api.key == API_VERSIONS_KEY:
            # A route without a reader: nothing of the request is read.
            call = PendingCall(
                self, Route(api, version, header.client_id, 0, _read_nothing), header.correlation_id
            )
            self.waiting.append(call)
            call.answer_unsupported()
        else:
            self.refuse(
                f"{api.name} version {version} is not spoken here, "
                f"only {api.min_version} to {api.max_version}"
            )
        return None

    def refuse(self, reason: str) -> None:
        """Close the connection, saying why in the log; responses that were ready still leave."""
        if self._transport is None:
            return
        self._turn.serve()
        logger.warning("connection closed", extra={"peer": self._peer, "reason": reason})
        self.metrics.connections_refused += 1
        self.send()
        self._transport.close()
        self._transport = None
        self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        """Nobody is there for the answers any more."""
        self.waiting.clear()
        self._behind.clear()
        actions, self.when_lost = self.when_lost, {}
        for action in actions.values():
            action()

    def close_idle(self) -> None:
        """Close a connection that has been silent for too long and waits for nothing."""
        if not self.waiting and self._transport is not None:
            logger.debug("connection closed", extra={"peer": self._peer, "reason": "idle"})
            self._transport.close()

    def stop_reading(self) -> None:
        """Take no more requests."""
        self._is_stopped = True
        self._balance()

    def close(self) -> None:
        """Send what is ready and close."""
        if self._transport is not None:
            self.send()
            self._transport.close()

    # --- responses ---

    def send_ready(self) -> None:
        """Queue the responses at the head of the line that are ready; they leave at the end of this turn."""
        if self.take_ready() and not self._is_receiving:
            self._outbox.add(self)

    def take_ready(self) -> bool:
        """Queue the responses at the head of the line that are ready; whether there were none before."""
        waiting = self.waiting
        outgoing = self.outgoing
        is_first = not outgoing
        while waiting and waiting[0].is_done:
            outgoing.append(waiting.popleft().frame)
        return is_first and bool(outgoing)

    def send(self) -> None:
        """Write all responses that are queued, in one piece."""
        outgoing = self.outgoing
        if outgoing:
            self.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
            outgoing.clear()

    def write(self, frames: bytes | bytearray) -> None:
        """Write responses whose turn it is."""
        if self._transport is not None:
            self._transport.write(frames)
        if self._is_read_paused:
            self._balance()

    def _balance(self) -> None:
        """Stop reading from a client that does not read its responses, or waits for too many of them."""
        if self._transport is None:
            return
        is_too_far_ahead = (
            self._is_write_paused or bool(self._behind) or len(self.waiting) > MOST_REQUESTS_WAITING
        )
        is_to_pause = is_too_far_ahead or self._is_stopped
        if is_to_pause and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()
        elif not is_to_pause and self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()
