"""A stopping server: a request that it does not answer has no effect."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop
from tests.server.clients import WIDTH, Client, T
from tests.server.disk import DATA_DIR, new_disk
from tests.server.test_transactional_commits import Producer

from headgate.domain.settings import Settings
from headgate.runtime.clock import Clock
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.framing import request_frame
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

CREATION = CreateTopicsRequest(
    topics=[CreatableTopic(name="late", num_partitions=1, replication_factor=1, assignments=[], configs=[])]
)
TURNS_OF_THE_LOOP = 8
"""More than accepting a connection and serving a request take."""


@pytest.mark.parametrize("turns_before", range(4))
def test_a_connection_that_is_just_accepted_is_not_served_after_the_stop(turns_before: int) -> None:
    """The logs are closed, and marked as closed, before its request arrives."""

    async def scenario() -> None:
        node = BrokerNode(new_disk(), DATA_DIR, Settings({"offsets.topic.num.partitions": "1"}), Clock())
        await node.start()
        listener = Listener(node)
        address = await listener.listen("127.0.0.1", 0)
        with socket.create_connection(address) as client:
            client.sendall(request_frame(CREATION, 4, 1, "late"))
            for _ in range(turns_before):
                await asyncio.sleep(0)
            listener.stop_accepting()
            was_served = node.topics.by_name("late") is not None
            node.close()
            for _ in range(TURNS_OF_THE_LOOP):
                await asyncio.sleep(0)
            assert (node.topics.by_name("late") is not None) == was_served
            assert not listener.served.open_connections or was_served
            await listener.close()

    uvloop.run(scenario())


def test_a_commit_whose_transaction_is_asked_during_the_stop_is_not_written_after_it() -> None:
    """The stop syncs the transaction's partition, which leads to the commit; its log is closed by then."""

    async def scenario() -> None:
        files = new_disk()
        node = BrokerNode(files, DATA_DIR, Settings({"offsets.topic.num.partitions": "1"}), Clock())
        await node.start()
        node.topics.create(NewTopic("t", T, WIDTH), node.system_time())
        client = Client(node)
        producer = Producer(client, 2)
        await producer.begin()
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        client.connection.data_received(request_frame(request, 5, 9, "late"))
        node.close()
        changes = files.operations
        for _ in range(TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
        assert files.operations == changes

    asyncio.run(scenario())
