"""Requests that wait end with their connection."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.disk import DATA_DIR, new_disk
from tests.waiting import until

from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.runtime.clock import Clock
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.framing import request_frame
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

LONG_MS = 600_000
POLLS = 5
WITHIN_S = 10


@pytest.mark.parametrize("way", ["closed by the client", "refused by the server"])
def test_long_polls_of_a_lost_connection_wait_no_longer(way: str) -> None:
    """They end at once, not at their timeout, which a client may set to many minutes."""

    async def scenario() -> None:
        files = new_disk()
        node = BrokerNode(files, DATA_DIR, Settings({"offsets.topic.num.partitions": "1"}), Clock())
        await node.start()
        node.topics.create(NewTopic("letters", TopicId(b"l" * 16), 1), node.system_time())
        listener = Listener(node)
        host, port = await listener.listen("127.0.0.1", 0)
        wanted = FetchTopic(topic="letters", partitions=[FetchPartition(partition_max_bytes=1000)])
        poll = FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1000, topics=[wanted])
        _, writer = await asyncio.open_connection(host, port)
        for number in range(POLLS):
            writer.write(request_frame(poll, 4, number, "test"))
        await until(lambda: len(node.topics.waiters) == 1, "the first poll waits", WITHIN_S)
        if way == "closed by the client":
            writer.close()
        else:
            writer.write(b"\xff\xff\xff\xff")  # a negative length is invalid
        await until(lambda: len(node.topics.waiters) == 0, "no poll waits", WITHIN_S)
        assert len(node.topics.waiters) == 0
        writer.close()
        listener.stop_accepting()
        node.close()
        await listener.close()

    asyncio.run(scenario())
