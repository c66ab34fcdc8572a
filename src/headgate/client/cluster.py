"""A client's view of a cluster: leaders of partitions, coordinators of groups, metadata, offsets and records.

It works with one Headgate and with a Kafka cluster of many brokers. Connections are opened when they are
first needed, and kept. Requests that fail with a retriable error are sent again, until the timeout.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from headgate.client.connection import LONGEST_THROTTLE_S, Connection
from headgate.client.errors import (
    AnswerLost,
    AuthenticationFailed,
    AuthenticationInterrupted,
    BadResponse,
    ClientError,
    ConnectionFailed,
    NoNodeReachable,
    RequestRefused,
    RequestTimedOut,
    TlsFailed,
    TlsInterrupted,
    check,
)
from headgate.client.security import NOT_SECURED, Security
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName, TopicPartition
from headgate.wire.message import ZERO_UUID, Request, Response
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.find_coordinator import FindCoordinatorRequest
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.wire.primitives import LONGEST_STRING_BYTES

EARLIEST = -2
"""The timestamp that means the first offset of a log."""
LATEST = -1
"""The timestamp that means the end of a log, the offset after the last record."""

NO_OFFSET = -1
"""The result for a timestamp later than that of every record; also a committed offset that does not exist."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels: all records, or those before the first open transaction."""

LAST_FETCH_BY_NAME = 12
SEVERAL_COORDINATORS_SINCE = 4
GROUP_KEY_TYPE = 0
RETRY_DELAY_S = 0.1
SHORTEST_ATTEMPT = 0.05
"""The share of a call's timeout that must be left for another attempt. A shorter one would only time out, and
its error would hide the cause.
"""
LAST_PORT = 65_535

Address = tuple[str, int]
"""Host and port."""

ResponseT = TypeVar("ResponseT", bound=Response)
ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT")

KEYS_IN_LOOKUP = 1_000
"""How many coordinators one request looks up."""


@dataclass(frozen=True, slots=True)
class Located(Generic[KeyT]):
    """Groups or partitions by the node that answers for them; `failed`: why none does."""

    by_node: dict[Address, list[KeyT]]
    failed: dict[KeyT, ClientError]


