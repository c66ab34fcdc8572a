"""What an API module makes, and what it may use.

An API module turns a message into a command or a call on the topics, and the result into a message; version
quirks live there and nowhere else. It makes one registration. A handler answers by returning the response, or
returns None and calls `call.answer(response)` later, once: the connection keeps the order of its responses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from headgate.core.offsets.history import GroupHistory, HistoryQuery
    from headgate.domain.errors import ErrorCode
    from headgate.domain.ids import GroupId, Millis
    from headgate.domain.settings import Settings
    from headgate.log.log import Log
    from headgate.security.principal import Principal
    from headgate.topics.appends import Appends
    from headgate.topics.topics import Topics
    from headgate.wire.repeats import Numbers, WrittenResponse

ResultT = TypeVar("ResultT")

RequestSteps: TypeAlias = "Generator[Callable[[], None] | Future[Any] | None, None, ResultT]"
"""Work of a request that may be long. It yields None where others may have their turn, a function to have it
run in a thread, and a future to wait for it; what those raise is raised at the yield.
"""


class Call(Protocol):
    """One request that waits for its response."""

    @property
    def api_version(self) -> int:
        """The version the client chose."""
        ...

    @property
    def principal(self) -> Principal:
        """Who asks."""
        ...

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it: a slash before the address."""
        ...

    def answer(self, response: Any) -> None:
        """Send the response. Called once; a connection that is gone meanwhile makes it a no-op."""
        ...

    def in_steps(self, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Drive `steps` beside everything else, and hand what they return to `then`; the connection's later
        requests wait meanwhile. A connection that is lost meanwhile makes `then` a no-op.
        """
        ...

    def answer_in_steps(self, steps: RequestSteps[Any]) -> None:
        """Drive `steps` beside everything else, and send the response they return; called instead of
        `answer`. Where they take long the response is written in a thread, and the connection's later
        requests wait for it.
        """
        ...

    def answer_aside(self, make: Callable[[], Any]) -> None:
        """Make the response in a thread, write it there, and send it: for long responses made of what nobody
        changes; called instead of `answer`.
        """
        ...

    def no_answer(self) -> None:
        """Finish the request without a response (Produce with acks=0)."""
        ...

    def when_lost(self, action: Callable[[], None]) -> None:
        """Call `action` if the connection is lost before the answer: nobody waits for it any more."""
        ...

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action`, to be called later on behalf of this request: if it raises, the connection is closed.

        For whatever keeps a function and calls it some time (timers, waiters, syncs). The coordinator and
        `in_steps` know by themselves who asks.
        """
        ...

    def disconnect(self, reason: str) -> None:
        """Close the connection: the only way to tell a client that waits for no answer of a failure."""
        ...


class RepeatedCall(Call, Protocol):
    """A request that came again (`headgate.api.repeats`) and waits for its response."""

    correlation_id: int

    def answer_frame(self, frame: bytes | bytearray) -> None:
        """Send a response that is written already, its length and correlation id included. Called once."""
        ...


class RepeatedCalls(Protocol):
    """Requests that came again and are served together."""

    def __iter__(self) -> Iterator[RepeatedCall]: ...

    def part(self, first: int, end: int) -> RepeatedCalls:
        """Those from `first` on, up to `end` and without it."""
        ...

    def answer_written(self, responses: list[WrittenResponse]) -> None:
        """Send each of them its response, written already; called once, unless they are answered singly."""
        ...


class Repeat(Protocol):
    """How a request is served that came before, with other numbers."""

    def invert(self, request: Any) -> None:
        """Invert every number (of 8 bytes) that may be another next time, in the request it was made for."""
        ...

    def is_current(self, node: Node) -> bool:
        """Whether the request still means what it meant; if not it has to be read."""
        ...

    @property
    def shard(self) -> int:
        """The partition of `__consumer_offsets` that holds its group."""
        ...

    @property
    def weight_bytes(self) -> int:
        """What its records take in a log, about."""
        ...

    @property
    def kept_bytes(self) -> int:
        """What it takes in memory besides its frame and the names in it, about."""
        ...

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Serve requests of one shard, all of this class and current, in their order: each repeat with the
        call that waits for its answer and its numbers, in the order of the message.
        """
        ...


class ShardOwner(Protocol):
    """The node that runs a group's shard: where clients find it, and the way to that shard."""

    @property
    def node_id(self) -> int:
        """The node's id."""
        ...

    @property
    def host(self) -> str:
        """Where clients connect to it."""
        ...

    @property
    def port(self) -> int:
        """Where clients connect to it."""
        ...

    def submit(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Hand a command to the group's shard; `on_reply` gets the command's result when it is durable,
        or an `ErrorCode` when the shard cannot answer (loading, or its log failed): retriable, always.
        """
        ...


class Router(Protocol):
    """Knows which node runs which shard, so that any node can answer for any group (R3.14)."""

    def owner_of(self, group_id: GroupId) -> ShardOwner:
        """The node that runs the group's shard: this one or another."""
        ...


class Coordinator(Protocol):
    """The group coordinator as handlers see it: the shards of `__consumer_offsets` that this node runs."""

    def submit(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Hand a command to the group's shard, which is here; handlers ask the router for its owner."""
        ...

    def partition_of(self, group_id: GroupId) -> int:
        """The partition of `__consumer_offsets` that holds a group."""
        ...

    @property
    def is_wary(self) -> bool:
        """Whether a command failed a shard a while ago: then commands are handed over one by one."""
        ...

    @property
    def shard_count(self) -> int:
        """How many shards there are, from 0 on."""
        ...

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Hand a command to one of the shards, whatever group it is about."""
        ...


class Durability(Protocol):
    """Group commit: one sync for all that was appended meanwhile."""

    def when_durable(self, log: Log, on_done: Callable[[bool], None]) -> None:
        """Call `on_done(True)` when all that `log` holds now is durable, `on_done(False)` if it cannot be."""
        ...


class OffsetHistory(Protocol):
    """What the offsets of this node's groups were."""

    def describe(
        self,
        query: HistoryQuery,
        max_wait_ms: int,
        render: Callable[[GroupHistory], ResultT],
        on_reply: Callable[[ResultT | ErrorCode], None],
    ) -> None:
        """Read the past beside everything else; what is not read within `max_wait_ms` is not known.

        `render` makes the result of the answer, in another thread: an answer may be long.
        """
        ...


class Node(Protocol):
    """This node, as handlers see it."""

    node_id: int
    cluster_id: str
    advertised_host: str
    advertised_port: int
    settings: Settings
    topics: Topics
    appends: Appends
    """Producers' batches on their way into partitions."""

    @property
    def router(self) -> Router:
        """Who runs which shard."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator."""
        ...

    @property
    def history(self) -> OffsetHistory:
        """The past of the offsets."""
        ...

    @property
    def durability(self) -> Durability:
        """What syncs the logs."""
        ...

    def system_time(self) -> Millis:
        """What the system's clock says, in milliseconds since the epoch: for timestamps and their ages."""
        ...

    def steady_time(self) -> Millis:
        """The time that only ever passes, in milliseconds: for deadlines."""
        ...

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Run `action` after `delay_ms` unless the returned function is called before."""
        ...

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` in one of the next turns of the loop: there may be many that wait for theirs."""
        ...

    def new_member_id(self, client_id: str | None) -> str:
        """A fresh id for a member of a classic group as in Kafka: the client id, a dash, a random UUID."""
        ...

    def new_consumer_member_id(self) -> str:
        """A fresh id for a member of a consumer group as in Kafka: a random UUID in 22 characters."""
        ...
