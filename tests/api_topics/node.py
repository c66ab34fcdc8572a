"""A node without sockets: real topics on a disk in memory; the test controls its clock and its syncs.

`ask` encodes and decodes every request and response in the given version, so that a response that a version
cannot carry fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from tests.api.node import drive_request
from tests.api_topics.transactions import Transactions
from tests.topics.disk import NOW, Disk

from headgate.api.contract import Coordinator, KeyedShards, OffsetHistory, RequestSteps, Router, ShareDelivery
from headgate.api.registration import Api
from headgate.domain.ids import Millis
from headgate.domain.settings import Settings
from headgate.security.principal import ANONYMOUS
from headgate.topics.appends import Appends
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics
from headgate.wire.codec import decode, encode

if TYPE_CHECKING:
    from headgate.log.log import Log


class Syncs:
    """Group commit, run at once or when the test releases it."""

    def __init__(self) -> None:
        self.are_held = False
        self._held: list[tuple[Log, Callable[[bool], None]]] = []

    def when_durable(self, log: Log, on_done: Callable[[bool], None]) -> None:
        """Do what the server does, without a thread."""
        self._held.append((log, on_done))
        if not self.are_held:
            self.release()

    def release(self) -> None:
        """Sync what is waited for."""
        held, self._held = self._held, []
        for log, on_done in held:
            request = log.begin_sync()
            with suppress(OSError):
                request.run()
            try:
                log.complete_sync(request)
            except OSError:
                on_done(False)
            else:
                on_done(True)


class Aside:
    """Work of other threads, run at once or when the test releases it."""

    def __init__(self) -> None:
        self.is_held = False
        self.is_ahead = False
        """Whether the thread does all of its work before the loop hears of it."""
        self.count = 0
        """How often something was run here."""
        self._held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def __call__(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
        """As the server does it, without a thread."""
        self.count += 1
        self._held.append((work, on_done))
        if not self.is_held:
            self.release()

    def release(self) -> None:
        """Do what is waiting."""
        held, self._held = self._held, []
        if self.is_ahead:
            for work, _ in held:
                work()
        for work, on_done in held:
            if not self.is_ahead:
                work()
            on_done(None)


class OneCall:
    """One request and its response."""

    principal = ANONYMOUS
    correlation_id = 1

    def __init__(self, api: Api, version: int) -> None:
        self._api = api
        self.api_version = version
        self.client_id: str | None = "tester"
        self.client_host = "127.0.0.1"
        self.response: Any = None
        self.prepared: Any = None
        self.is_finished = False
        self.disconnect_reason: str | None = None

    def answer(self, response: Any) -> None:
        """Keep the response as a client would read it."""
        assert not self.is_finished, "answered twice"
        self.is_finished = True
        self.response = decode(self._api.response_type, self.api_version, encode(response, self.api_version))

    def answer_frame(self, frame: bytes | bytearray) -> None:
        """Fail: only repeated requests have encoded responses."""
        raise AssertionError("no request is repeated here")

    def in_steps(self, steps: RequestSteps[Any], then: Callable[[Any], None]) -> None:
        """Run all steps at once."""
        then(drive_request(steps))

    def answer_aside(self, make: Callable[[], Any]) -> None:
        """Make the response at once."""
        self.answer(make())

    def answer_in_steps(self, steps: RequestSteps[Any]) -> None:
        """Run all steps at once."""
        self.answer(drive_request(steps))

    def no_answer(self) -> None:
        """Finish without a response."""
        assert not self.is_finished, "answered twice"
        self.is_finished = True

    @property
    def connection(self) -> Hashable:
        """What identifies the connection."""
        return "connection"

    def when_disconnected(self, name: str, action: Callable[[], None]) -> None:
        """Do nothing: the connection is never lost."""

    def when_lost(self, action: Callable[[], None]) -> None:
        """Keep the action for a lost connection."""
        self.lose = action

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """Return the action: its exception fails the test."""
        return action

    def disconnect(self, reason: str) -> None:
        """Record that the connection was closed instead of a response."""
        assert not self.is_finished, "answered twice"
        self.is_finished = True
        self.disconnect_reason = reason


class LostCall(OneCall):
    """A request whose connection is lost during its steps."""

    def in_steps(self, steps: RequestSteps[Any], then: Callable[[Any], None]) -> None:
        """Run all steps at once, and nothing after them."""
        drive_request(steps)


class OneNode:
    """A node as handlers see it."""

    node_id = 1
    cluster_id = "test-cluster"
    advertised_host = "localhost"
    advertised_port = 9092
    coordinator = cast(Coordinator, None)
    share_state = cast(KeyedShards, None)
    shares = cast(ShareDelivery, None)
    history = cast(OffsetHistory, None)
    router = cast(Router, None)

    def __init__(self, **settings: str) -> None:
        self.disk = Disk()
        self.settings = Settings({name.replace("_", "."): value for name, value in settings.items()})
        self.disk.settings = self.settings
        self.topics: Topics = self.disk.start()
        self.durability = Syncs()
        self.aside = Aside()
        self.appends = Appends(self.aside)
        self._now = NOW
        self.transactions = Transactions(self.settings, self.steady_time)
        self._timers: list[tuple[int, Callable[[], None]]] = []

    def restart(self, *, crash: bool = False) -> None:
        """Stop cleanly or crash, and start again."""
        if crash:
            self.disk.files.crash()
        else:
            self.topics.close()
        self._timers.clear()
        self.topics = self.disk.start()

    def system_time(self) -> Millis:
        """Return the test's time."""
        return self._now

    def steady_time(self) -> Millis:
        """Return the test's time."""
        return self._now

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Run the action when the test lets time pass."""
        timer = (self._now + delay_ms, action)
        self._timers.append(timer)
        return lambda: self._timers.remove(timer) if timer in self._timers else None

    def soon(self, action: Callable[[], None]) -> None:
        """Run the action when the test lets time pass."""
        self.call_later(0, action)

    def run_in_background(self, name: str, steps: RequestSteps[Any]) -> None:
        """Run all steps at once."""
        drive_request(steps)

    def new_member_id(self, client_id: str | None) -> str:
        """Not used here."""
        raise NotImplementedError

    def new_consumer_member_id(self) -> str:
        """Not used here."""
        raise NotImplementedError

    def pass_time(self, duration_ms: int = 0) -> None:
        """Let time pass, and run what is due."""
        self._now = Millis(self._now + duration_ms)
        while due := sorted(
            (timer for timer in self._timers if timer[0] <= self._now), key=lambda one: one[0]
        ):
            self._timers.remove(due[0])
            due[0][1]()

    def topic(self, name: str, partitions: int = 1, **overrides: str) -> Topic:
        """Create a topic."""
        texts = {key.replace("_", "."): value for key, value in overrides.items()}
        created = self.topics.create(NewTopic(name, self.disk.topic_id(), partitions, texts), NOW)
        assert isinstance(created, Topic), created
        created.shared.seconds = lambda: self._now / 1000
        return created

    def send(
        self, api: Api, request: Any, version: int | None = None, *, call_type: type[OneCall] = OneCall
    ) -> OneCall:
        """Send a request, which may be answered now or later."""
        version = api.max_version if version is None else version
        call = call_type(api, version)
        response = api.handle(self, call, decode(api.request_type, version, encode(request, version)))
        if response is not None:
            call.answer(response)
        return call

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """Send a request and return its response."""
        call = self.send(api, request, version)
        assert call.is_finished, "not answered yet"
        return call.response
