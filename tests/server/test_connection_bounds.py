"""The limits of connections: unread responses, incomplete requests, and the number of connections."""

from __future__ import annotations

import asyncio
import gc
import select
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop
from tests.server.clients import WIDTH, Client, run_scenario
from tests.server.disk import DATA_DIR, new_disk
from tests.waiting import until

from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.log.batch import Record, encode_batch
from headgate.runtime.clock import Clock
from headgate.server import connection as connections
from headgate.server.connection import Connection
from headgate.server.connection_limits import ConnectionLimits
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.server.seldom import EVERY_SECONDS
from headgate.server.served import REFUSALS_TOLD
from headgate.topics.topics import NewTopic
from headgate.wire.framing import request_frame
from headgate.wire.messages.api_versions import ApiVersionsRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

RESPONSE_BYTES = 500_000
WITHIN_S = 20


class Server:
    """A node with a real listening socket."""

    def __init__(self, node: BrokerNode, listener: Listener, address: tuple[str, int]) -> None:
        self.node = node
        self.listener = listener
        self.address = address
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address, limit=1 << 16)
        self.writers.append(writer)
        return reader, writer

    @property
    def connections(self) -> set[Connection]:
        return {one for one in self.listener.served.open_connections if isinstance(one, Connection)}

    def only_connection(self) -> Connection:
        (connection,) = self.connections
        return connection


@asynccontextmanager
async def serving(**given: str) -> AsyncIterator[Server]:
    settings = Settings({name.replace("_", "."): value for name, value in given.items()})
    node = BrokerNode(new_disk(), DATA_DIR, settings, Clock())
    await node.start()
    listener = Listener(node)
    server = Server(node, listener, await listener.listen("127.0.0.1", 0))
    try:
        yield server
    finally:
        for writer in server.writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        listener.stop_accepting()
        node.close()
        await listener.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(asyncio.wait_for(scenario(), 20))


def write_large_topic(node: BrokerNode) -> None:
    created = node.topics.create(NewTopic("large", TopicId(b"l" * 16), 2), node.system_time())
    partition = created.partition(0)  # type: ignore[union-attr]
    partition.append_internal([encode_batch([Record(b"k", b"v" * RESPONSE_BYTES, 1_700_000_000_000)])])
    node.durability.when_durable(partition.log, partition.synced)


def fetch(correlation_id: int, partition: int = 0, max_wait_ms: int = 0) -> bytes:
    wanted = FetchTopic(
        topic="large", partitions=[FetchPartition(partition=partition, partition_max_bytes=1 << 20)]
    )
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
    return request_frame(request, 4, correlation_id, "greedy")


