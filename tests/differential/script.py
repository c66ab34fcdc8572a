"""A scenario, played to one broker: it asks, and what it is answered is the story that is compared."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.differential import requests
from tests.differential.normal import Names, with_joined_ranges
from tests.differential.wire import CLOSED, Connection, Request, Tree

PATIENCE_S = 12.0
"""How long a script waits for something that comes in the end, but not at a certain request."""

PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two brokers."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a scenario."""

    name: str
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Answer:
    """One step of the story: what was asked, and what was answered, made comparable."""

    step: str
    tree: Any


@dataclass(slots=True)
class Pending:
    """A request that is not answered yet."""

    script: Script
    connection: Connection
    request: Request
    step: str

    def __call__(self) -> Tree:
        """Wait for the answer."""
        return self.script.take(self.connection, self.request, self.step)


@dataclass
class Script:
    """The one who asks. `side` is played to, `name` is the scenario's, of which all other names are made."""

    side: Side
    name: str
    story: list[Answer] = field(default_factory=list)

    joins_ranges: bool = False
    """Whether acquired ranges that follow each other are told as one: how they are divided is no promise."""

    def __post_init__(self) -> None:
        self._names = Names(self.side.port)
        self._connections: dict[str, Connection] = {}
        self.group = f"{self.name}-group"

    def __call__(self, request: Request, on: str = "main", note: str = "") -> Tree:
        """Ask and wait. `on` names the connection: members that wait for each other need one each."""
        return self.later(request, on, note)()

    def later(self, request: Request, on: str = "main", note: str = "") -> Pending:
        """Ask and go on; what this gives, called, waits for the answer."""
        self._names.say(request.values)
        connection = self._connection(on)
        connection.send(request)
        return Pending(self, connection, request, f"{on}: {request}" + (f" ({note})" if note else ""))

    def until(
        self, request: Request, condition: Callable[[Tree], bool], on: str = "main", note: str = ""
    ) -> Tree:
        """Ask again and again until the answer is such; the last one alone is part of the story.

        For what a broker gets round to by itself. Raises TimeoutError, with the last answer.
        """
        answer = self.wait_until(request, condition, on)
        self._tell(f"{on}: {request}" + (f" ({note})" if note else ""), answer)
        return answer

    def wait_until(self, request: Request, condition: Callable[[Tree], bool], on: str = "main") -> Tree:
        """Ask again and again until the answer is such; none of it is part of the story."""
        self._names.say(request.values)
        connection, deadline = self._connection(on), time.monotonic() + PATIENCE_S
        while True:
            connection.send(request)
            answer = connection.receive(request)
            if condition(answer):
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.side.name} still answers {request}: {answer}")
            time.sleep(PAUSE_S)

    def only(self, request: Request, array: str, key: str, wanted: Iterable[str]) -> Tree:
        """Ask for something that all scenarios share, and take into the story what is of this one."""
        self._names.say(request.values)
        connection = self._connection("main")
        connection.send(request)
        answer = connection.receive(request)
        answer[array] = [each for each in answer[array] if each[key] in wanted]
        self._tell(f"main: {request}", answer)
        return answer

    def take(self, connection: Connection, request: Request, step: str) -> Tree:
        """Read an answer into the story."""
        try:
            answer = connection.receive(request)
        except TimeoutError:
            raise TimeoutError(f"{self.side.name} never answered {step}") from None
        if answer is CLOSED:
            self._connections = {on: one for on, one in self._connections.items() if one is not connection}
            connection.close()
        self._tell(step, answer)
        return answer

    def topic(
        self, suffix: str = "t", partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic and wait until all of the broker knows it; no part of the story."""
        name = f"{self.name}-{suffix}"
        answer = self._ask_aside(requests.create_topics({name: partitions}, configs=dict(configs or {})))
        (created,) = answer["topics"]
        if created["error_code"] != "none":
            raise AssertionError(f"{self.side.name} did not create {name}: {created}")
        topic = Topic(name, created["topic_id"])
        self._names.topic(topic.id, name)
        self.wait_for_partitions(topic, partitions)
        self._wait_for_coordinator(topic)
        return topic

    def wait_for_partitions(self, topic: Topic, partitions: int) -> None:
        """Wait until the broker shows so many partitions of the topic, each with a leader."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            (shown,) = self._ask_aside(requests.metadata(topic.name))["topics"]
            leaders = [one["leader_id"] for one in shown["partitions"]]
            if shown["topic_id"] == topic.id and len(leaders) == partitions and min(leaders) >= 0:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.side.name} still shows {shown}")
            time.sleep(PAUSE_S)

    def _wait_for_coordinator(self, topic: Topic) -> None:
        """Wait until the coordinator knows the topic too, of which Kafka tells it after all others."""
        group = f"probe-of-{topic.name}"
        deadline, epoch = time.monotonic() + PATIENCE_S, 0
        request = requests.enter(group, "probe", [topic.name])
        while True:
            answer = self._ask_aside(request)
            epoch = answer["member_epoch"]
            if answer["assignment"] and answer["assignment"]["topic_partitions"]:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.side.name} still assigns nothing of {topic.name}: {answer}")
            time.sleep(PAUSE_S / 5)
            request = requests.beat(group, "probe", epoch, owned={})
        self._ask_aside(requests.beat(group, "probe", -1))
        self._ask_aside(requests.delete_groups(group))

    def learn_topics(self, request: Request) -> Tree:
        """Ask for topics to be created, and call those that come into being by their names."""
        connection = self._connection("main")
        self._names.say(request.values)
        connection.send(request)
        answer = connection.receive(request)
        for one in answer.get("topics", ()):
            if one.get("topic_id") is not None:
                self._names.topic(one["topic_id"], one["name"])
        self._tell(f"main: {request}", answer)
        return answer

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in self._connections.values():
            connection.close()

    def hang_up(self, on: str) -> None:
        """Close one connection; the next request on it opens another."""
        self._connections.pop(on).close()

    def _ask_aside(self, request: Request) -> Tree:
        connection = self._connection("aside")
        connection.send(request)
        return connection.receive(request)

    def _connection(self, on: str) -> Connection:
        if on not in self._connections:
            self._connections[on] = Connection(self.side.host, self.side.port)
        return self._connections[on]

    def note(self, step: str, found: Any) -> None:
        """Take something into the story that the script has found in answers."""
        self.story.append(Answer(step, found))

    def _tell(self, step: str, answer: Tree) -> None:
        normal = self._names.normal(answer)
        self.story.append(Answer(step, with_joined_ranges(normal) if self.joins_ranges else normal))


Scenario = Callable[[Script], None]


def play(scenario: Scenario, side: Side, name: str) -> list[Answer]:
    """The story of one scenario with one broker."""
    script = Script(side, name)
    try:
        scenario(script)
    except Exception as problem:
        told = "".join(f"\n  {answer.step} -> {answer.tree}" for answer in script.story[-3:])
        raise AssertionError(f"{side.name}: {type(problem).__name__}: {problem}; before:{told}") from problem
    finally:
        script.close()
    return script.story
