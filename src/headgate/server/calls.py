"""Requests of a connection on their way to an answer."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from headgate.api.contract import RequestSteps
from headgate.api.k18_api_versions import unsupported
from headgate.api.registration import Api
from headgate.runtime.asking import NOW
from headgate.runtime.failures import Where
from headgate.security.principal import Principal
from headgate.wire.framing import response_frame
from headgate.wire.message import Message
from headgate.wire.reading import Reader

if TYPE_CHECKING:
    from headgate.server.connection import Connection


ResultT = TypeVar("ResultT")

_LONGEST_CLIENT_TOLD: Final = 100


class Route(NamedTuple):
    """Where a connection's requests of one kind go: the API, the version, and the client id."""

    api: Api
    api_version: int
    client_id: str | None
    body_at: int
    read: Reader[Any]


class PendingCall:
    """One request of a connection, from its frame to its response."""

    __slots__ = ("connection", "correlation_id", "frame", "is_done", "route", "started")

    frame: bytes | bytearray

    def __init__(self, connection: Connection, route: Route, correlation_id: int) -> None:
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.started = connection.last_heard
        self.is_done = False

    @property
    def api_version(self) -> int:
        """The version the client chose."""
        return self.route.api_version

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.connection.principal

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.route.client_id

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it."""
        return self.connection.client_host

    @property
    def step_name(self) -> str:
        """The name of the API, for the watch of the loop."""
        return self.route.api.name

    @property
    def step_client(self) -> str:
        """Who asks, for the watch of the loop."""
        return f"{(self.route.client_id or '')[:_LONGEST_CLIENT_TOLD]}{self.connection.client_host}"

    def answer(self, response: Message) -> None:
        """Send the response; called once. One that cannot be written closes the connection."""
        watch = self.connection.watch
        outer = watch.begin(self)
        try:
            frame = self.frame_of(response)
        except Exception as failure:
            self.connection.refuse_failed(self.route, failure, Where.REPLY)
        else:
            self.answer_frame(frame)
        finally:
            watch.end(outer)

    def in_steps(self, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Drive the steps, then go on; see `headgate.api.contract.Call`."""
        self.connection.occupy(self, steps, then)

    def answer_in_steps(self, steps: RequestSteps[Message]) -> None:
        """Drive the steps and send the response they return; see `headgate.api.contract.Call`."""
        self.connection.serve_in_steps(self, steps)

    def answer_aside(self, make: Callable[[], Message]) -> None:
        """Make, write and send the response; see `headgate.api.contract.Call`."""
        self.connection.make_aside(self, make)

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
        self.connection.when_lost[self] = action

    def disconnect(self, reason: str) -> None:
        """Close the connection, saying why in the log."""
        self.connection.refuse(reason)

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
                self.connection.refuse_failed(self.route, failure, Where.REPLY)
            finally:
                NOW.asker = before

        return run

    def give_up(self) -> None:
        """Close the connection, unless the answer is there: it cannot be made any more."""
        if not self.is_done and self in self.connection.waiting:
            self.connection.refuse(f"an unexpected failure of ours in {self.route.api.name}")

    def answer_frame(self, frame: bytes | bytearray) -> None:
        """Send a response that is written already, its length and correlation id included; called once."""
        if self.is_done:
            raise RuntimeError(f"a second answer to one {self.route.api.name} request")
        self.is_done = True
        self.frame = frame
        connection = self.connection
        connection.unsent_bytes += len(frame)
        if connection.when_lost:
            connection.when_lost.pop(self, None)
        connection.metrics.observe_request(self.route.api.key, perf_counter() - self.started)
        connection.send_ready()
