"""Members of a share group against a node in memory: their fetches and acknowledgements as requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.server.clients import Client, T
from tests.server.disk import DATA_DIR, new_disk
from tests.topics.disk import batch, sync

from headgate.core.share.state.commands import InitializeState, ShareKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis
from headgate.domain.settings import Settings
from headgate.log.batch import iterate_records
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime.clock import Clock
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.server.shares.partition import SharedPartition
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.messages import share_acknowledge as acknowledging
from headgate.wire.messages import share_fetch as fetching

FASTER = 50
"""How much faster than the real clock the tests' time passes."""
LOCK_MS = 3_600_000
"""How long records are locked unless a test says otherwise: on a busy machine no lock ends by itself."""

FIRST_WAIT_MS = 250_000
"""Wait of a fetch that finds records as soon as the share-partition has a durable start."""

Batches = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset and acknowledge types of each batch."""


class FastClock(Clock):
    """A steady clock that runs fast: the shortest lock lasts a second."""

    def steady_time(self) -> Millis:
        return Millis(super().steady_time() * FASTER)


class FastNode(BrokerNode):
    """A node on which time passes fast."""

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        return super().call_later(max(1, delay_ms // FASTER), action)


@dataclass(frozen=True)
class Got:
    """What a fetch got from one partition."""

    error: int
    acknowledge_error: int
    acquired: list[tuple[int, int, int]]
    """First offset, last offset and delivery count."""
    values: list[bytes]
    """The values of the acquired records."""


_NOTHING = Got(ErrorCode.NONE, ErrorCode.NONE, [], [])


class Member:
    """One member of group `g`, with a connection of its own."""

    def __init__(self, node: BrokerNode, listener: Listener, name: str, group: str = "g") -> None:
        self.client = Client(node, listener)
        self.name = name
        self.group = group
        self.epoch = 0
        self.top_error = 0
        self.lock_ms = -1

    def _next_epoch(self, epoch: int | None) -> int:
        used = self.epoch if epoch is None else epoch
        self.epoch = used + 1
        return used

    async def fetch(
        self,
        *indexes: int,
        acknowledge: Mapping[int, Batches] | None = None,
        epoch: int | None = None,
        most: int = 500,
        wait_ms: int = 0,
        topic_id: bytes = T,
        **fields: Any,
    ) -> dict[int, Got]:
        """Fetch, with partitions added to the session; return what came by partition.

        A new session's first response has all partitions; those without anything are omitted here.
        """
        given = acknowledge or {}
        request = fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self._next_epoch(epoch),
            max_wait_ms=wait_ms,
            max_records=most,
            batch_size=fields.pop("batch_size", 500),
            topics=[
                fetching.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=_batches(fetching, given.get(index, ())),
                        )
                        for index in dict.fromkeys([*indexes, *given])
                    ],
                )
            ],
            **fields,
        )
        response = await self.client.ask(request, 2, f"{self.name} {next(self.client._ids)}")
        self.top_error, self.lock_ms = response.error_code, response.acquisition_lock_timeout_ms
        found = {one.partition_index: _got(one) for topic in response.responses for one in topic.partitions}
        return {index: one for index, one in found.items() if one != _NOTHING or index in given}

    async def acknowledge(
        self, given: Mapping[int, Batches], *, epoch: int | None = None, **fields: Any
    ) -> dict[int, int]:
        """Acknowledge; return the error of each partition."""
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self._next_epoch(epoch),
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=T,
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=index, acknowledgement_batches=_batches(acknowledging, batches)
                        )
                        for index, batches in given.items()
                    ],
                )
            ],
            **fields,
        )
        response = await self.client.ask(request, 2, f"{self.name} {next(self.client._ids)}")
        self.top_error = response.error_code
        return {
            one.partition_index: one.error_code for topic in response.responses for one in topic.partitions
        }

    def disconnect(self) -> None:
        """Lose the connection."""
        self.client.connection.connection_lost(None)


def _batches(module: Any, batches: Batches) -> list[Any]:
    return [
        module.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in batches
    ]


def _got(data: fetching.PartitionData) -> Got:
    acquired = [(one.first_offset, one.last_offset, one.delivery_count) for one in data.acquired_records]
    records = [(at, one.value or b"") for at, one in iterate_records(data.records or b"")]
    values = [
        value for offset, value in records if any(first <= offset <= last for first, last, _ in acquired)
    ]
    return Got(data.error_code, data.acknowledge_error_code, acquired, values)


class Scene:
    """A node with topic `t`, and members of group `g`, whose share-partitions are initialized."""

    def __init__(self, files: MemoryFileSystem, node: BrokerNode) -> None:
        self.files = files
        self.node = node
        self.listener = Listener(node)

    @property
    def topic(self) -> Topic:
        topic = self.node.topics.by_id(T)
        assert topic is not None
        return topic

    def shared(self) -> list[SharedPartition]:
        """Return the share-partitions of the group that are in use."""
        return list(self.node.shares.partitions(GroupId("g")))

    def member(self, name: str, group: str = "g") -> Member:
        return Member(self.node, self.listener, name, group)

    def append(self, *values: bytes, partition: int = 0) -> None:
        """Append one batch durably."""
        found = self.topic.partition(partition)
        assert found.append(batch(*values), self.node.system_time()).error == ErrorCode.NONE
        sync(self.topic, partition)
        found.advance()

    async def initialize(self, start: int = 0, group: str = "g", epoch: int = 1) -> None:
        """Initialize the state of both share-partitions, as the group coordinator does."""
        replies: list[Any] = []
        for index in (0, 1):
            key = ShareKey(GroupId(group), T, index)
            command = InitializeState(key=key, state_epoch=epoch, start_offset=start)
            self.node.share_state.submit(key.name, command, replies.append)
        await until(lambda: len(replies) == 2)
        assert [one.error for one in replies] == [ErrorCode.NONE] * 2


async def until(condition: Callable[[], bool]) -> None:
    """Let the node run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def started(files: MemoryFileSystem, **settings: str) -> Scene:
    """Start a node on a disk, with topic `t` of two partitions."""
    settings = {"group_share_record_lock_duration_ms": str(LOCK_MS), **settings}
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    node = FastNode(files, DATA_DIR, Settings(texts), FastClock())
    await node.start()
    if node.topics.by_name("t") is None:
        node.topics.create(NewTopic("t", T, 2), node.system_time())
    return Scene(files, node)


def play(story: Callable[[Scene], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Run a story with a node whose group begins at offset 0."""

    async def main() -> None:
        scene = await started(new_disk(), **settings)
        try:
            await scene.initialize()
            await story(scene)
        finally:
            scene.node.close()

    asyncio.run(asyncio.wait_for(main(), 30))
