"""Badly behaved clients: they read nothing, send everything at once, disappear, or wait forever."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections.abc import Callable

import pytest
from tests.server.test_connection_bounds import (
    WITHIN_S,
    Server,
    fetch,
    read_response,
    run,
    serving,
    settle,
    write_large_topic,
)
from tests.waiting import until

from headgate.log.batch import Record, encode_batch
from headgate.server import listener
from headgate.server.backlog import Backlog
from headgate.server.connection import MOST_PARKED
from headgate.server.large_requests import LargeRequests
from headgate.wire.framing import request_frame
from headgate.wire.messages.api_versions import ApiVersionsRequest
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FOR_EVER_MS = 2**31 - 1


async def ask(server: Server) -> None:
    """Send a request and check the answer."""
    reader, writer = await server.connect()
    writer.write(request_frame(ApiVersionsRequest(), 0, 7, "polite"))
    assert (await asyncio.wait_for(read_response(reader), WITHIN_S))[0] == 7
    writer.close()


def sweep(server: Server) -> None:
    """Close idle connections as if all of them had been silent for long."""
    for connection in server.connections:
        connection.line.last_heard = -math.inf
    server.listener._sweep()


def test_what_all_clients_together_leave_unread_is_bounded() -> None:
    """The connections that have been blocked longest are closed; others are served."""

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            await settle(server)
            responses = server.listener.served.responses
            responses._limit_bytes = 600_000
            for _ in range(5):
                _, writer = await server.connect()
                writer.write(b"".join(map(fetch, range(20))))
                await settle(server)
                unread_bytes = sum(connection.unread_bytes() for connection in server.connections)
                assert unread_bytes <= 600_000
            assert 1 <= len(server.connections) < 5
            await ask(server)

    run(scenario)


def test_many_requests_at_once_leave_others_their_turn() -> None:
    """The requests in one read of a socket are served in slices of the loop's time."""

    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            writer.write(
                b"".join(request_frame(MetadataRequest(topics=[]), 9, number, "x") for number in range(2000))
            )
            reading = asyncio.create_task(read_all(reader, 2000))
            rounds = 0
            while not reading.done():
                await asyncio.sleep(0)
                rounds += server.node.backlog.is_busy
            reading.result()
            assert rounds >= 10

    run(scenario)


async def read_all(reader: asyncio.StreamReader, count: int) -> None:
    for number in range(count):
        assert (await read_response(reader))[0] == number


def test_long_polls_that_wake_together_are_served_a_few_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """One append wakes all of them, and other work runs between them."""
    seconds = itertools.count()
    monkeypatch.setattr(Backlog, "seconds", staticmethod(lambda: next(seconds)))

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            readers = []
            for _ in range(20):
                reader, writer = await server.connect()
                writer.write(fetch(3, partition=1, max_wait_ms=FOR_EVER_MS))
                readers.append(reader)
            await settle(server)
            partition = server.node.topics.by_name("large").partition(1)  # type: ignore[union-attr]
            partition.append_internal([encode_batch([Record(b"k", b"v", 1_700_000_000_000)])])
            server.node.durability.when_durable(partition.log, partition.synced)
            looked_before = next(seconds)
            answers = asyncio.gather(*map(read_response, readers))
            assert {correlation_id for correlation_id, _ in await answers} == {3}
            assert next(seconds) - looked_before > 2 * 20, "twice in a turn, which does one of them"

    run(scenario)


def test_few_long_polls_of_a_connection_wait_and_the_rest_is_not_read() -> None:
    """Their number is limited, whatever is sent; they end when the client disconnects."""

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            _, writer = await server.connect()
            writer.write(fetch(1, partition=1, max_wait_ms=FOR_EVER_MS) * 100)
            await settle(server)
            connection = server.only_connection()
            assert len(connection.line.when_lost) == MOST_PARKED
            sweep(server)
            assert connection in server.connections, "it waits for its answers"
            writer.transport.abort()
            await settle(server)
            sweep(server)
            await until(lambda: not server.connections, "it is closed", WITHIN_S)
            assert len(server.node.topics.waiters) == 0

    run(scenario)


