"""Requests of a connection on their way to an answer: each by itself, and all of them in their line.

Responses leave in the order of the requests. What a call asks of the connection it came over is `Client`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
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
from headgate.wire.reading import Reader

ResultT = TypeVar("ResultT")

_LONGEST_CLIENT_TOLD: Final = 100


class Route(NamedTuple):
    """Where a connection's requests of one kind go: the API, the version, and the client id."""

    api: Api
    api_version: int
    client_id: str | None
    body_at: int
    read: Reader[Any]


class Client(Protocol):
    """A connection, as its calls see it."""

    __slots__ = ()

    def occupy(
        self, call: PendingCall, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]
    ) -> None:
        """Drive work of a request. What comes behind it is kept until that is done."""
        ...

    def serve_in_steps(self, call: PendingCall, steps: RequestSteps[Message]) -> None:
        """Answer a request with what the steps return; later requests wait for it."""
        ...

    def make_aside(self, call: PendingCall, make: Callable[[], Message]) -> None:
        """Answer a request with what is made and written in a thread."""
        ...

    def read_again(self, call: PendingCall, frame: bytes) -> None:
        """Read a request that stands in line and cannot be served as it was before."""
        ...

    def refuse(self, reason: str) -> None:
        """Close the connection, saying why in the log."""
        ...

    def refuse_failed(self, route: Route, failure: Exception, where: Where) -> None:
        """Close the connection over a request that failed for no fault of the client's."""
        ...

    def send_ready(self) -> None:
        """Queue the responses at the head of the line that are ready; they leave at the end of this turn."""
        ...

    def send(self) -> None:
        """Write all responses that are queued, in one piece."""
        ...

    def write(self, frames: bytes | bytearray) -> None:
        """Write responses whose turn it is."""
        ...


class Line:
    """The calls of one connection, in their order, and the responses that are to leave."""

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
        "when_lost",
    )

    def __init__(self, client: Client, principal: Principal, metrics: Metrics, watch: LoopWatch) -> None:
        self.client = client
        self.principal = principal
        """Who asks."""
        self.metrics = metrics
        self.watch = watch
        self.client_host = ""
        """The client's address as group descriptions show it: a slash before the address."""
        self.last_heard = perf_counter()
        """When bytes arrived last, by the clock for durations."""
        self.waiting: deque[PendingCall] = deque()
        self.when_lost: dict[PendingCall, Callable[[], None]] = {}
        """What to do for requests that wait, if the connection is lost first."""
        self.outgoing: list[bytes | bytearray] = []
        self.unsent_bytes = 0
        """Of responses that are ready and not handed to the transport."""

    def add(self, route: Route, correlation_id: int) -> PendingCall:
        """Put a request behind the others."""
        call = PendingCall(self, route, correlation_id)
        self.waiting.append(call)
        return call

    def answer_only(self, frame: bytes | bytearray) -> bool:
        """Send the response of the one call in line; whether there is but one, which waits for nothing."""
        if len(self.waiting) != 1 or self.outgoing:
            return False
        self.waiting.clear()
        self.client.write(frame)
        return True

    def answered(self, call: PendingCall, frame: bytes | bytearray) -> None:
        """A call has its response, which leaves when those before it do."""
        call.is_done = True
        call.frame = frame
        self.unsent_bytes += len(frame)

    def take_ready(self) -> bool:
        """Queue the responses at the head of the line that are ready; whether there were none before."""
        waiting = self.waiting
        outgoing = self.outgoing
        is_first = not outgoing
        while waiting and waiting[0].is_done:
            outgoing.append(waiting.popleft().frame)
        return is_first and bool(outgoing)

    def take_outgoing(self) -> bytes | bytearray:
        """All responses that are queued, in one piece; there are some."""
        outgoing = self.outgoing
        frames = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
        outgoing.clear()
        self.unsent_bytes -= len(frames)
        return frames

    def give_up(self) -> None:
        """Nobody is there for the answers any more."""
        self.waiting.clear()
        actions, self.when_lost = self.when_lost, {}
        for action in actions.values():
            try:
                action()
            except Exception as failure:
                unexpected(Where.CONNECTION, "a request that was given up failed", failure)


class PendingCall:
    """One request of a connection, from its frame to its response."""

    __slots__ = ("correlation_id", "frame", "is_done", "line", "route", "started")

    frame: bytes | bytearray

    def __init__(self, line: Line, route: Route, correlation_id: int) -> None:
        self.line = line
        self.route = route
        self.correlation_id = correlation_id
        self.started = line.last_heard
        self.is_done = False

    @property
    def api_version(self) -> int:
        """The version the client chose."""
        return self.route.api_version

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.line.principal

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.route.client_id

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it."""
        return self.line.client_host

    @property
    def step_name(self) -> str:
        """The name of the API, for the watch of the loop."""
        return self.route.api.name

    @property
    def step_client(self) -> str:
        """Who asks, for the watch of the loop."""
        return f"{(self.route.client_id or '')[:_LONGEST_CLIENT_TOLD]}{self.line.client_host}"

    def answer(self, response: Message) -> None:
        """Send the response; called once. One that cannot be written closes the connection."""
        watch = self.line.watch
        outer = watch.begin(self)
        try:
            frame = self.frame_of(response)
        except Exception as failure:
            self.line.client.refuse_failed(self.route, failure, Where.REPLY)
        else:
            self.answer_frame(frame)
        finally:
            watch.end(outer)

    def in_steps(self, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Drive the steps, then go on; see `headgate.api.contract.Call`."""
        self.line.client.occupy(self, steps, then)

    def answer_in_steps(self, steps: RequestSteps[Message]) -> None:
        """Drive the steps and send the response they return; see `headgate.api.contract.Call`."""
        self.line.client.serve_in_steps(self, steps)

    def answer_aside(self, make: Callable[[], Message]) -> None:
        """Make, write and send the response; see `headgate.api.contract.Call`."""
        self.line.client.make_aside(self, make)

    def frame_of(self, response: Message) -> bytes:
        """The response as it is sent."""
        route = self.route
        return response_frame(self.correlation_id, route.api.key, route.api_version, response)

    def answer_unsupported(self) -> None:
        """Tell a client that asked for an unknown version of ApiVersions, in version 0, which there are."""
        api = self.route.api
        self.answer_frame(response_frame(self.correlation_id, api.key, 0, unsupported(api)))

    def no_answer(self) -> None:
        """Finish a request that expects no response."""
        self.answer_frame(b"")

    def when_lost(self, action: Callable[[], None]) -> None:
        """Call `action` if the connection is lost before the answer."""
        self.line.when_lost[self] = action

    def disconnect(self, reason: str) -> None:
        """Close the connection, saying why in the log."""
        self.line.client.refuse(reason)

    @property
    def is_many(self) -> bool:
        """It is one."""
        return False

    def ask_each(self) -> None:
        """See `Asker`: it is alone already."""

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """The action, for later; see `headgate.api.contract.Call`."""

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
        """Close the connection, unless the answer is there: it cannot be made any more."""
        if not self.is_done and self in self.line.waiting:
            self.line.client.refuse(f"an unexpected failure of ours in {self.route.api.name}")

    def answer_frame(self, frame: bytes | bytearray) -> None:
        """Send a response that is written already, its length and correlation id included; called once."""
        if self.is_done:
            raise RuntimeError(f"a second answer to one {self.route.api.name} request")
        line = self.line
        line.answered(self, frame)
        if line.when_lost:
            line.when_lost.pop(self, None)
        line.metrics.observe_request(self.route.api.key, perf_counter() - self.started)
        line.client.send_ready()
