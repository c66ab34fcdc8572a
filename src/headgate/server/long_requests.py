"""The requests of one connection that take longer than one step.

A large request is decoded in a thread, long work runs in slices, a long response is encoded in a thread
(`headgate.server.request_work`). Meanwhile later requests of the connection wait, so that its requests are
served in their order: `is_busy` is true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from headgate.api.contract import RequestSteps
from headgate.runtime.failures import Where
from headgate.server.calls import PendingCall, Route
from headgate.server.large_requests import LargeRequests
from headgate.server.request_work import RequestWork, reading
from headgate.wire.errors import MalformedMessage, WireError
from headgate.wire.message import Message

ResultT = TypeVar("ResultT")


class Occupied(Protocol):
    """What the long requests need of their connection."""

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""
        ...

    def handle(self, call: PendingCall, frame: bytes) -> None:
        """Decode a request and pass it to its API."""
        ...

    def decide(self, call: PendingCall, frame: bytes, request: Message) -> None:
        """Pass a decoded request to its API if the principal is authorized."""
        ...

    def balance(self) -> None:
        """Serve the requests that waited, and read from the socket, as far as the limits allow."""
        ...

    def refuse(self, reason: str) -> None:
        """Close the connection because of an invalid request."""
        ...

    def refuse_failed(self, route: Route, failure: Exception, where: Where) -> None:
        """Close the connection because a request failed with an unexpected exception."""
        ...

    def refuse_unexpected(self, failure: Exception) -> None:
        """Close the connection because of an unexpected exception outside of a single request."""
        ...


class LongRequests:
    """Runs the long requests of one connection."""

    __slots__ = (
        "_again",
        "_aside",
        "_connection",
        "_is_reading_again",
        "_large",
        "_large_bytes",
        "_occupations",
        "_work",
    )

    def __init__(self, connection: Occupied, work: RequestWork, large: LargeRequests) -> None:
        self._connection = connection
        self._work = work
        self._large = large
        self._occupations = 0
        """Number of requests that are served in steps."""
        self._again: deque[tuple[PendingCall, bytes]] = deque()
        """Repeated requests that have to be decoded and wait for an earlier one that is served in steps.
        While there are any, they count as one occupation.
        """
        self._is_reading_again = False
        self._aside = b""
        """The frame of a large request that waits for `LargeRequests`."""
        self._large_bytes = 0
        """Size of the large request that is being handled."""

    @property
    def is_busy(self) -> bool:
        """Whether later requests have to wait."""
        return self._occupations > 0

    @property
    def held_bytes(self) -> int:
        """Size of the large request that waits for its admission."""
        return len(self._aside)

    def hold(self) -> None:
        """Let requests wait until `release` is called."""
        self._occupations += 1

    def release(self) -> None:
        """End what `hold` began."""
        self._occupations -= 1

    def give_up(self) -> None:
        """Drop the requests that wait: the connection is closed."""
        self._again.clear()
        self._aside = b""

    def run(self, call: PendingCall, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Run the steps, then call `then` with their result. Later requests wait until the steps are done."""
        self._occupations += 1
        connection = self._connection

        def on_done(result: ResultT) -> None:
            self._occupations -= 1
            if connection.is_open:
                try:
                    then(result)
                except Exception as failure:
                    connection.refuse_failed(call.route, failure, Where.CONNECTION)
            self._leave_large()
            if self._again:
                self._read_more_again()
            connection.balance()

        def on_failed(failure: Exception) -> None:
            self._occupations -= 1
            if isinstance(failure, MalformedMessage):
                connection.refuse(str(failure))
            else:
                connection.refuse_failed(call.route, failure, Where.CONNECTION)
            self._leave_large()

        self._work.run(steps, call, on_done, on_failed)

    # --- large requests ---

    def read_aside(self, call: PendingCall, frame: bytes) -> None:
        """Decode a large request in a thread, when `LargeRequests` admits it, and pass it to its API."""
        size_bytes = len(frame)
        self._aside = frame
        self._occupations += 1

        def begin() -> None:
            self._occupations -= 1
            frame, self._aside = self._aside, b""
            if not self._connection.is_open:
                self._large.leave(size_bytes)
                return
            self._large_bytes = size_bytes
            self.run(call, reading(call, frame), lambda request: self._connection.decide(call, b"", request))

        self._large.enter(size_bytes, begin)

    def _leave_large(self) -> None:
        """Release the admission of a large request whose work is done."""
        if self._large_bytes and not self._occupations:
            size_bytes, self._large_bytes = self._large_bytes, 0
            self._large.leave(size_bytes)

    # --- repeated requests that have to be decoded ---

    def read_again(self, call: PendingCall, frame: bytes) -> None:
        """Decode and handle a queued request that cannot be served as a repeated one."""
        connection = self._connection
        if not connection.is_open:
            return
        if self._occupations and not self._is_reading_again:
            self._occupations += not self._again
            self._again.append((call, frame))
            return
        try:
            connection.handle(call, frame)
        except WireError as error:
            connection.refuse(str(error))
        except Exception as failure:
            connection.refuse_unexpected(failure)

    def _read_more_again(self) -> None:
        """Decode more of the requests in `_again`, until one of them is served in steps."""
        if self._is_reading_again:
            return
        self._is_reading_again = True
        while self._again and self._occupations == 1:
            self.read_again(*self._again.popleft())
        self._is_reading_again = False
        self._occupations -= not self._again