class AbortedTransaction(NamedTuple):
    """The first offset of an aborted transaction in a partition, and its producer."""

    first_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """Record batches of a partition, as bytes. The first batch can start before the fetch offset.

    `aborted` has the aborted transactions with batches among them, with READ_COMMITTED only.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()


class Cluster:
    """A client of a cluster. Close it, or use it in a `with` block.

    `bootstrap_servers` are `host:port`, separated by commas. `timeout_s` limits each call, with its retries.
    Once a node was reached, a call waits this long for nodes that restart; with `waits_for_nodes` also
    before, which is for servers that are known to be right. `leaders` are used until one refuses a request.
    Methods raise the errors of `headgate.client.errors`. Not thread-safe: a thread that calls while another
    one does gets RuntimeError. In a forked process it opens connections of its own: answers on the former
    ones are for the parent.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        timeout_s: float = 10.0,
        client_id: str = "headgate",
        *,
        leaders: Mapping[TopicPartition, Address] | None = None,
        waits_for_nodes: bool = False,
        security: Security = NOT_SECURED,
    ) -> None:
        self.timeout_s = timeout_s
        self.client_id = client_id
        self.security = security
        self.waits_for_nodes = waits_for_nodes
        self._was_reached = False
        self._is_closed = False
        self._process_id = os.getpid()
        self._in_use = threading.RLock()
        """Held during a call, by its thread: a call may consist of others."""
        self._deadline: float | None = None
        self._bootstrap = [parse_address(each) for each in bootstrap_servers.split(",")]
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[TopicPartition, Address] = dict(leaders or {})
        self._leaderless: dict[TopicPartition, int] = {}
        """Partitions without a leader, and the error that says so."""
        self._coordinators: dict[GroupId, Address] = {}

    def close(self) -> None:
        """Close all connections. Later calls raise `RuntimeError`."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def interrupt(self) -> None:
        """End all connections, also those that another thread waits for. That thread closes them."""
        for connection in list(self._connections.values()):
            connection.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- nodes ---

    def any_node(self) -> Connection:
        """Return an open connection, else one to the first bootstrap server that can be reached.

        One that hangs has a share of the timeout only, so that the others are tried, too.
        """
        self._refuse_closed()
        for connection in self._connections.values():
            if connection.is_open:
                connection.timeout_s = self._time_left()
                return connection
        failures: list[ClientError] = []
        for number, address in enumerate(self._bootstrap):
            try:
                return self._connection_to(address, share=1 / (len(self._bootstrap) - number))
            except (ConnectionFailed, RequestTimedOut) as error:
                failures.append(error)
        text = "; ".join(map(str, failures))
        if not (self.waits_for_nodes or self._was_reached):  # a port and a URL that worked once are not wrong
            if all(isinstance(error, TlsInterrupted) for error in failures):
                raise TlsFailed(text)  # probably a port without TLS: no reason to try again
            if all(isinstance(error, AuthenticationInterrupted) for error in failures):
                raise AuthenticationFailed(text)  # probably a wrong URL
        raise NoNodeReachable(text)

    def coordinator(self, group_id: GroupId) -> Connection:
        """Return a connection to the coordinator of a group."""
        return self.retrying(lambda: self._coordinator(group_id))

    def coordinators(self, group_ids: Iterable[GroupId]) -> dict[Connection, list[GroupId]]:
        """Return the groups of each coordinator."""
        return self.retrying(lambda: self._coordinators_of(list(group_ids)))

    def nodes(self) -> list[Connection]:
        """Return a connection to every node of the cluster."""
        brokers = self.metadata([]).brokers
        return [self._connection_to((broker.host, broker.port)) for broker in brokers]

    def node_at(self, address: Address) -> Connection:
        """Return a connection to the node at an address that the cluster has named."""
        return self._connection_to(address)

    def leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[Connection, list[TopicPartition]]:
        """Return the partitions of each leader. Raises `RequestRefused` for one that does not exist."""
        return self.retrying(lambda: self._leaders_of(list(partitions)))

    def learn_coordinators(self, coordinators: Mapping[GroupId, Address]) -> None:
        """Store coordinators that are known, such as the nodes that have listed the groups."""
        self._coordinators.update(coordinators)

    def locate_coordinators(self, group_ids: list[GroupId]) -> Located[GroupId]:
        """Return the groups of each coordinator, without connecting to it."""
        with self._used_by_one_thread():
            failed = self.retrying(lambda: self._look_up_coordinators(group_ids))
            by_node: dict[Address, list[GroupId]] = {}
            for group_id in group_ids:
                if group_id not in failed:
                    by_node.setdefault(self._coordinators[group_id], []).append(group_id)
            return Located(by_node, failed)

    def locate_leaders(self, partitions: list[TopicPartition]) -> Located[TopicPartition]:
        """Look up the leaders of partitions, without connecting to them.

        A partition that does not exist is failed with UNKNOWN_TOPIC_OR_PARTITION.
        """
        response = self.metadata(sorted({where.topic for where in partitions}))
        self.learn_leaders(response)
        codes = {topic.name: topic.error_code for topic in response.topics}
        there = {(topic.name, one.partition_index) for topic in response.topics for one in topic.partitions}
        by_node: dict[Address, list[TopicPartition]] = {}
        failed: dict[TopicPartition, ClientError] = {}
        for where in partitions:
            if code := codes.get(where.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                failed[where] = RequestRefused(f"topic {where.topic}", code)
            elif where not in there:
                failed[where] = RequestRefused(str(where), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif where in self._leaderless:
                failed[where] = RequestRefused(str(where), self._leaderless[where])
            else:
                by_node.setdefault(self._leaders[where], []).append(where)
        return Located(by_node, failed)

    def ask_coordinator(self, group_id: GroupId, message: Request[ResponseT]) -> ResponseT:
        """Send a request to the group's current coordinator.

        The caller checks the error codes in the response. After NOT_COORDINATOR it calls `forget`.
        """
        return self.retrying(lambda: self._coordinator(group_id).request(message))

    def retrying(self, attempt: Callable[[], ResultT], extra_time_s: float = 0.0) -> ResultT:
        """Call `attempt` until it succeeds, raises an error that is not retriable, or the timeout ends.

        Leaders and coordinators are looked up again for each attempt. The timeout is `timeout_s +
        extra_time_s`. If an attempt got no answer, the error of a later one has a note that says so: the
        first may have been carried out.
        """
        with self._used_by_one_thread():
            return self._retried(attempt, extra_time_s)

    def _retried(self, attempt: Callable[[], ResultT], extra_time_s: float) -> ResultT:
        lost: ClientError | None = None
        outer = self._deadline
        delay_s = RETRY_DELAY_S + SHORTEST_ATTEMPT * self.timeout_s
        deadline = time.monotonic() + self.timeout_s + extra_time_s
        self._deadline = deadline = deadline if outer is None else min(outer, deadline)
        try:
            while True:
                try:
                    return attempt()
                except ClientError as error:
                    if not self._is_passing(error) or time.monotonic() + delay_s > deadline:
                        if lost is not None and lost is not error:
                            error.add_note(f"an earlier attempt may have been carried out: {lost}")
                        raise
                    if isinstance(error, AnswerLost):
                        lost = error
                    self.forget()
                time.sleep(RETRY_DELAY_S)
        finally:
            self._deadline = outer
            if outer is None:
                for connection in self._connections.values():
                    connection.timeout_s = self.timeout_s

    def forget(self) -> None:
        """Forget all leaders and coordinators. They are looked up again when they are needed."""
        self._leaders.clear()
        self._coordinators.clear()

    @property
    def addresses(self) -> list[Address]:
        """The bootstrap servers, for another cluster to begin with."""
        return list(self._bootstrap)

    @property
    def leaders(self) -> dict[TopicPartition, Address]:
        """The leaders that are known, for another cluster to begin with."""
        return dict(self._leaders)

    # --- topics ---

    def metadata(self, topics: Iterable[TopicName] | None = None) -> MetadataResponse:
        """Return the nodes and the topics (None: all topics). The caller checks the topics' error codes.

        Never creates a topic.
        """
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        message = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        return self.retrying(lambda: self.any_node().request(message))

    def partitions_of(self, topic: TopicName) -> list[int]:
        """Return the partitions of a topic, sorted. Raises `RequestRefused` if the topic does not exist."""
        (found,) = self.metadata([topic]).topics
        check(f"topic {topic}", found.error_code)
        return sorted(partition.partition_index for partition in found.partitions)

    def topic_names(self, topic_ids: Iterable[TopicId]) -> dict[TopicId, TopicName]:
        """Return the names of topics. Unknown ids are omitted."""
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        found = self.retrying(lambda: self.any_node().request(message)).topics
        return {
            TopicId(topic.topic_id): TopicName(topic.name)
            for topic in found
            if topic.error_code == ErrorCode.NONE and topic.name is not None
        }

    def learn_leaders(self, response: MetadataResponse) -> None:
        """Store the leaders in a response. A partition without a leader does not affect the others."""
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._leaderless.clear()
        for topic in response.topics:
            for partition in topic.partitions:
                where = TopicPartition(TopicName(str(topic.name)), partition.partition_index)
                if partition.leader_id in addresses:
                    self._leaders[where] = addresses[partition.leader_id]
                else:
                    self._leaderless[where] = partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """Return for each partition the offset of the first record with at least this timestamp, in ms.

        The timestamps `EARLIEST` and `LATEST` stand for the start and the end of the log. The result is
        `NO_OFFSET` if no record has such a timestamp. With READ_COMMITTED the log ends at the first open
        transaction.
        """
        return self.retrying(lambda: self._list_offsets(timestamps, isolation_level))

    def fetch(
        self,
        topic: TopicName,
        partition: int,
        offset: int,
        *,
        topic_id: TopicId | None = None,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> Fetched:
        """Fetch the records of a partition from an offset on: at least one batch, if there is one.

        With a `topic_id` a later topic of the same name is not read, if the node knows fetches by id (Kafka
        3.1). With READ_COMMITTED records of aborted transactions are among them, for the caller to leave out,
        but none of open ones. Waits up to `max_wait_ms` for the first record. Raises `RequestRefused`:
        OFFSET_OUT_OF_RANGE for an offset outside of the log, UNKNOWN_TOPIC_ID for a topic that was deleted.
        """
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic=topic, topic_id=topic_id or ZERO_UUID, partitions=[wanted])],
        )
        return self.retrying(lambda: self._fetch(topic, partition, message), extra_time_s=max_wait_ms / 1000)

    # --- one attempt each ---

    def _leader_for(self, topic: TopicName, partition: int) -> Connection:
        where = TopicPartition(topic, partition)
        if where not in self._leaders:
            names = [MetadataRequestTopic(name=topic)]
            response = self.any_node().request(MetadataRequest(topics=names, allow_auto_topic_creation=False))
            (found,) = response.topics
            check(f"topic {topic}", found.error_code)
            self.learn_leaders(response)
        if where not in self._leaders:
            raise RequestRefused(
                str(where), self._leaderless.get(where, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
        return self._connection_to(self._leaders[where])

    def _leaders_of(self, partitions: list[TopicPartition]) -> dict[Connection, list[TopicPartition]]:
        unknown = sorted({where.topic for where in partitions if where not in self._leaders})
        if unknown:
            self.learn_leaders(self.metadata(unknown))
        leaders: dict[Connection, list[TopicPartition]] = {}
        for where in partitions:
            leaders.setdefault(self._leader_for(*where), []).append(where)
        return leaders

    def _is_passing(self, error: ClientError) -> bool:
        waits = self.waits_for_nodes or self._was_reached
        return is_passing(error) or (waits and isinstance(error, NoNodeReachable))

    def _coordinator(self, group_id: GroupId) -> Connection:
        self._find_coordinators([group_id])
        return self._connection_to(self._coordinators[group_id])

    def _coordinators_of(self, group_ids: list[GroupId]) -> dict[Connection, list[GroupId]]:
        self._find_coordinators(group_ids)
        groups: dict[Connection, list[GroupId]] = {}
        for group_id in group_ids:
            groups.setdefault(self._connection_to(self._coordinators[group_id]), []).append(group_id)
        return groups

    def _find_coordinators(self, group_ids: Iterable[GroupId]) -> None:
        for error in self._look_up_coordinators(group_ids).values():
            raise error

    def _look_up_coordinators(self, group_ids: Iterable[GroupId]) -> dict[GroupId, ClientError]:
        """Look up the coordinators of groups, many in one request if the node supports that.

        Returns the groups without one, and why.
        """
        unknown = [group_id for group_id in dict.fromkeys(group_ids) if group_id not in self._coordinators]
        failed: dict[GroupId, ClientError] = {}
        for group_id in unknown:
            if (refused := _too_long(group_id)) is not None:
                failed[group_id] = refused
        left = [group_id for group_id in unknown if group_id not in failed]
        if not left:
            return failed
        node = self.any_node()
        if node.version_for(FindCoordinatorRequest) < SEVERAL_COORDINATORS_SINCE:
            for group_id in left:
                found = node.request(FindCoordinatorRequest(key=group_id, key_type=GROUP_KEY_TYPE))
                self._learn_coordinator(
                    group_id, (found.host, found.port), found.error_code, found.error_message, failed
                )
            return failed
        for at in range(0, len(left), KEYS_IN_LOOKUP):
            some = left[at : at + KEYS_IN_LOOKUP]
            message = FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=list(some))
            for one in node.request(message).coordinators:
                self._learn_coordinator(
                    GroupId(one.key), (one.host, one.port), one.error_code, one.error_message, failed
                )
        for group_id in left:
            if group_id not in self._coordinators and group_id not in failed:
                raise BadResponse(f"{node.address} does not name the coordinator of group {group_id}")
        return failed

    def _learn_coordinator(
        self,
        group_id: GroupId,
        address: Address,
        code: int,
        reason: str | None,
        failed: dict[GroupId, ClientError],
    ) -> None:
        if code == ErrorCode.NONE:
            self._coordinators[group_id] = address
        else:
            failed[group_id] = RequestRefused(f"the coordinator of group {group_id}", code, reason)

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, int]:
        offsets = {}
        for leader, partitions in self._leaders_of(list(timestamps)).items():
            topics: dict[TopicName, list[ListOffsetsPartition]] = {}
            for where in partitions:
                wanted = ListOffsetsPartition(partition_index=where.partition, timestamp=timestamps[where])
                topics.setdefault(where.topic, []).append(wanted)
            message = ListOffsetsRequest(
                replica_id=-1,
                timeout_ms=round(self.timeout_s * 1000),
                isolation_level=isolation_level,
                topics=[ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
            )
            for answer in leader.request(message).topics:
                for found in answer.partitions:
                    where = TopicPartition(TopicName(answer.name), found.partition_index)
                    check(f"offsets of {where}", found.error_code)
                    offsets[where] = found.offset
        return offsets

    def _fetch(self, topic: TopicName, partition: int, message: FetchRequest) -> Fetched:
        leader = self._leader_for(topic, partition)
        knows_id = message.topics[0].topic_id != ZERO_UUID
        while True:
            response = leader.request(
                message,
                at_most=None if knows_id else LAST_FETCH_BY_NAME,
                extra_time_s=message.max_wait_ms / 1000,
            )
            check(f"fetch of {topic}-{partition}", response.error_code)
            if response.responses:
                break
            self._wait_for_quota(f"fetch of {topic}-{partition}", response.throttle_time_ms)
        found = [one for each in response.responses for one in each.partitions]
        if len(found) != 1:
            raise BadResponse(f"{leader.address} answers for {len(found)} partitions, and was asked for one")
        (answered,) = found
        check(f"fetch of {topic}-{partition}", answered.error_code)
        return Fetched(
            records=answered.records or b"",
            high_watermark=answered.high_watermark,
            last_stable_offset=answered.last_stable_offset,
            log_start_offset=answered.log_start_offset,
            aborted=tuple(
                AbortedTransaction(one.first_offset, one.producer_id)
                for one in answered.aborted_transactions or ()
            ),
        )

    def _wait_for_quota(self, what: str, throttle_time_ms: int) -> None:
        """Wait as long as a node demands of a client above its quota: such a fetch has no records (KIP-219).

        The time does not count for the timeout of the call. Raises `RequestTimedOut` if it is too long.
        """
        wait_s = max(throttle_time_ms / 1000, RETRY_DELAY_S)
        if wait_s > LONGEST_THROTTLE_S:
            raise RequestTimedOut(f"{what}: the client is above its quota, and must wait for {wait_s:g} s")
        time.sleep(wait_s)
        if self._deadline is not None:
            self._deadline += wait_s

    # --- connections ---

    @contextmanager
    def _used_by_one_thread(self) -> Iterator[None]:
        """Refuse a second thread: it would forget what the first one looked up, and set its deadline."""
        self._leave_parent()
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                f"the client of {self._names} is in use by another thread; use one client for each thread"
            )
        try:
            yield
        finally:
            self._in_use.release()

    def _leave_parent(self) -> None:
        """In a forked process, leave the connections and a call of another thread to the parent."""
        if self._process_id != os.getpid():
            self._process_id = os.getpid()
            self._in_use = threading.RLock()
            self._deadline = None
            for connection in self._connections.values():
                connection.close()  # of this process alone
            self._connections.clear()

    @property
    def _names(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._bootstrap)

    def _refuse_closed(self) -> None:
        self._leave_parent()
        if self._is_closed:
            raise RuntimeError(f"this client of {self._names} is closed; make a new one")

    def _connection_to(self, address: Address, share: float = 1.0) -> Connection:
        """Return an open connection. `share`: how much of the time that is left a new one may take."""
        self._refuse_closed()
        connection = self._connections.get(address)
        if connection is not None and not connection.is_open:
            connection.close()  # its authentication has ended, or the node has closed it
            connection = None
        if connection is None:
            connection = Connection(*address, share * self._time_left(), self.client_id, self.security)
            self._connections[address] = connection
            self._was_reached = True
        connection.timeout_s = self._time_left()
        return connection

    def _time_left(self) -> float:
        """What a request may take, in seconds: the whole timeout, or what is left of it to a repeated one."""
        if self._deadline is None:
            return self.timeout_s
        return min(self.timeout_s, max(self._deadline - time.monotonic(), 0.001))


def _too_long(group_id: GroupId) -> RequestRefused | None:
    """Refuse a group id that is too long. A node would only close the connection."""
    size = len(group_id.encode("utf-8", "surrogatepass"))
    if size <= LONGEST_STRING_BYTES:
        return None
    reason = f"the limit is {LONGEST_STRING_BYTES} bytes"
    return RequestRefused(f"a group id of {size} bytes", ErrorCode.INVALID_GROUP_ID, reason)


def is_passing(error: ClientError) -> bool:
    """Tell whether the next attempt can succeed, after leaders and coordinators are looked up again."""
    if isinstance(error, RequestRefused):
        return error.is_retriable
    return isinstance(error, ConnectionFailed) and not isinstance(error, NoNodeReachable)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, also of `[::1]:9092`. Raises `ValueError`."""
    host, _, port = text.strip().rpartition(":")
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(LAST_PORT))
    if not host or "/" in host or not is_number or int(port) > LAST_PORT:
        raise ValueError(f"not an address of the form host:port: {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
