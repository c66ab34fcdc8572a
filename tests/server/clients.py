"""Clients of a node in this process, over connections without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from tests.server.disk import DATA_DIR, new_disk

from headgate.api.repeats import Habit
from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.runtime.clock import Clock
from headgate.security.principal import ANONYMOUS, Principal
from headgate.server.connection import Connection
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

WIDTH = 40
T = TopicId(b"t" * 16)


class Wire:
    """The client's end of a connection: collects what the server sends."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_closed = False
        self.is_read = True

    def writelines(self, pieces: list[bytes]) -> None:
        """Send several pieces."""
        self.write(b"".join(pieces))

    def write(self, data: bytes) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("10.0.0.1", 5000) if name == "peername" else None

    def close(self) -> None:
        self.is_closed = True


class Client:
    """One connection to a real node. A request with a unique client id is never a repeated one."""

    def __init__(
        self, node: BrokerNode, listener: Listener | None = None, principal: Principal = ANONYMOUS
    ) -> None:
        self.node = node
        self.listener = listener or Listener(node)
        self.wire = Wire()
        self.connection = Connection(node, self.listener.served, principal)
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]
        self._ids = count(1)

    async def send(self, request: Request[Any], version: int, client_id: str) -> bytes:
        """Send a request. Return the response's frame after its correlation id, which is checked."""
        correlation_id = next(self._ids)
        self.connection.data_received(request_frame(request, version, correlation_id, client_id))
        async with asyncio.timeout(10):
            while len(self.wire.sent) < 4:
                await asyncio.sleep(0)
        frame = bytes(self.wire.sent)
        self.wire.sent.clear()
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert int.from_bytes(frame[4:8]) == correlation_id
        return frame[8:]

    async def receive(self, count: int) -> list[tuple[int, bytes]]:
        """Return `count` responses in order: correlation id, and the frame without its length."""
        frames: list[tuple[int, bytes]] = []
        async with asyncio.timeout(10):
            while len(frames) < count:
                await asyncio.sleep(0)
                while len(self.wire.sent) >= 4:
                    end = 4 + int.from_bytes(self.wire.sent[:4])
                    frame = bytes(self.wire.sent[4:end])
                    del self.wire.sent[:end]
                    frames.append((int.from_bytes(frame[:4]), frame))
        assert not self.wire.sent
        return frames

    async def ask(self, request: Request[Any], version: int, client_id: str = "again") -> Any:
        """Send a request as a repeated one and as a new one. Return the response, equal for both."""
        body = await self.send(request, version, client_id)
        _, at = read_response_header(bytes(4) + body, request.API_KEY, version)
        return decode(request.response_type(), version, bytes(4) + body, at)

    def is_known(self, request: Request[Any], version: int) -> bool:
        """Return whether the request would be served without decoding."""
        return (
            self.listener.served.repeats.find(request_frame(request, version, 1, "again")[4:], Habit())
            is not None
        )


Scenario = Callable[[Client], Coroutine[Any, Any, None]]


def run_scenario(scenario: Scenario) -> None:
    """Run a scenario against a node in memory."""

    async def main() -> None:
        files = new_disk()
        node = BrokerNode(files, DATA_DIR, Settings({"group.initial.rebalance.delay.ms": "0"}), Clock())
        await node.start()
        node.topics.create(NewTopic("t", T, WIDTH), node.system_time())
        try:
            await scenario(Client(node))
        finally:
            node.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def commit(
    base: int, indexes: list[int], group_id: str = "g", metadata: str = "", **more: Any
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=base + place,
            committed_leader_epoch=2,
            committed_metadata=metadata,
        )
        for place, index in enumerate(indexes)
    ]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=T, partitions=partitions)]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **more)


def fetch(indexes: list[int], version: int, group_id: str = "g") -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest(
            group_id=group_id, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=indexes)]
        )
    topics = [OffsetFetchRequestTopics(name="t", topic_id=T, partition_indexes=indexes)]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])


async def committed(client: Client, group_id: str = "g") -> dict[int, int]:
    """Return all offsets of the group, fetched by a request that is not repeated."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    response = await client.ask(request, 8, f"reader {next(client._ids)}")
    return {
        one.partition_index: one.committed_offset
        for topic in response.groups[0].topics
        for one in topic.partitions
    }
