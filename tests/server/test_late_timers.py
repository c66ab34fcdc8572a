"""A blocked loop: requests that arrived in time are served before late timers run."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest
import uvloop
from tests.server.clients import Client
from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.runtime.clock import Clock
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.metadata import MetadataRequest

SESSION_MS = 250
HELD_SECONDS = 0.4
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "20",
}


async def classic_member(client: Client) -> tuple[Request[Any], int]:
    """Join a classic group. Return the member's heartbeat."""
    join = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await client.ask(join, 3)
    return HeartbeatRequest(
        group_id="classic", generation_id=joined.generation_id, member_id=joined.member_id
    ), 2


async def consumer_member(client: Client) -> tuple[Request[Any], int]:
    """Join a consumer group. Return the member's heartbeat."""
    join = ConsumerGroupHeartbeatRequest(
        group_id="balanced",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=6000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    joined = await client.ask(join, 0)
    return ConsumerGroupHeartbeatRequest(
        group_id="balanced", member_id="m", member_epoch=joined.member_epoch
    ), 0


@pytest.mark.parametrize("member", [classic_member, consumer_member])
def test_a_heartbeat_that_waits_unread_keeps_its_member(member: Any) -> None:
    """The heartbeat arrives in time and is read after the session's end; later silence counts."""

    async def scenario() -> None:
        node = BrokerNode(new_disk(), DATA_DIR, Settings(SETTINGS), Clock())
        await node.start()
        node.topics.create(NewTopic("t", TopicId(b"t" * 16), 1), node.system_time())
        listener = Listener(node)
        try:
            host, port = await listener.listen("127.0.0.1", 0)
            address = host, port
            with socket.create_connection(address) as wire, socket.create_connection(address) as other:
                wire.setblocking(False)
                await asyncio.sleep(0.01)  # until the connection is accepted
                heartbeat, version = await member(Client(node))
                all_topics = node.topics.all

                def hold() -> Any:
                    node.topics.all = all_topics  # type: ignore[method-assign]
                    wire.send(request_frame(heartbeat, version, 1, "late"))
                    time.sleep(HELD_SECONDS)
                    return all_topics()

                node.topics.all = hold  # type: ignore[method-assign]
                # The loop has polled the sockets, and serves this request first.
                other.send(request_frame(MetadataRequest(topics=None), 9, 1, "slow"))
                frame = await asyncio.get_running_loop().sock_recv(wire, 1000)
                _, at = read_response_header(frame[4:], heartbeat.API_KEY, version)
                answer: Any = decode(heartbeat.response_type(), version, frame[4:], at)
                assert answer.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
            await asyncio.sleep(SESSION_MS / 1000 + 0.2)
            assert not listener.served.open_connections
            refused = await Client(node).ask(heartbeat, version)
            assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        finally:
            listener.stop_accepting()
            node.close()
            await listener.close()

    uvloop.run(asyncio.wait_for(scenario(), 20))
