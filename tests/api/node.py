"""A node without sockets: the handlers on real shards, with a table of topics.

`ask` encodes and decodes every request and response in the given version, so that a response that a version
cannot carry fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

from headgate.api.contract import Node, RequestSteps, Router
from headgate.api.registration import Api
from headgate.api.router import Here
from headgate.core import topic_image
from headgate.core.commands import Tick
from headgate.core.contract import Effects
from headgate.core.shard import GroupShard
from headgate.core.topic_image import TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.domain.partitioning import partition_for
from headgate.domain.settings import Settings
from headgate.security.principal import ANONYMOUS
from headgate.wire.codec import decode, encode

SHARDS = 3
START = Millis(1_700_000_000_000)


def drive_request(steps: RequestSteps[Any]) -> Any:
    """Go through the steps of a request; what they return."""
    try:
        waits_for = next(steps)
        while True:
            problem: Exception | None = None
            if isinstance(waits_for, Future):
                problem = cast("Exception | None", waits_for.exception())
            elif waits_for is not None:
                try:
                    waits_for()
                except Exception as raised:
                    problem = raised
            waits_for = next(steps) if problem is None else steps.throw(problem)
    except StopIteration as stop:
        return stop.value


class OneCall:
    """One request and its response."""

    principal = ANONYMOUS
    correlation_id = 1

    def __init__(self, api: Api, version: int, client_id: str | None = "tester") -> None:
        self._api = api
        self.api_version = version
        self.client_id = client_id
        self.client_host = "/127.0.0.1"
        self.response: Any = None
        self.prepared: Any = None

    @property
    def is_answered(self) -> bool:
        """Whether the response is there."""
        return self.response is not None

    def answer(self, response: Any) -> None:
        """Keep the response as a client would read it."""
        assert not self.is_answered, "answered twice"
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
        """Fail: none of these APIs may do this."""
        raise AssertionError("not answered at all")

    @property
    def connection(self) -> Hashable:
        """What identifies the connection."""
        return "connection"

    def when_disconnected(self, name: str, action: Callable[[], None]) -> None:
        """Do nothing: the connection is never lost."""

    def when_lost(self, action: Callable[[], None]) -> None:
        """Do nothing: none of these APIs waits for records."""
        raise AssertionError("no connection is lost here")

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """Return the action: its exception fails the test."""
        return action

    def disconnect(self, reason: str) -> None:
        """Fail: none of these APIs may do this."""
        raise AssertionError(f"disconnected: {reason}")


def topic_id_of(name: str) -> TopicId:
    """Return the id of a topic of these nodes; `name_of` is the inverse."""
    return TopicId(name.encode().ljust(16, b"\0"))


def name_of(topic: Any) -> str:
    """The name of a topic of a response, which has either a name or an id."""
    name: str = topic.name or topic.topic_id.rstrip(b"\0").decode()
    return name


@dataclass(frozen=True)
class KnownTopic:
    """The properties of a topic that these handlers use."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    is_deleted: bool = False


def _change(topic: KnownTopic) -> TopicChange:
    return TopicChange(topic.name, topic_image.KnownTopic(topic.topic_id, topic.partition_count))


