"""Many clients on connections of their own: they commit, fetch, delete, and write down what they were told.

A commit writes a number of its own, so that every value tells where it comes from. Several clients share a
group. When the server is gone each comes back by itself, on a new connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tests.linearizability.checker import ABSENT, Key, Value
from tests.linearizability.history import History, Pending

from headgate.domain.errors import ErrorCode
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request, Response
from headgate.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

ResponseT = TypeVar("ResponseT", bound=Response)

COMMIT_VERSION = FETCH_VERSION = 8
NARROW, WIDE, LONG = "narrow", "wide", "long"
PARTITIONS: Mapping[str, int] = {NARROW: 3, WIDE: 100, LONG: 260}
LONG_METADATA_BYTES = 4000
"""So much for each of the long topic's partitions is more than one batch takes."""

Answer = Callable[[], Awaitable[None]]
"""Waits for a request's answer and writes it down."""


class Lost(Exception):
    """The connection is no more."""


class AsyncConnection:
    """One connection; its requests are answered in their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> AsyncConnection:
        """Connect; raises OSError."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    def send(self, request: Request[ResponseT], version: int) -> None:
        """Send a request."""
        self._writer.write(request_frame(request, version, correlation_id=7, client_id="linearizability"))

    async def receive(self, response_type: type[ResponseT], version: int) -> ResponseT:
        """The next response. Raises Lost."""
        try:
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as problem:
            raise Lost from problem
        _, body_at = read_response_header(frame, response_type.API_KEY, version)
        return decode(response_type, version, frame, body_at)

    def close(self) -> None:
        """Close it, whatever is on its way."""
        self._writer.transport.abort()


@dataclass
class Load:
    """What all clients have in common."""

    history: History
    port: int
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    is_over: bool = False
    _numbers: int = 0

    def next_number(self) -> int:
        """A number nobody had before."""
        self._numbers += 1
        return self._numbers


def metadata_of(number: int, topic: str) -> str:
    """What is committed beside an offset."""
    return f"{number}".rjust(LONG_METADATA_BYTES, ".") if topic == LONG else f"by {number}"


def value_of(topic: str, offset: int, leader_epoch: int, metadata: str | None) -> Value:
    """What a fetch found: the number of a commit, or whatever it is if it is not all from one."""
    if offset == -1:
        return ABSENT
    if metadata != metadata_of(offset, topic) or leader_epoch != offset % 7:
        return f"{offset} in epoch {leader_epoch} with {(metadata or '')[-20:]!r}"
    return offset


