"""Clients that use the server normally, and report any error or delay.

Each runs one step in a loop; a step sends a few requests and checks every answer. Their groups and topics
have `neighbour` in the name.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.hostile.generator import NEIGHBOUR

from headgate.client.connection import Connection
from headgate.client.errors import ClientError
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch, iterate_records
from headgate.wire.message import Request, Response
from headgate.wire.messages import consumer_group_heartbeat as consumer
from headgate.wire.messages import create_topics, fetch, join_group, offset_commit, offset_fetch, produce
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

ResponseT = TypeVar("ResponseT", bound=Response)

TOPIC = f"{NEIGHBOUR}-topic"
PAUSE_S = 0.02
PATIENCE_S = 30.0
"""A request without an answer after this time counts as lost."""


class Neighbour:
    """One client in its own thread; `problems` is empty as long as there are none."""

    def __init__(self, name: str, port: int, step: Callable[[Neighbour], None]) -> None:
        self.name = name
        self.steps = 0
        self.slowest_s = 0.0
        self.slowest_request = ""
        self.problems: list[str] = []
        self.connection = Connection("127.0.0.1", port, PATIENCE_S, name)
        self._step = step
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step."""
        self._is_over.set()
        self._thread.join(2 * PATIENCE_S)
        self.connection.close()
        if not self.steps and not self.problems:
            self.problems.append("did nothing")

    def ask(self, message: Request[ResponseT], version: int | None = None) -> ResponseT:
        """Send a request and record its latency."""
        began = time.perf_counter()
        answer = self.connection.request(message, version)
        took = time.perf_counter() - began
        if took > self.slowest_s:
            self.slowest_s, self.slowest_request = took, type(message).__name__
        return answer

    def check(self, what: str, found: Any, expected: Any) -> None:
        """Record a difference between a found and an expected value."""
        if found != expected:
            self.problems.append(f"step {self.steps}: {what} is {found!r}, not {expected!r}")

    def _run(self) -> None:
        try:
            while not self._is_over.wait(PAUSE_S) and len(self.problems) < 5:
                self._step(self)
                self.steps += 1
        except ClientError as error:
            self.problems.append(f"step {self.steps}: {error}")


def create_topic(port: int, name: str, partitions: int = 3) -> None:
    """Create a topic; it may exist."""
    with Connection("127.0.0.1", port, PATIENCE_S, NEIGHBOUR) as connection:
        topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = connection.request(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), answer


@contextmanager
def neighbours(port: int) -> Iterator[list[Neighbour]]:
    """Run four clients for the duration of the block."""
    create_topic(port, TOPIC)
    found = [
        Neighbour(f"{NEIGHBOUR}-committer", port, _committing()),
        Neighbour(f"{NEIGHBOUR}-producer", port, _producing()),
        Neighbour(f"{NEIGHBOUR}-classic", port, _classic_member()),
        Neighbour(f"{NEIGHBOUR}-member", port, _consumer_member()),
    ]
    for one in found:
        one.start()
    try:
        yield found
    finally:
        for one in found:
            one.stop()


def _committing() -> Callable[[Neighbour], None]:
    """Commit an offset and fetch it, repeatedly: the fetch returns the acknowledged commit."""
    offsets = itertools.count()

    def step(self: Neighbour) -> None:
        offset = next(offsets)
        partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        commit = offset_commit.OffsetCommitRequest(group_id=self.name, topics=[topic])
        committed = self.ask(commit, 9)
        self.check("the error of a commit", committed.topics[0].partitions[0].error_code, ErrorCode.NONE)
        wanted = offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])
        fetched = self.ask(offset_fetch.OffsetFetchRequest(groups=[group]), 9)
        self.check("a fetched offset", fetched.groups[0].topics[0].partitions[0].committed_offset, offset)

    return step


def _producing() -> Callable[[Neighbour], None]:
    """Produce a record and fetch it: it is at the returned offset, unchanged."""
    numbers = itertools.count()

    def step(self: Neighbour) -> None:
        value = b"%d" % next(numbers)
        batch = bytes(encode_batch([Record(b"key", value, int(time.time() * 1000))]))
        data = produce.PartitionProduceData(index=1, records=batch)
        topic = produce.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        produced = self.ask(request, 9).responses[0].partition_responses[0]
        self.check("the error of a produce", produced.error_code, ErrorCode.NONE)
        where = fetch.FetchPartition(
            partition=1, fetch_offset=produced.base_offset, partition_max_bytes=1 << 20
        )
        wanted = fetch.FetchTopic(topic=TOPIC, partitions=[where])
        read = fetch.FetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
        records = self.ask(read, 11).responses[0].partitions[0].records
        values = [record.value for _, record in iterate_records(records or b"")]
        self.check("the record that was fetched", values[:1], [value])

    return step


def _classic_member() -> Callable[[Neighbour], None]:
    """Join once, as the only member, and heartbeat: the generation never changes."""
    joined: list[Any] = []

    def step(self: Neighbour) -> None:
        if not joined:
            joined.append(_join(self))
        group, member, generation = self.name, joined[0].member_id, joined[0].generation_id
        beat = self.ask(HeartbeatRequest(group_id=group, member_id=member, generation_id=generation))
        self.check("the error of a heartbeat", beat.error_code, ErrorCode.NONE)

    return step


def _join(self: Neighbour) -> Any:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")

    def request(member_id: str) -> Any:
        return self.ask(
            join_group.JoinGroupRequest(
                group_id=self.name,
                member_id=member_id,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )

    answer = request(request("").member_id)
    self.check("the error of a join", answer.error_code, ErrorCode.NONE)
    own = SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"mine")
    synced = self.ask(
        SyncGroupRequest(
            group_id=self.name,
            member_id=answer.member_id,
            generation_id=answer.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[own],
        )
    )
    self.check("the assignment", (synced.error_code, synced.assignment), (ErrorCode.NONE, b"mine"))
    return answer


def _consumer_member() -> Callable[[Neighbour], None]:
    """Be the only member of a consumer group: it keeps its partitions, and no epoch is lost."""
    last: list[Any] = []

    def step(self: Neighbour) -> None:
        beat = consumer.ConsumerGroupHeartbeatRequest(group_id=self.name, member_id=self.name)
        if last:
            beat.member_epoch, beat.topic_partitions = last[0].member_epoch, None
        else:
            beat.rebalance_timeout_ms, beat.subscribed_topic_names = 30_000, [TOPIC]
        answer = self.ask(beat)
        self.check("the error of a heartbeat", answer.error_code, ErrorCode.NONE)
        last[:] = [answer]

    return step
