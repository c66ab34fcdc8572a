"""The interface between API modules and the server.

An API module translates a message into a command or a call on the topics, and the result into a message; only
API modules know differences between versions. Each makes one registration. A handler returns the response, or
returns None and calls `call.answer(response)` once later: the connection keeps the order of its responses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from headgate.core.offsets.history import GroupHistory, HistoryQuery
    from headgate.core.share.deliveries import Alteration, AlterationResult, DeliveryPage, OffsetRange
    from headgate.core.share.fetching import (
        AcknowledgeErrors,
        Acknowledgements,
        DeliveredRecords,
        ShareFetchWish,
    )
    from headgate.core.share.sessions import PartitionKey, ShareSession, ShareSessions
    from headgate.domain.errors import ErrorCode
    from headgate.domain.ids import GroupId, MemberId, Millis
    from headgate.domain.settings import Settings
    from headgate.log.log import Log
    from headgate.security.principal import Principal
    from headgate.topics.appends import Appends
    from headgate.topics.topics import Topics
    from headgate.wire.repeats import Numbers, WrittenResponse

ResultT = TypeVar("ResultT")

RequestSteps: TypeAlias = "Generator[Callable[[], None] | Future[Any] | None, None, ResultT]"
"""Work of a request that may be long. It yields None to pause, a function to have it run in a thread, or a
future to wait for; their exceptions are raised at the yield.
"""


class Call(Protocol):
    """A request that waits for its response."""

    correlation_id: int
    prepared: Any
    """What the handler made of the request, for the `Repeat` of later ones; None for nothing."""

    @property
    def api_version(self) -> int:
        """The version that the client chose."""
        ...

    @property
    def principal(self) -> Principal:
        """The principal of the connection."""
        ...

    @property
    def client_id(self) -> str | None:
        """The client id in the request's header."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it: a slash, then the address."""
        ...

    @property
    def connection(self) -> Hashable:
        """What identifies the connection as long as it lives."""
        ...

    def when_disconnected(self, name: str, action: Callable[[], None]) -> None:
        """Call `action` when the connection is lost, also if that is after the answer. A later action of the
        same name replaces it.
        """
        ...

    def answer(self, response: Any) -> None:
        """Send the response. Call it once; does nothing if the connection is lost."""
        ...

    def answer_frame(self, frame: bytes | bytearray) -> None:
        """Send an encoded response with its length and correlation id; an alternative to `answer`."""
        ...

    def in_steps(self, steps: RequestSteps[ResultT], then: Callable[[ResultT], None]) -> None:
        """Run `steps` without blocking the loop, and call `then` with their result; later requests of the
        connection wait. Does not call `then` if the connection is lost.
        """
        ...

    def answer_in_steps(self, steps: RequestSteps[Any]) -> None:
        """Run `steps` without blocking the loop, and send the response they return; an alternative to
        `answer`. If they take long, the response is encoded in a thread, and later requests of the connection
        wait.
        """
        ...

    def answer_aside(self, make: Callable[[], Any]) -> None:
        """Make and encode the response in a thread, and send it; an alternative to `answer`, for long
        responses made from immutable values.
        """
        ...

    def no_answer(self) -> None:
        """Finish the request without a response (Produce with acks=0)."""
        ...

    def when_lost(self, action: Callable[[], None]) -> None:
        """Call `action` if the connection is lost before the answer."""
        ...

    def guard(self, action: Callable[..., None]) -> Callable[..., None]:
        """Return a wrapper of `action`, to be called later for this request: if it raises, the connection is
        closed.

        For timers, waiters and syncs. The coordinator and `in_steps` do the same by themselves.
        """
        ...

    def disconnect(self, reason: str) -> None:
        """Close the connection: the only way to report a failure to a client that expects no response."""
        ...


class RepeatedCalls(Protocol):
    """Repeated requests (`headgate.api.repeats`) that are served together."""

    def __iter__(self) -> Iterator[Call]: ...

    def part(self, first: int, end: int) -> RepeatedCalls:
        """Return the calls from `first` to `end` (exclusive)."""
        ...

    def request_at(self, index: int) -> Any:
        """Decode the request of the call at this index."""
        ...

    def answer_written(self, responses: list[WrittenResponse]) -> None:
        """Send each its encoded response; call it once, unless they are answered one by one."""
        ...


