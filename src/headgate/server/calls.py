"""Pending requests of a connection: each single one (`PendingCall`) and all of them in order (`Line`).

Responses are sent in the order of the requests. `Client` is what a call needs of its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headgate.api.contract import RequestSteps
from headgate.api.k18_api_versions import unsupported
from headgate.api.registration import Api
from headgate.runtime.asking import NOW
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.loop_watch import LoopWatch
from headgate.security.principal import Principal
from headgate.server.metrics import Metrics
from headgate.wire.framing import response_frame
from headgate.wire.message import Message
from headgate.wire.pieces import Frames, joined
from headgate.wire.reading import Reader

ResultT = TypeVar("ResultT")

_LONGEST_CLIENT_TOLD: Final = 100


class Route(NamedTuple):
    """What a request header selects: the API, the version, the client id and the decoder of the body."""

    api: Api
    api_version: int
    client_id: str | None
    body_at: int
    read: Reader[Any]


class Client(Protocol):
    """A connection, as its calls use it."""

    __slots__ = ()

    def occupy(
        self, call: PendingCall, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]
    ) -> None:
        """Run the steps, then call `then` with their result. Later requests wait until the steps are done."""
        ...

    def serve_in_steps(self, call: PendingCall, steps: RequestSteps[Message]) -> None:
        """Answer a request with the result of the steps. Later requests wait until the steps are done."""
        ...

    def make_aside(self, call: PendingCall, make: Callable[[], Message]) -> None:
        """Answer a request with a response that is made and encoded in a thread."""
        ...

    def read_again(self, call: PendingCall, frame: bytes) -> None:
        """Decode and handle a queued request that cannot be served as a repeated one."""
        ...

    def refuse(self, reason: str) -> None:
        """Close the connection and log the reason."""
        ...

    def refuse_failed(self, route: Route, failure: Exception, where: Where) -> None:
        """Close the connection because a request failed with an unexpected exception."""
        ...

    def send_ready(self) -> None:
        """Queue the ready responses at the head of the line. They leave at the end of this loop iteration."""
        ...

    def send(self) -> None:
        """Send all queued responses in one write."""
        ...

    def write(self, frames: Frames) -> None:
        """Send encoded responses whose predecessors were sent."""
        ...


class Line:
    """The pending calls of one connection in their order, and the responses that are queued for sending."""

    __slots__ = (
        "client",
        "client_host",
        "last_heard",
        "metrics",
        "outgoing",
        "principal",
        "unsent_bytes",
        "waiting",
        "watch",
        "when_closed",
        "when_lost",
    )

    def __init__(self, client: Client, principal: Principal, metrics: Metrics, watch: LoopWatch) -> None:
        self.client = client
        self.principal = principal
        """The principal that sends the requests."""
        self.metrics = metrics
        self.watch = watch
        self.client_host = ""
        """The client's address as group descriptions show it: a slash and the address."""
        self.last_heard = perf_counter()
        """Time at which bytes arrived last, by `perf_counter`, in seconds."""
        self.waiting: deque[PendingCall] = deque()
        self.when_lost: dict[PendingCall, Callable[[], None]] = {}
        """Actions of pending requests, called if the connection is lost before the answer."""
        self.when_closed: dict[str, Callable[[], None]] = {}
        """Actions by name, called when the connection is lost."""
        self.outgoing: list[Frames] = []
        self.unsent_bytes = 0
        """Bytes of responses that are ready and not yet passed to the transport."""

    def add(self, route: Route, correlation_id: int) -> PendingCall:
        """Append a request to the line."""
        call = PendingCall(self, route, correlation_id)
        self.waiting.append(call)
        return call

    def answer_only(self, frame: Frames) -> bool:
        """Send the response of the only pending call. Return False, and do nothing, if there are others."""
        if len(self.waiting) != 1 or self.outgoing:
            return False
        self.waiting.clear()
        self.client.write(frame)
        return True

    def answered(self, call: PendingCall, frame: Frames) -> None:
        """Store the response of a call. It is sent after the responses before it."""
        call.is_done = True
        call.frame = frame
        self.unsent_bytes += len(frame)

    def take_ready(self) -> bool:
        """Queue the ready responses at the head of the line. Return whether the queue was empty before."""
        waiting = self.waiting
        outgoing = self.outgoing
        is_first = not outgoing
        while waiting and waiting[0].is_done:
            outgoing.append(waiting.popleft().frame)
        return is_first and bool(outgoing)

    def take_outgoing(self) -> Frames:
        """Return all queued responses, at least one, and empty the queue."""
        outgoing = self.outgoing
        frames = outgoing[0] if len(outgoing) == 1 else joined(outgoing)
        outgoing.clear()
        self.unsent_bytes -= len(frames)
        return frames

    def give_up(self) -> None:
        """Drop all calls of a lost connection and run their `when_lost` actions."""
        self.waiting.clear()
        actions = [*self.when_lost.values(), *self.when_closed.values()]
        self.when_lost, self.when_closed = {}, {}
        for action in actions:
            try:
                action()
            except Exception as failure:
                unexpected(Where.CONNECTION, "a request that was given up failed", failure)