def held_bytes(connection: Connection) -> int:
    """Return the bytes of responses that the server holds for a connection."""
    assert connection._transport is not None
    return connection.line.unsent_bytes + connection._transport.get_write_buffer_size()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Return correlation id and size of the next response."""
    size, correlation_id = struct.unpack(">ii", await reader.readexactly(8))
    await reader.readexactly(size - 4)
    return correlation_id, size


async def settle(server: Server) -> None:
    """Let the server run until it has nothing to do."""
    for _ in range(200):
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)


def test_a_client_that_reads_nothing_is_served_no_further_until_it_reads() -> None:
    """Two hundred fetches take the memory of a few responses, and all are answered in order."""

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            await settle(server)
            reader, writer = await server.connect()
            writer.write(b"".join(map(fetch, range(200))))
            await settle(server)
            connection = server.only_connection()
            assert held_bytes(connection) < connections.MOST_UNSENT_BYTES + 2 * RESPONSE_BYTES
            for number in range(200):
                correlation_id, size = await read_response(reader)
                assert correlation_id == number
                assert size > RESPONSE_BYTES
            assert held_bytes(connection) == 0
            writer.write(fetch(200))
            assert (await read_response(reader))[0] == 200, "it goes on as before"
            writer.close()

    run(scenario)


def test_responses_behind_one_that_is_not_ready_are_bounded() -> None:
    """While a long poll at the head of the line waits, few of a hundred later responses are kept."""

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            await settle(server)
            reader, writer = await server.connect()
            writer.write(fetch(0, partition=1, max_wait_ms=1500) + b"".join(map(fetch, range(1, 60))))
            await settle(server)
            assert held_bytes(server.only_connection()) < connections.MOST_UNSENT_BYTES + 2 * RESPONSE_BYTES
            for number in range(60):
                assert (await read_response(reader))[0] == number
            writer.close()

    run(scenario)


@pytest.mark.parametrize("come_together", [False, True])
def test_responses_to_repeated_requests_behind_one_that_is_not_ready_are_bounded(come_together: bool) -> None:
    """Of sixty repeated fetches of long offsets behind a parked join, few are served before the join is."""

    async def scenario(client: Client) -> None:
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_metadata="\N{EURO SIGN}" * 4096)
            for index in range(WIDTH)
        ]
        topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
        await client.send(OffsetCommitRequest(group_id="g", topics=[topic]), 7, "commit")
        asked = OffsetFetchRequestTopic(name="t", partition_indexes=list(range(WIDTH)))
        wanted = OffsetFetchRequest(group_id="g", topics=[asked])
        for _ in range(3):
            response_bytes = len(await client.send(wanted, 5, "again"))
        assert client.is_known(wanted, 5)

        other = Client(client.node, client.listener)
        other.connection.data_received(request_frame(join_request(), 2, 0, "first"))
        await other.receive(1)
        client.connection.data_received(request_frame(join_request(), 2, 0, "second"))
        frames = [request_frame(wanted, 5, number, "again") for number in range(1, 61)]
        for data in [b"".join(frames)] if come_together else frames:
            if client.wire.is_read:
                client.connection.data_received(data)
            await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
        line = client.connection.line
        assert len(line.waiting) > 1
        assert line.unsent_bytes < connections.MOST_UNSENT_BYTES + 2 * response_bytes

    run_scenario(scenario)


def join_request() -> JoinGroupRequest:
    """Return the request of a member that joins and waits for the others."""
    return JoinGroupRequest(
        group_id="waiting",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )


def test_requests_that_never_end_take_bounded_memory_and_keep_nobody_else_waiting() -> None:
    """Above queued.max.request.bytes, large requests are not read and small ones are; metrics report it."""

    async def scenario() -> None:
        async with serving(queued_max_request_bytes="3000000") as server:
            memory = server.listener.served.memory
            writers = []
            for _ in range(20):
                _, writer = await server.connect()
                writer.write(struct.pack(">i", 10_000_000) + bytes(2_000_000))
                writers.append(writer)
            await settle(server)
            # Each connection may be read once more after the bound is reached.
            assert memory.held_bytes <= 3_000_000 + 20 * 350_000
            assert sum(connection._frames.pending_bytes for connection in server.connections) <= 10_000_000
            reader, writer = await server.connect()
            writer.write(request_frame(ApiVersionsRequest(), 0, 7, "small"))
            assert (await read_response(reader))[0] == 7
            for one in writers:
                one.transport.abort()
            await until(lambda: memory.held_bytes == 0, "nothing is held", WITHIN_S)
            writer.write(struct.pack(">i", 5_000_000) + b"\x7f\xff" + bytes(4_999_998))
            assert await reader.read() == b"", "the large request was read to its end, and refused"

    run(scenario)


def test_a_large_request_continues_when_there_is_room_again() -> None:
    """A connection that was not read because of others is read after they have closed."""

    async def scenario() -> None:
        async with serving(queued_max_request_bytes="1000000") as server:
            _, other = await server.connect()
            other.write(struct.pack(">i", 50_000_000) + bytes(1_500_000))
            await until(lambda: server.listener.served.memory.held_bytes > 1_000_000, "it is full", WITHIN_S)
            reader, writer = await server.connect()
            writer.write(struct.pack(">i", 700_000) + b"\x7f\xff" + bytes(699_998))
            await settle(server)
            assert any(connection.is_short_of_memory for connection in server.connections)
            other.transport.abort()
            assert await reader.read() == b"", "it was read to its end: an unknown API key"

    run(scenario)


def test_a_length_that_is_announced_takes_no_memory() -> None:
    """Only received bytes count."""

    async def scenario() -> None:
        async with serving() as server:
            _, writer = await server.connect()
            writer.write(struct.pack(">i", 100_000_000))
            await until(lambda: bool(server.connections), "it is connected", WITHIN_S)
            await settle(server)
            assert server.only_connection()._frames._pending.__sizeof__() < 1000
            writer.close()

    run(scenario)


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_a_lost_connection_had_received_is_freed_at_once(is_refused: bool) -> None:
    """The connection is part of cycles, which the collector finds very seldom."""

    async def scenario() -> None:
        async with serving() as server:
            half = struct.pack(">i", 50 << 20) + bytes(2 << 20)
            gc.disable()
            tracemalloc.start()
            try:
                for _ in range(5):
                    _, writer = await server.connect()
                    writer.write(half)
                    await until(
                        lambda: any(one._frames.pending_bytes >= len(half) for one in server.connections),
                        "it is received",
                        WITHIN_S,
                    )
                    if is_refused:
                        server.only_connection().refuse("a test")
                    else:
                        writer.transport.abort()
                    await until(lambda: not server.connections, "it is closed", WITHIN_S)
                assert server.listener.served.memory.held_bytes == 0
                assert tracemalloc.get_traced_memory()[0] < len(half) + (1 << 20)
            finally:
                tracemalloc.stop()
                gc.enable()

    run(scenario)


def test_a_connection_above_max_connections_waits_until_another_one_ends() -> None:
    """It is neither closed nor served until then."""

    async def scenario() -> None:
        async with serving(max_connections="2") as server:
            opened = [await server.connect() for _ in range(2)]
            for reader, writer in opened:
                writer.write(request_frame(ApiVersionsRequest(), 0, 1, "one"))
                await read_response(reader)
            for _ in range(3):
                late_reader, late_writer = await server.connect()
                late_writer.write(request_frame(ApiVersionsRequest(), 0, 9, "late"))
                answer = asyncio.create_task(read_response(late_reader))
                await settle(server)
                assert not answer.done()
                assert len(server.connections) == 2
                opened.pop(0)[1].close()
                assert (await asyncio.wait_for(answer, WITHIN_S))[0] == 9
                opened.append((late_reader, late_writer))
            for _, writer in opened:
                writer.close()

    run(scenario)


def test_a_reached_limit_of_connections_is_in_the_metrics() -> None:
    """A client that waits is not counted anywhere else: nobody would learn why it gets no answer."""

    async def scenario() -> None:
        async with serving(max_connections="2") as server:

            def is_full() -> float:
                families = {family.name: family for family in server.listener.metrics.collect()}
                return float(families["headgate_connections_full"].samples[0].value)

            assert is_full() == 0
            opened = [await server.connect() for _ in range(2)]
            await until(lambda: len(server.connections) == 2, "both are open", WITHIN_S)
            assert is_full() == 1
            opened[0][1].close()
            await until(lambda: len(server.connections) == 1, "one is closed", WITHIN_S)
            assert is_full() == 0
            opened[1][1].close()

    run(scenario)


def test_a_changed_limit_of_connections_is_in_force_at_once() -> None:
    """A raised one lets waiting clients in, also if idle connections are not closed; a lowered one is in
    the metrics.
    """

    async def scenario() -> None:
        async with serving(max_connections="2", connections_max_idle_ms="-1") as server:

            def limit(most: int) -> None:
                topics = server.node.topics
                change = topics.broker_change("", {"max.connections": str(most)})
                assert topics.change_settings([change], server.node.system_time()) is None

            for _ in range(2):
                await server.connect()
            await until(lambda: server.listener._limits.is_full, "the limit is reached", WITHIN_S)
            reader, writer = await server.connect()
            writer.write(request_frame(ApiVersionsRequest(), 0, 9, "late"))
            limit(4)
            assert (await asyncio.wait_for(read_response(reader), WITHIN_S))[0] == 9
            limit(1)
            assert server.listener._limits.is_full

    run(scenario)


def test_a_limit_that_is_reached_again_and_again_is_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """Clients that come and go would fill the log."""

    async def scenario() -> None:
        async with serving(max_connections="1") as server:
            for _ in range(5):
                _, writer = await server.connect()
                await until(lambda: len(server.connections) == 1, "it is open", WITHIN_S)
                writer.close()
                await until(lambda: not server.connections, "it is closed", WITHIN_S)

    run(scenario)
    assert sum("no more connections" in line for line in caplog.messages) == 1


def test_connections_that_come_together_wait_above_max_connections() -> None:
    """Connections accepted in the same call as the last one within the limit are not served."""

    async def scenario() -> None:
        async with serving(max_connections="2") as server:
            together = [socket.create_connection(server.address) for _ in range(6)]
            for number, each in enumerate(together):
                each.sendall(request_frame(ApiVersionsRequest(), 0, number, "together"))
                each.setblocking(False)
            await settle(server)
            assert answered(together) == 2
            for each in together[:2]:
                each.close()
            await settle(server)
            assert answered(together[2:]) == 2
            for each in together[2:]:
                each.close()

    run(scenario)


def answered(clients: list[socket.socket]) -> int:
    """Return how many of the clients have bytes to read."""
    return len(select.select(clients, [], [], 0)[0])


def test_max_connections_may_be_raised_while_the_server_runs() -> None:
    """A waiting connection is served after the next look at the limit, although no other one closes."""
    limits: dict[str, Any] = {"max.connections": 2, "max.connections.per.ip": 9}
    counted = ConnectionLimits(limits)
    told: list[bool] = []
    counted.on_full = told.append
    served = [Waiting() for _ in range(4)]
    assert [counted.opened(one) for one in served] == [True, True, False, False]
    assert told == [True]
    limits["max.connections"] = 3
    counted.look()
    assert [one.has_place for one in served] == [False, False, True, False]
    limits["max.connections"] = 9
    counted.look()
    assert (served[3].has_place, told) == (True, [True, False])


class Waiting:
    """A connection that records whether it got a place."""

    def __init__(self) -> None:
        self.has_place = False

    def take_place(self) -> None:
        """Record the place; see `Limited`."""
        self.has_place = True


def test_a_connection_above_max_connections_per_ip_is_closed_and_counted() -> None:
    """Other connections from this address stay open; when one closes, another is accepted."""

    async def scenario() -> None:
        async with serving(max_connections_per_ip="2") as server:
            first, second = await server.connect(), await server.connect()
            third, _ = await server.connect()
            assert await third.read() == b""
            assert server.listener.metrics.connections_rejected == 1
            first[1].close()
            await until(lambda: len(server.connections) == 1, "it is closed", WITHIN_S)
            fourth, writer = await server.connect()
            for reader, other in ((second[0], second[1]), (fourth, writer)):
                other.write(request_frame(ApiVersionsRequest(), 0, 4, "x"))
                assert (await read_response(reader))[0] == 4

    run(scenario)


def test_of_many_connections_that_are_refused_a_few_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are counted, and a later line reports how many were not logged."""
    now = [1000.0]
    monkeypatch.setattr("headgate.server.seldom.monotonic", lambda: now[0])

    async def scenario(client: Client) -> None:
        def refused() -> None:
            other = Client(client.node, client.listener)
            other.connection.data_received(b"\x00\x00\x00\x04junk")
            assert other.wire.is_closed

        for _ in range(REFUSALS_TOLD + 5):
            refused()
        now[0] += EVERY_SECONDS
        refused()
        lines = [record for record in caplog.records if record.getMessage() == "connection closed"]
        assert len(lines) == REFUSALS_TOLD + 1
        assert [getattr(line, "not_logged", 0) for line in lines] == [0] * REFUSALS_TOLD + [5]
        assert client.listener.metrics.connections_refused == REFUSALS_TOLD + 6

    run_scenario(scenario)