def test_a_connection_that_was_closed_goes_though_its_client_reads_nothing() -> None:
    """Its unsent data is not kept forever."""

    async def scenario() -> None:
        async with serving() as server:
            write_large_topic(server.node)
            await settle(server)
            _, writer = await server.connect()
            writer.write(b"".join(map(fetch, range(40))))
            await settle(server)
            connection = server.only_connection()
            connection.refuse("bad manners")
            await settle(server)
            assert connection.unread_bytes() > 0
            for _ in range(2):
                sweep(server)
            await until(lambda: not server.connections, "it is closed", WITHIN_S)
            assert server.listener.served.responses.held_bytes == 0

    run(scenario)


def test_a_long_header_is_not_remembered() -> None:
    """A header may be as long as a request, and a connection caches one for each API and version."""

    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            for correlation_id, client_id, known in ((1, "x" * 30_000, 0), (2, "short", 1)):
                writer.write(request_frame(ApiVersionsRequest(), 0, correlation_id, client_id))
                assert (await read_response(reader))[0] == correlation_id
                assert len(server.only_connection()._routes._known) == known

    run(scenario)


def test_large_requests_are_let_in_by_their_bytes() -> None:
    """Several small ones together, a larger one alone, in order."""
    inside: list[str] = []
    large = LargeRequests(most_bytes=10)

    def enter(name: str, size_bytes: int) -> None:
        large.enter(size_bytes, lambda: inside.append(name))

    for name, size_bytes in (("a", 4), ("b", 6), ("c", 50), ("d", 1)):
        enter(name, size_bytes)
    assert inside == ["a", "b"]
    large.leave(4)
    assert inside == ["a", "b"], "c is alone, and d behind it"
    large.leave(6)
    assert inside == ["a", "b", "c"]
    large.leave(50)
    assert inside == ["a", "b", "c", "d"]


def test_any_number_of_large_requests_may_leave_at_once() -> None:
    """Thousands of clients send one each, and disconnect before it is admitted."""
    large = LargeRequests(most_bytes=10)
    large.enter(10, lambda: None)
    for _ in range(3000):
        large.enter(5, lambda: large.leave(5))
    large.leave(10)
    inside: list[str] = []
    large.enter(10, lambda: inside.append("the next one"))
    assert inside == ["the next one"]


def test_large_requests_of_clients_that_vanished_are_not_worked_on() -> None:
    """They leave nothing behind, and the next one is served."""

    async def scenario() -> None:
        async with serving() as server:
            large = server.listener.served.large
            large.enter(1, lambda: None)
            large._most_bytes = 1
            names = [MetadataRequestTopic(name=f"no topic {number}") for number in range(20_000)]
            request = request_frame(MetadataRequest(topics=names), 4, 5, "x")
            writers = [(await server.connect())[1] for _ in range(3)]
            for writer in writers:
                writer.write(request)
            await until(lambda: len(large._waiting) == 3, "all wait", WITHIN_S)
            for writer in writers:
                writer.transport.abort()
            await until(lambda: not server.connections, "all are gone", WITHIN_S)
            assert server.listener.served.memory.held_bytes == 0
            reader, writer = await server.connect()
            writer.write(request)
            large.leave(1)
            assert (await read_response(reader))[0] == 5
            assert large._inside_bytes == 0

    run(scenario)


def test_the_last_descriptors_are_for_logs() -> None:
    """A connection that would use one of them is closed; new ones are accepted when others end."""

    async def scenario() -> None:
        async with serving() as server:
            limits = server.listener.served.limits
            most, limits._most_descriptors = limits._most_descriptors, 0
            reader, _ = await server.connect()
            assert await reader.read() == b""
            assert server.listener.metrics.connections_rejected == 1
            limits._most_descriptors = most
            await ask(server)

    run(scenario)


def test_connections_are_accepted_again_though_that_failed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example after a lack of descriptors."""
    monkeypatch.setattr(listener, "RETRY_MS", 10)

    async def scenario() -> None:
        async with serving(max_connections="1") as server:
            _, writer = await server.connect()
            await settle(server)
            failures = [OSError("planted")]

            def dup(descriptor: int, dup: Callable[[int], int] = os.dup) -> int:
                if failures:
                    raise failures.pop()
                return dup(descriptor)

            monkeypatch.setattr(os, "dup", dup)
            writer.close()
            await until(lambda: not failures, "it failed", WITHIN_S)
            await ask(server)  # fails where nothing is answered within WITHIN_S

    run(scenario)