class PendingCall:
    """One request of a connection, from its frame to its response."""

    __slots__ = ("correlation_id", "frame", "is_done", "line", "prepared", "route", "started")

    frame: Frames

    def __init__(self, line: Line, route: Route, correlation_id: int) -> None:
        self.line = line
        self.route = route
        self.correlation_id = correlation_id
        self.started = line.last_heard
        self.is_done = False
        self.prepared: Any = None
        """See `headgate.api.contract.Call`."""

    @property
    def api_version(self) -> int:
        """Version of the API that the client chose."""
        return self.route.api_version

    @property
    def principal(self) -> Principal:
        """The principal that sent the request."""
        return self.line.principal

    @property
    def client_id(self) -> str | None:
        """Client id in the header of the request."""
        return self.route.client_id

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it."""
        return self.line.client_host

    @property
    def step_name(self) -> str:
        """Name of the API, for the watch of the event loop."""
        return self.route.api.name

    @property
    def step_client(self) -> str:
        """Client id and address, for the watch of the event loop."""
        return f"{(self.route.client_id or '')[:_LONGEST_CLIENT_TOLD]}{self.line.client_host}"

    def answer(self, response: Message) -> None:
        """Send the response. Call it once. A response that cannot be encoded closes the connection."""
        watch = self.line.watch
        outer = watch.begin(self)
        try:
            frame = self.frame_of(response)
        except Exception as failure:
            self.line.client.refuse_failed(self.route, failure, Where.REPLY)
        else:
            self.line.metrics.count_errors(self.route.api.key, response)
            self.answer_frame(frame)
        finally:
            watch.end(outer)

    def in_steps(self, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Run the steps, then call `then` with their result; see `headgate.api.contract.Call`."""
        self.line.client.occupy(self, steps, then)

    def answer_in_steps(self, steps: RequestSteps[Message]) -> None:
        """Run the steps and send the response they return; see `headgate.api.contract.Call`."""
        self.line.client.serve_in_steps(self, steps)

    def answer_aside(self, make: Callable[[], Message]) -> None:
        """Make, encode and send the response in a thread; see `headgate.api.contract.Call`."""
        self.line.client.make_aside(self, make)

    def frame_of(self, response: Message) -> Frames:
        """Encode the response, with its length and header."""
        route = self.route
        return response_frame(self.correlation_id, route.api.key, route.api_version, response)

    def answer_unsupported(self) -> None:
        """Answer an unknown version of ApiVersions in version 0, with the supported versions."""
        api = self.route.api
        self.answer_frame(response_frame(self.correlation_id, api.key, 0, unsupported(api)))

    def no_answer(self) -> None:
        """Complete a request that expects no response."""
        self.answer_frame(b"")

    @property
    def connection(self) -> Hashable:
        """What identifies the connection."""
        return self.line

    def when_disconnected(self, name: str, action: Callable[[], None]) -> None:
        """Call `action` when the connection is lost; see `headgate.api.contract.Call`."""
        self.line.when_closed[name] = action

    def when_lost(self, action: Callable[[], None]) -> None:
        """Call `action` if the connection is lost before the answer."""
        self.line.when_lost[self] = action

    def disconnect(self, reason: str) -> None:
        """Close the connection and log the reason."""
        self.line.client.refuse(reason)

    @property
    def is_many(self) -> bool:
        """Return False: a pending call is a single request."""
        return False

    def ask_each(self) -> None:
        """Do nothing: a single request is already handled alone; see `Asker`."""

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """Wrap an action that runs later; see `headgate.api.contract.Call`."""

        def run(*given: Any) -> None:
            before, NOW.asker = NOW.asker, self
            try:
                action(*given)
            except Exception as failure:
                self.line.client.refuse_failed(self.route, failure, Where.REPLY)
            finally:
                NOW.asker = before

        return run

    def give_up(self) -> None:
        """Close the connection if the call is unanswered, because its answer can no longer be made."""
        if not self.is_done and self in self.line.waiting:
            self.line.client.refuse(f"an unexpected failure of ours in {self.route.api.name}")

    def answer_frame(self, frame: Frames) -> None:
        """Send an encoded response, including its length and correlation id. Call it once."""
        if self.is_done:
            raise RuntimeError(f"a second answer to one {self.route.api.name} request")
        line = self.line
        line.answered(self, frame)
        seconds = perf_counter() - self.started
        if line.when_lost and line.when_lost.pop(self, None) is not None:
            line.metrics.observe_waited(self.route.api.key, seconds)
        else:
            line.metrics.observe_request(self.route.api.key, seconds)
        line.client.send_ready()