class TopicTable:
    """The topics."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.on_changed: Callable[[list[TopicChange]], None] = lambda changes: None
        self._topics = {
            name: KnownTopic(TopicName(name), topic_id_of(name), count) for name, count in counts.items()
        }

    def by_name(self, name: str) -> KnownTopic | None:
        """The topic of that name."""
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        """The topic with that id."""
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def delete(self, name: str) -> None:
        """Remove a topic, before its offsets are erased."""
        del self._topics[name]
        self.on_changed([TopicChange(TopicName(name), None)])

    def create(self, name: str, topic_id: TopicId, partition_count: int) -> None:
        """Add a topic."""
        self._topics[name] = KnownTopic(TopicName(name), topic_id, partition_count)
        self.on_changed([_change(self._topics[name])])

    def changes(self) -> list[TopicChange]:
        """Return all topics as changes, for a new shard."""
        return [_change(topic) for topic in self._topics.values()]


class Shards:
    """The coordinator: commands are decided, applied and answered at once."""

    def __init__(self, settings: Settings, now: Callable[[], Millis]) -> None:
        self._now = now
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self.shards = [GroupShard(settings) for _ in range(SHARDS)]
        self.errors: dict[int, ErrorCode] = {}
        """Shards that cannot answer, with what they say instead."""
        for shard in self.shards:
            shard.loaded(now())

    def partition_of(self, group_id: GroupId) -> int:
        """The shard of the group."""
        return partition_for(group_id, SHARDS)

    def submit(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit to the group's shard."""
        self._submit(self.partition_of(group_id), command, on_reply)

    def submit_to_all(self, command: Any, on_replies: Callable[[list[Any]], None]) -> None:
        """Submit to all shards, all of which answer at once."""
        replies: list[Any] = []
        for index in range(SHARDS):
            self._submit(index, command, replies.append)
        on_replies(replies)

    shard_count = SHARDS

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit to one shard."""
        self._submit(shard, command, on_reply)

    def _submit(self, index: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        if index in self.errors:
            on_reply(self.errors[index])
            return
        token = len(self._waiting) + 1
        self._waiting[token] = on_reply
        self._take(index, self.shards[index].handle(command, self._now(), token))

    def tick(self, index: int) -> None:
        """Handle what is due."""
        self._take(index, self.shards[index].handle(Tick(), self._now()))

    def _take(self, index: int, effects: Effects[Any]) -> None:
        for record in effects.records:
            self.shards[index].apply(record, 0)
        for reply in effects.replies:
            self._waiting[reply.token](reply.result)


class NoShares:
    """The deliveries of a node whose share groups nobody fetches."""

    def repaused(self, group_id: GroupId, on_done: Callable[[], None]) -> None:
        """Nothing follows a pause."""
        on_done()

    def is_being_released(self, group_id: GroupId, key: tuple[TopicId, int]) -> bool:
        """No member has records."""
        return False


class OneNode:
    """A node as handlers see it."""

    node_id = 7
    cluster_id = "cluster"
    advertised_host = "broker.example"
    advertised_port = 9092

    def __init__(self, topics: Mapping[str, int] | None = None, **settings: str) -> None:
        self.time = START
        self.settings = Settings({name.replace("_", "."): value for name, value in settings.items()})
        self.topics = TopicTable({"t": 3, "u": 1} if topics is None else topics)
        self.coordinator = Shards(self.settings, self.steady_time)
        self.topics.on_changed = self._tell
        self._tell(self.topics.changes())
        self.router: Router = Here(cast(Node, self))
        self.shares = NoShares()
        self._members = self._consumer_members = 0

    def _tell(self, changes: list[TopicChange]) -> None:
        self.coordinator.submit_to_all(TopicsChanged(changes), lambda replies: None)

    def system_time(self) -> Millis:
        """Return the test's time."""
        return self.time

    def steady_time(self) -> Millis:
        """Return the test's time."""
        return self.time

    def new_member_id(self, client_id: str | None) -> str:
        """Return an unused id, not random."""
        self._members += 1
        return f"{client_id or ''}-{self._members}"

    def new_consumer_member_id(self) -> str:
        """Return an unused id, not random."""
        self._consumer_members += 1
        return f"consumer/{self._consumer_members}"

    def send(self, api: Api, request: Any, version: int) -> OneCall:
        """Send a request, which may be answered later."""
        call = OneCall(api, version)
        read = decode(api.request_type, version, encode(request, version))
        response = api.handle(cast(Node, self), call, read)
        if response is not None:
            call.answer(response)
        return call

    def ask(self, api: Api, request: Any, version: int) -> Any:
        """Return the response to a request that is answered at once."""
        call = self.send(api, request, version)
        assert call.is_answered, f"{request} was not answered"
        return call.response

    def advance(self, duration_ms: int) -> None:
        """Let time pass; handle deadlines when they are due."""
        end = self.time + duration_ms
        while True:
            deadlines = [shard.next_deadline() for shard in self.coordinator.shards]
            index = min(range(SHARDS), key=lambda one: deadlines[one] or end + 1)
            due = deadlines[index]
            if due is None or due > end:
                break
            self.time = Millis(max(self.time, due))
            self.coordinator.tick(index)
        self.time = Millis(end)