class Repeat(Protocol):
    """Serves a request that differs from an earlier one in numbers only."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the fields of the request, each a number of 8 bytes, that may change."""
        ...

    def is_current(self, node: Node) -> bool:
        """Return whether the request still has the same meaning; if not, it must be decoded again."""
        ...

    @property
    def shard(self) -> int:
        """The partition of `__consumer_offsets` with its group."""
        ...

    @property
    def weight_bytes(self) -> int:
        """Approximate size of its records in a log."""
        ...

    @property
    def has_long_response(self) -> bool:
        """Whether its last response was much longer than the request."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Approximate size in memory, without its frame and the names in it."""
        ...

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Serve current requests of this class and of one shard, in order: each repeat with its call and its
        numbers, in the order of the message.
        """
        ...


class ShardOwner(Protocol):
    """The node that runs a group's shard: its address for clients, and the way to the shard."""

    @property
    def node_id(self) -> int:
        """The id of the node."""
        ...

    @property
    def host(self) -> str:
        """Host that clients connect to."""
        ...

    @property
    def port(self) -> int:
        """Port that clients connect to."""
        ...

    def submit(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command to the group's shard; `on_reply` gets its result when it is durable, or an
        `ErrorCode`, always retriable, if the shard cannot answer (it is loading, or its log failed).
        """
        ...


class Router(Protocol):
    """Knows which node runs which shard, so that any node can answer for any group (R3.14)."""

    def owner_of(self, group_id: GroupId) -> ShardOwner:
        """Return the node that runs the group's shard: this one or another."""
        ...


class Coordinator(Protocol):
    """A coordinator as handlers see it: the shards of one kind on this node.

    The key of a group's shard is the group's id, that of a transaction's the transactional id.
    """

    def submit(self, key: str, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command to the shard of a key, which is here; handlers ask the router for the owner of a
        group's shard.
        """
        ...

    def partition_of(self, key: str) -> int:
        """Return the partition of the kind's topic with a key."""
        ...

    @property
    def is_wary(self) -> bool:
        """Whether a command recently failed a shard: commands are then submitted one by one."""
        ...

    @property
    def shard_count(self) -> int:
        """Number of shards; they are numbered from 0."""
        ...

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command to a shard, whatever its key."""
        ...


class KeyedShards(Protocol):
    """The shards of another kind on this node, as handlers see them."""

    def submit(self, key: str, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command to the shard of a key; see `ShardOwner.submit` for `on_reply`."""
        ...


class WaitingShareFetch(Protocol):
    """A fetch of a member of a share group, which may wait for records."""

    def begin(self) -> RequestSteps[None]:
        """Look for records, in steps."""
        ...

    def cancel(self) -> None:
        """Give the fetch up: its connection is lost."""
        ...


class ShareAdministration(Protocol):
    """Describes and alters the deliveries of share-partitions."""

    def describe(
        self, group_id: GroupId, key: PartitionKey, first_offset: int, most: int
    ) -> RequestSteps[DeliveryPage]:
        """Return a page of deliveries from an offset on, with at most so many ranges."""
        ...

    def alter(
        self,
        group_id: GroupId,
        key: PartitionKey,
        alteration: Alteration,
        ranges: Sequence[OffsetRange],
        *,
        is_dry_run: bool,
    ) -> RequestSteps[AlterationResult]:
        """Alter the deliveries of ranges, or plan it; `ranges` are ascending and do not overlap."""
        ...


class ShareDelivery(Protocol):
    """Delivers records to the members of share groups (KIP-932)."""

    sessions: ShareSessions

    @property
    def administration(self) -> ShareAdministration:
        """What administrators may see and change."""
        ...

    def lock_duration_ms(self, group_id: GroupId) -> int:
        """Return for how long the records that a group's members acquire are locked."""
        ...

    def needs_preparation(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> bool:
        """Return whether a fetch must run `prepare` before."""
        ...

    def prepare(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> RequestSteps[None]:
        """Take share-partitions into use that are not yet, in steps."""
        ...

    def fetch(
        self, wish: ShareFetchWish, on_done: Callable[[list[DeliveredRecords]], None]
    ) -> WaitingShareFetch:
        """Return a fetch, to be begun. It calls `on_done` with what it acquired, at once or later."""
        ...

    def acknowledge(
        self,
        session: ShareSession,
        given: Acknowledgements,
        *,
        is_renewing: bool,
        on_done: Callable[[AcknowledgeErrors], None],
    ) -> RequestSteps[None]:
        """Acknowledge records, in steps; `on_done` gets the result of each partition when all are durable."""
        ...

    def close_session(self, session: ShareSession) -> None:
        """End a session, and release what its member has acquired; do nothing if it has ended."""
        ...

    def session_refused(self, call: Call) -> None:
        """Log that there are too many sessions, or too many partitions in them, for this client's request."""
        ...

    def give_up(self, session: ShareSession) -> None:
        """Close a session of a connection with many, for that of another one, and log it."""
        ...

    def connection_lost(self, connection: Hashable) -> None:
        """End the sessions of a lost connection."""
        ...

    def forget(self, group_id: GroupId, key: PartitionKey) -> None:
        """Discard what is known of a share-partition whose state somebody else changed."""
        ...

    def repaused(self, group_id: GroupId, on_done: Callable[[], None]) -> None:
        """Follow the pauses of a group that were just changed, then call `on_done`."""
        ...

    def is_being_released(self, group_id: GroupId, key: PartitionKey) -> bool:
        """Return whether a share-partition is paused, and members have records or writes are due."""
        ...

    def has_letters(self, group_id: GroupId, key: PartitionKey) -> bool:
        """Return whether records of a share-partition wait for their dead letters."""
        ...

    def holder(self, group_id: GroupId, key: PartitionKey) -> MemberId | None:
        """Return a member that has records of a share-partition; None if there is none."""
        ...


class Durability(Protocol):
    """Group commit: one sync for everything appended meanwhile."""

    def when_durable(self, log: Log, on_done: Callable[[bool], None]) -> None:
        """Call `on_done(True)` when everything `log` has now is durable, `on_done(False)` if that fails."""
        ...


class OffsetHistory(Protocol):
    """The former offsets of this node's groups."""

    def describe(
        self,
        query: HistoryQuery,
        max_wait_ms: int,
        render: Callable[[GroupHistory], ResultT],
        on_reply: Callable[[ResultT | ErrorCode], None],
    ) -> None:
        """Read the history without blocking the loop; report as unknown what was not read within
        `max_wait_ms`.

        `render` makes the result from the answer, in another thread, as an answer may be long.
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
    """The batches of producers that are being checked and appended."""

    @property
    def router(self) -> Router:
        """Finds the owners of shards."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator."""
        ...

    @property
    def share_state(self) -> KeyedShards:
        """The share coordinator (`headgate.core.share.state`), by the names of share-partitions' keys."""
        ...

    @property
    def shares(self) -> ShareDelivery:
        """The delivery of records to share groups."""
        ...

    @property
    def transactions(self) -> Coordinator:
        """The transaction coordinator (`headgate.core.transactions`), by transactional ids."""
        ...

    @property
    def history(self) -> OffsetHistory:
        """The history of offsets."""
        ...

    @property
    def durability(self) -> Durability:
        """The service that syncs logs."""
        ...

    def system_time(self) -> Millis:
        """Return the system time in ms since the epoch: for timestamps and ages."""
        ...

    def steady_time(self) -> Millis:
        """Return the steady time in ms: for deadlines."""
        ...

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Run `action` after `delay_ms` unless the returned function is called before."""
        ...

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` in one of the next iterations of the loop; other such actions may come first."""
        ...

    def run_in_background(self, name: str, steps: RequestSteps[Any]) -> None:
        """Run steps that no request waits for, without blocking the loop; `name` is logged if they fail."""
        ...

    def new_member_id(self, client_id: str | None) -> str:
        """Return a new id for a member of a classic group as in Kafka: the client id, a dash, a random
        UUID.
        """
        ...

    def new_consumer_member_id(self) -> str:
        """Return a new id for a member of a consumer group as in Kafka: a random UUID in 22 characters."""
        ...