@dataclass
class Client:
    """One client of one group. It has one to three requests on their way at a time."""

    load: Load
    group_id: str
    has_long_commits: bool = False

    async def run(self) -> None:
        """Work until the load is over."""
        load = self.load
        while not load.is_over:
            try:
                connection = await AsyncConnection.open(load.port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            try:
                while not load.is_over:
                    await self._work(connection)
            except Lost:
                load.counts["lost connections"] += 1
            finally:
                connection.close()

    async def look(self) -> None:
        """Fetch everything once, with nothing else on its way."""
        connection = await AsyncConnection.open(self.load.port)
        try:
            await self._fetch_all(connection)()
        finally:
            connection.close()

    async def _work(self, connection: AsyncConnection) -> None:
        random = self.load.random
        answers = [self._send_one(connection) for _ in range(random.choice((1, 1, 2, 3)))]
        if random.random() < 0.01:
            raise Lost  # it does not wait for the answers
        for answer in answers:
            await answer()

    def _send_one(self, connection: AsyncConnection) -> Answer:
        dice = self.load.random.random()
        if self.has_long_commits and dice < 0.06:
            return self._commit(connection, LONG, range(PARTITIONS[LONG]))
        if dice < 0.35:
            return self._commit(connection, NARROW, self._some(NARROW, (1, 1, 3)))
        if dice < 0.50:
            return self._commit(connection, WIDE, self._some(WIDE, (100, 100, 40)))
        if dice < 0.54:
            topic = self.load.random.choice((NARROW, WIDE))
            return self._delete(connection, topic, self._some(topic, (1, 3)))
        if dice < 0.55:
            return self._delete_group(connection)
        if dice < 0.70:
            return self._fetch_all(connection)
        return self._fetch(connection)

    def _some(self, topic: str, widths: tuple[int, ...]) -> list[int]:
        count = PARTITIONS[topic]
        return self.load.random.sample(range(count), min(count, self.load.random.choice(widths)))

    # Each sends a request.

    def _commit(self, connection: AsyncConnection, topic: str, partitions: Iterable[int]) -> Answer:
        number = self.load.next_number()
        metadata = metadata_of(number, topic)
        wanted = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=number,
                committed_leader_epoch=number % 7,
                committed_metadata=metadata,
            )
            for index in partitions
        ]
        writes = {(topic, one.partition_index): number for one in wanted}
        topics = [OffsetCommitRequestTopic(name=topic, partitions=wanted)]
        pending = self._begin(f"commit {number} to {topic}", writes)
        connection.send(OffsetCommitRequest(group_id=self.group_id, topics=topics), COMMIT_VERSION)

        async def answer() -> None:
            response = await connection.receive(OffsetCommitResponse, COMMIT_VERSION)
            errors = {one.error_code for each in response.topics for one in each.partitions}
            if self._is_done(pending, errors):
                self.load.history.answered(pending)
                self.load.counts[f"commits to {topic}"] += 1

        return answer

    def _delete(self, connection: AsyncConnection, topic: str, partitions: list[int]) -> Answer:
        wanted = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        pending = self._begin("delete", {(topic, index): ABSENT for index in partitions})
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=wanted)]
        connection.send(OffsetDeleteRequest(group_id=self.group_id, topics=topics), 0)

        async def answer() -> None:
            response = await connection.receive(OffsetDeleteResponse, 0)
            errors = {one.error_code for each in response.topics for one in each.partitions}
            self._deleted(pending, errors | {response.error_code})

        return answer

    def _delete_group(self, connection: AsyncConnection) -> Answer:
        everything = [(topic, index) for topic, count in PARTITIONS.items() for index in range(count)]
        pending = self._begin("delete the group", dict.fromkeys(everything, ABSENT))
        connection.send(DeleteGroupsRequest(groups_names=[self.group_id]), 2)

        async def answer() -> None:
            response = await connection.receive(DeleteGroupsResponse, 2)
            self._deleted(pending, {one.error_code for one in response.results})

        return answer

    def _deleted(self, pending: Pending, errors: set[int]) -> None:
        if errors - {ErrorCode.NONE} == {ErrorCode.GROUP_ID_NOT_FOUND}:
            self.load.history.found_nothing(pending)
        elif self._is_done(pending, errors):
            self.load.history.answered(pending)
            self.load.counts["deletions"] += 1

    def _fetch(self, connection: AsyncConnection) -> Answer:
        topics = [
            OffsetFetchRequestTopics(name=NARROW, partition_indexes=self._some(NARROW, (1, 3))),
            OffsetFetchRequestTopics(name=WIDE, partition_indexes=self._some(WIDE, (2, 100))),
        ]
        asked = [(topic.name, index) for topic in topics for index in topic.partition_indexes]
        return self._send_fetch(connection, topics, asked)

    def _fetch_all(self, connection: AsyncConnection) -> Answer:
        keys = self.load.history.keys.get(self.group_id, set())
        return self._send_fetch(connection, None, keys)

    def _send_fetch(
        self,
        connection: AsyncConnection,
        topics: list[OffsetFetchRequestTopics] | None,
        asked: Iterable[Key],
    ) -> Answer:
        pending = self._begin("fetch")
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)
        connection.send(OffsetFetchRequest(groups=[group]), FETCH_VERSION)
        found: dict[Key, Value] = dict.fromkeys(asked, ABSENT)

        async def answer() -> None:
            response = await connection.receive(OffsetFetchResponse, FETCH_VERSION)
            for topic in response.groups[0].topics:
                for one in topic.partitions:
                    found[topic.name, one.partition_index] = value_of(
                        topic.name, one.committed_offset, one.committed_leader_epoch, one.metadata
                    )
            if self._is_done(pending, {response.groups[0].error_code}):
                self.load.history.answered(pending, found)
                self.load.counts["fetches"] += 1

        return answer

    def _begin(self, name: str, writes: Mapping[Key, Value] | None = None) -> Pending:
        return self.load.history.begin(self.group_id, name, writes)

    def _is_done(self, pending: Pending, errors: set[int]) -> bool:
        """Whether it was done. A shard that is loading looks at nothing; any other error nobody expects."""
        if errors == {ErrorCode.NONE}:
            return True
        if errors == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.load.counts["turned away"] += 1
        else:
            self.load.problems.append(f"{pending.name}: {sorted(errors)}")
        self.load.history.refused(pending)
        return False
