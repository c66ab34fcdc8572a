"""One client connection: frames in, responses out, in the order of the requests.

Requests of one connection may complete in any order (a fetch waits, a commit does not). Their responses are
sent in the order of the requests, and all that are ready at the end of a loop iteration go into one write. An
invalid request closes its connection, after a log line with the reason, and affects nothing else. So does an
unexpected exception (`headgate.runtime.failures`).

What a connection may hold is bounded. No request is served while more than MOST_UNSENT_BYTES of responses are
unsent, while the client does not read, or while many requests are pending. The requests then stay undecoded,
the socket is not read, and both resume when responses were sent. Incomplete requests of all connections
together are bounded by `headgate.server.request_memory`, unread responses by
`headgate.server.response_memory`. Many requests that arrive together are served a few in each
iteration of the loop (`headgate.server.backlog`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar, cast

from headgate.api.contract import Node, RequestSteps
from headgate.api.repeats import Found, Habit
from headgate.domain.errors import ErrorCode
from headgate.runtime.asking import NOW
from headgate.runtime.failures import Where, unexpected
from headgate.security.authorizer import Authorizer
from headgate.security.principal import ANONYMOUS, Principal
from headgate.server.access import checking
from headgate.server.calls import Client, Line, PendingCall, Route
from headgate.server.long_requests import LongRequests
from headgate.server.peers import is_peer_gone
from headgate.server.request_work import answering, making
from headgate.server.routes import Routes, read_nothing
from headgate.server.served import Served
from headgate.wire.errors import WireError
from headgate.wire.framing import FrameReader
from headgate.wire.message import Message
from headgate.wire.pieces import Frames, LongFrame

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

MOST_REQUESTS_WAITING: Final = 4096
"""Small repeated requests that a connection may have pending."""
MOST_OTHERS_WAITING: Final = 64
"""Pending requests at which a large request or one seen for the first time waits: its response may have any
size. Kafka handles one request of a connection at a time."""
SMALL_BYTES: Final = 4096
"""A repeated request up to this size has a small response, unless its previous response was large."""
MOST_UNSENT_BYTES: Final = 1 << 20
"""Bytes of responses that may be unsent, behind one that is not ready, before requests wait."""
SERVED_TOGETHER_BYTES: Final = 1 << 16
"""Bytes of repeated requests that are served together before the limits are checked again."""
MOST_PARKED: Final = 8
"""Pending long polls of a connection at which no other request is decoded."""
SLICE_SECONDS: Final = 0.001
"""Time for which requests that arrived together are served in one slice."""
MOST_IN_TURN: Final = 500
"""Repeated requests in this loop iteration at which requests that arrived together wait for a later one."""


def _is_small(found: Found, frame: bytes) -> bool:
    """Return whether a repeated request has a small response."""
    return len(frame) <= SMALL_BYTES and not found[1].has_long_response


class Connection(asyncio.Protocol, Client):
    """The server's end of one TCP connection."""

    def __init__(self, node: Node, served: Served, principal: Principal = ANONYMOUS) -> None:
        self.line = Line(self, principal, served.metrics, served.watch)
        self._policy = None if served.authorizer.allows_everything else served.authorizer
        """The access policy; None if it allows everything."""
        self.metrics = served.metrics
        self.watch = served.watch
        self._node = node
        self._repeats = served.repeats
        self._habit = Habit(principal)
        self._outbox = served.outbox
        self._turn = served.turn
        self._open_connections = served.open_connections
        self._limits = served.limits
        self._refusals = served.refusals
        self._memory = served.memory
        self._responses = served.responses
        self._backlog = served.backlog
        self.held_request_bytes = 0
        """Bytes of this connection that `RequestMemory` counts."""
        self._unserved: deque[bytes] = deque()
        """Frames that are not served yet. The socket is not read while there are any."""
        self._unserved_bytes = 0
        self._is_going_on = False
        """Whether a slice for the unserved frames is scheduled."""
        self._stuck_bytes = 0
        """Bytes in the transport's write buffer at the last idle check."""
        self._frames = FrameReader(node.settings["socket.request.max.bytes"])
        self._requests = served.requests
        self._counted_requests = 0
        """Requests that `take_requests` has returned."""
        self._routes = Routes(served.apis)
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None
        """The closed transport, which may hold bytes that the client does not read."""
        self._long = LongRequests(self, served.work, served.large)
        self._is_write_paused = False
        self._is_read_paused = False
        self.is_short_of_memory = False
        """Whether the rest of an incomplete request is left in the socket."""
        self._has_place = True
        """Whether the connection is within `max.connections`."""
        self._is_stopped = False
        self._is_receiving = False

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, and close it if a limit is exceeded."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.line.client_host = f"/{peer[0]}"
        self._peer = f"{peer[0]}:{peer[1]}"
        self._open_connections.add(self)
        self.metrics.connections_opened += 1
        self._has_place = self._limits.opened(self)
        if not self._has_place:
            self._long.hold()  # requests that are read nevertheless are not served
            asyncio.get_running_loop().call_soon(self.balance)  # uvloop starts reading after this method
        connected = transport.get_extra_info("socket")
        descriptor = -1 if connected is None else connected.fileno()
        if not (self._limits.may_stay(peer[0]) and self._limits.leaves_descriptors(descriptor)):
            self.metrics.connections_rejected += 1
            self._close()
            return
        logger.debug("connection opened", extra={"peer": self._peer})

    def eof_received(self) -> None:
        """Close a connection whose client sends no more, as Kafka does. Ready responses are sent first."""
        self._turn.serve()
        if self._transport is not None:
            self.send()
            self._close()

    def connection_lost(self, reason: Exception | None) -> None:
        """Drop all requests of the lost connection."""
        self._transport = self._closing = None
        self._responses.gone(self)
        self._requests.take(self)
        if self in self._open_connections:
            self._open_connections.discard(self)
            self._limits.closed(self, self.line.client_host[1:])
        self._give_up_waiting()
        self.line.outgoing.clear()
        logger.debug("connection closed", extra={"peer": self._peer, "reason": reason or "by the client"})

    def data_received(self, data: bytes) -> None:
        """Serve the requests in `data`, as far as the limits allow."""
        self.line.last_heard = perf_counter()
        try:
            frame = self._frames.only_frame(data)
            if frame is not None and not (self._long.is_busy or self._unserved):
                found = self._repeats.find(frame, self._habit)
                if found is not None and (
                    not self.line.waiting or not self._has_to_wait(is_small=_is_small(found, frame))
                ):
                    self._turn.add(self.line, found, frame)  # nearly always: nothing to decode
                    return
                if found is None and not self._has_to_wait(is_small=False):
                    self._receive_new(frame)
                    return
            self._receive((frame,) if frame is not None else self._frames.feed(data))
        except WireError as error:
            self.refuse(str(error))
        except Exception as failure:
            self.refuse_unexpected(failure)

    def _receive(self, frames: Sequence[bytes]) -> None:
        """Accept frames, and serve as many as the limits allow."""
        for frame in frames:
            self._unserved.append(frame)
            self._unserved_bytes += len(frame)
        self._is_receiving = True
        try:
            if len(frames) > 1 and (self._backlog.is_busy or self._turn.count > MOST_IN_TURN):
                self._wait_for_turn()
            else:
                self._serve()
        finally:
            self._is_receiving = False
        self._received()

    def _receive_new(self, frame: bytes) -> None:
        """Serve a request that is not a repeated one, while no other one is unserved."""
        self._is_receiving = True
        try:
            self._read(frame)
            self.balance()
        finally:
            self._is_receiving = False
        self._received()

    def _received(self) -> None:
        """Count what is held of the requests that arrived, and send the ready responses."""
        held = self._unserved_bytes + self._frames.pending_bytes + self._long.held_bytes
        if held or self.held_request_bytes:
            self._memory.note(self, held)
        if self.line.outgoing:
            self.send()  # in this iteration of the loop, not the next one

    def pause_writing(self) -> None:
        """Stop reading: the client does not read its responses."""
        self._is_write_paused = True
        self.balance()
        self._responses.note(self)

    def resume_writing(self) -> None:
        """Resume reading: the client has read responses."""
        self._is_write_paused = False
        self._responses.gone(self)
        self.balance()

    # --- requests ---

    def _serve(self) -> None:
        """Serve requests in order. Repeated ones are served at the end of the loop iteration."""
        find = self._repeats.find
        turn = self._turn
        unserved = self._unserved
        together_bytes = 0
        slice_end = perf_counter() + SLICE_SECONDS if len(unserved) > 1 else 0.0
        while unserved:
            if self._transport is None:
                return
            frame = unserved[0]
            found = find(frame, self._habit)
            if self._has_to_wait(is_small=found is not None and _is_small(found, frame)):
                break
            unserved.popleft()
            self._unserved_bytes -= len(frame)
            if found is None:
                self._read(frame)
            else:
                turn.add(self.line, found, frame)
                together_bytes += len(frame)
                if together_bytes <= SERVED_TOGETHER_BYTES and not found[1].has_long_response:
                    continue  # one with a long response is served at once, so that its size is known
                turn.serve()
                together_bytes = 0
            if unserved and perf_counter() > slice_end:
                self._wait_for_turn()
                return
        self.balance()

    def _wait_for_turn(self) -> None:
        """Serve the unserved requests in a later iteration of the loop."""
        if self._unserved and not self._is_going_on:
            self._is_going_on = True
            self._backlog.add(self._go_on)
        self.balance()

    def _has_to_wait(self, *, is_small: bool) -> bool:
        """Return whether a limit forbids serving the next request now."""
        if self.line.unsent_bytes > MOST_UNSENT_BYTES:
            self.send()
        return (
            self._is_write_paused
            or self._is_stopped
            or self._long.is_busy
            or self.line.unsent_bytes > MOST_UNSENT_BYTES
            or len(self.line.waiting) >= (MOST_REQUESTS_WAITING if is_small else MOST_OTHERS_WAITING)
            or (not is_small and len(self.line.when_lost) >= MOST_PARKED)
        )

    def _go_on(self) -> None:
        """Serve the requests that waited."""
        self._is_going_on = False
        if self._transport is None:
            return
        try:
            self._receive(())
        except WireError as error:
            self.refuse(str(error))
        except Exception as failure:
            self.refuse_unexpected(failure)

    def _read(self, frame: bytes) -> None:
        if self.line.waiting:
            self._turn.serve()  # requests before this one are served first
        route, correlation_id = self._routes.find(frame)
        call = self.line.add(route, correlation_id)
        if route.read is read_nothing:
            call.answer_unsupported()
        elif self._long.is_busy:
            self._long.read_again(call, frame)  # an earlier repeated request is served in steps
        else:
            self.handle(call, frame)

    def handle(self, call: PendingCall, frame: bytes) -> None:
        """Decode a request and pass it to its API."""
        route = call.route
        if len(frame) > route.api.read_aside_bytes:
            self._long.read_aside(call, frame)
            return
        outer = self.watch.begin(call)
        try:
            self.decide(call, frame, route.read(frame, route.body_at))
        finally:
            self.watch.end(outer)

    def decide(self, call: PendingCall, frame: bytes, request: Any) -> None:
        """Pass a request to its API if the principal is authorized."""
        if self._policy is None:
            self._hand_over(call, frame, request)
        else:
            self._check(self._policy, call, frame, request)

    def _check(self, policy: Authorizer, call: PendingCall, frame: bytes, request: Any) -> None:
        """Pass a request to its API, or answer it with the error of the denied resource."""
        is_at_once = True

        def on_checked(error: ErrorCode | None) -> None:
            if error is not None:
                call.route.api.deny(self._node, call, request, error)
            else:  # a check in several slices is not remembered: the policy may have changed meanwhile
                self._hand_over(call, frame if is_at_once else b"", request)

        needs = call.route.api.needs(self._node, call, request)
        self.occupy(call, checking(policy, self.line.principal, needs), on_checked)
        is_at_once = False

    def _hand_over(self, call: PendingCall, frame: bytes, request: Any) -> None:
        route = call.route
        NOW.asker = call
        try:
            response = route.api.handle(self._node, call, request)
            if response is not None:
                call.answer(response)
            if route.api.repeat is not None and frame:
                self._repeats.learn(self._node, frame, call, request, self._habit)
        except Exception as failure:
            self.refuse_failed(route, failure)
        NOW.asker = None

    # --- requests that may take long ---

    def serve_in_steps(self, call: PendingCall, steps: RequestSteps[Message]) -> None:
        """Answer a request with the result of the steps. Later requests wait until the steps are done."""
        self.occupy(call, answering(call, steps), lambda answer: answer())

    def make_aside(self, call: PendingCall, make: Callable[[], Message]) -> None:
        """Answer a request with a response that is made and encoded in a thread."""
        self.occupy(call, making(call, make), call.answer_frame)

    def occupy(
        self, call: PendingCall, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]
    ) -> None:
        """Run the steps, then call `then` with their result. Later requests wait until the steps are done."""
        self._long.run(call, steps, then)

    def read_again(self, call: PendingCall, frame: bytes) -> None:
        """Decode and handle a queued request that cannot be served as a repeated one."""
        self._long.read_again(call, frame)

    def refuse_failed(self, route: Route, failure: Exception, where: Where = Where.CONNECTION) -> None:
        """Close the connection because a request failed with an unexpected exception."""
        name = route.api.name
        unexpected(where, f"{name} failed", failure, peer=self._peer, version=route.api_version)
        self.refuse(f"an unexpected failure of ours in {name}")

    def refuse_unexpected(self, failure: Exception) -> None:
        """Close the connection because of an unexpected exception outside of a single request."""
        unexpected(Where.CONNECTION, "a connection failed", failure, peer=self._peer)
        self.refuse("an unexpected failure of ours")

    def refuse(self, reason: str) -> None:
        """Close the connection and log why, at a limited rate. Ready responses are sent first."""
        if self._transport is None:
            return
        self._turn.serve()
        if self._refusals.is_time():
            skipped = self._refusals.take_skipped()
            not_logged = {"not_logged": skipped} if skipped else {}
            logger.warning("connection closed", extra={"peer": self._peer, "reason": reason, **not_logged})
        self.metrics.connections_refused += 1
        self.send()
        self._close()

    def _close(self) -> None:
        """Close the transport, which first sends its write buffer."""
        if self._transport is not None:
            self._closing = self._transport
            self._transport.close()
            self._transport = None
        self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        """Drop all requests of a closed connection, with what was received of an incomplete one.

        The connection itself remains in memory until its cycles are collected, which may take very long.
        """
        self._unserved.clear()
        self._unserved_bytes = 0
        self._frames.drop()
        self._habit.rest = None
        self._long.give_up()
        self._memory.gone(self)
        self.line.give_up()

    def close_idle(self) -> None:
        """Close the connection if it is idle, if the client does not read, or if the client is gone."""
        transport = self._transport or self._closing
        if transport is None:
            return
        stuck_before, self._stuck_bytes = self._stuck_bytes, transport.get_write_buffer_size()
        if self._stuck_bytes:
            if self._stuck_bytes == stuck_before:
                logger.debug("connection closed", extra={"peer": self._peer, "reason": "it reads nothing"})
                transport.abort()
        elif not self.line.waiting:
            logger.debug("connection closed", extra={"peer": self._peer, "reason": "idle"})
            self._close()
        elif self._is_read_paused and is_peer_gone(transport):
            logger.debug("connection closed", extra={"peer": self._peer, "reason": "its client is gone"})
            transport.abort()

    def unread_bytes(self) -> int:
        """Return the bytes in the write buffer; see `headgate.server.response_memory`."""
        transport = self._transport or self._closing
        return 0 if transport is None else transport.get_write_buffer_size()

    def close_unread(self) -> None:
        """Abort the connection, whose client does not read; see `headgate.server.response_memory`."""
        transport = self._transport or self._closing
        if transport is not None:
            self._give_up_waiting()
            self._transport = None
            self._closing = transport
            transport.abort()

    @property
    def client(self) -> tuple[str, str]:
        """The client id of the last request header that was decoded, and the client's address."""
        return self._routes.client_id or "", self.line.client_host[1:]

    def take_requests(self) -> int:
        """Return the number of requests that arrived since the last call."""
        before, self._counted_requests = self._counted_requests, self._frames.frame_count
        return self._counted_requests - before

    def stop_reading(self) -> None:
        """Accept no more requests."""
        self._is_stopped = True
        self.balance()

    def close(self) -> None:
        """Send the ready responses and close."""
        if self._transport is not None:
            self.send()
            self._close()

    # --- responses ---

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""
        return self._transport is not None

    def send_ready(self) -> None:
        """Queue the ready responses at the head of the line. They leave at the end of this loop iteration."""
        if self.line.take_ready() and not self._is_receiving:
            self._outbox.add(self)

    def send(self) -> None:
        """Send all queued responses in one write."""
        if self.line.outgoing:
            self.write(self.line.take_outgoing())

    def write(self, frames: Frames) -> None:
        """Send encoded responses whose predecessors were sent."""
        if self._transport is not None:
            if isinstance(frames, LongFrame):
                self._transport.writelines(frames.pieces)
            else:
                self._transport.write(frames)
        if self._is_read_paused:
            if self._is_write_paused:
                self._responses.note(self)
            self.balance()

    def take_place(self) -> None:
        """Start reading: the number of connections is within its limit now."""
        self._has_place = True
        self._long.release()
        self.balance()

    def close_short(self) -> None:
        """Close a connection whose incomplete request holds memory that other connections need."""
        self.refuse("a request that did not end, while memory for requests was short")

    def balance_memory(self, *, is_short: bool) -> None:
        """Leave the rest of an incomplete request in the socket, or continue to read it."""
        self.is_short_of_memory = is_short
        self.balance()

    def balance(self) -> None:
        """Read from the socket, unless the client does not read or too many of its requests are pending."""
        if self._transport is None:
            return
        is_to_pause = (
            self._is_write_paused
            or self._is_stopped
            or not self._has_place
            or self.is_short_of_memory
            or len(self.line.waiting) > MOST_REQUESTS_WAITING
            or bool(self._unserved)
        )
        if self._unserved and not self._is_receiving and not self._is_going_on:
            self._is_going_on = True
            self._backlog.add(self._go_on)
        if is_to_pause and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()
        elif not is_to_pause and self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()
