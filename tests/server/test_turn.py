"""Repeated requests of several connections in one loop iteration: each is answered as if alone."""

from __future__ import annotations

from typing import Any

from tests.core.kinds_of_shard import classic_groups
from tests.server.clients import Client, commit, committed, fetch, run_scenario

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.server.connection import MOST_REQUESTS_WAITING, Connection
from headgate.server.turn import _together
from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.offset_commit import OffsetCommitResponse
from headgate.wire.messages.offset_fetch import OffsetFetchResponse

VERSION = 9


def beside(client: Client) -> Client:
    """Make another connection to the same listener."""
    other = Client(client.node)
    other.listener = client.listener
    other.connection = Connection(client.node, client.listener.served)
    other.connection.connection_made(other.wire)  # type: ignore[arg-type]
    return other


def put(client: Client, request: Request[Any], correlation_id: int) -> None:
    """Send a request without waiting."""
    client.connection.data_received(request_frame(request, VERSION, correlation_id, "again"))


async def known(client: Client, *group_ids: str) -> None:
    """Send commits and fetches of these groups until they are remembered."""
    for group_id in group_ids:
        for _ in range(3):
            await client.ask(commit(1, [3], group_id), VERSION)
            await client.ask(fetch([3], VERSION, group_id), VERSION)
        assert client.is_known(commit(9, [3], group_id), VERSION)
        assert client.is_known(fetch([3], VERSION, group_id), VERSION)


def error_of(frame: bytes) -> int:
    """Return the error of the one partition in a commit's response."""
    _, at = read_response_header(frame, 8, VERSION)
    return decode(OffsetCommitResponse, VERSION, frame, at).topics[0].partitions[0].error_code


def offset_of(frame: bytes) -> int:
    """Return the one offset in a fetch's response."""
    _, at = read_response_header(frame, 9, VERSION)
    return decode(OffsetFetchResponse, VERSION, frame, at).groups[0].topics[0].partitions[0].committed_offset


def test_commits_of_several_connections_share_a_batch() -> None:
    """Each commit is answered on its own connection, and all are one batch in the log."""

    async def scenario(client: Client) -> None:
        clients = [client, beside(client), beside(client)]
        groups = ["a", "b", "c"]
        await known(client, *groups)
        topic = client.node.topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is not None
        log = topic.partition(0).log
        first = log.log_end_offset
        for number, (one, group_id) in enumerate(zip(clients, groups, strict=True)):
            put(one, commit(100 + number, [3], group_id), 50 + number)
        for number, one in enumerate(clients):
            ((correlation_id, frame),) = await one.receive(1)
            assert (correlation_id, error_of(frame)) == (50 + number, ErrorCode.NONE)
        ((header, _),) = log.batches(first)
        assert header.record_count == 3
        for number, group_id in enumerate(groups):
            assert await committed(client, group_id) == {3: 100 + number}

    run_scenario(scenario)


def test_a_fetch_behind_a_commit_of_its_connection_finds_it() -> None:
    """Of any number of both in a row, each fetch returns the commit before it."""

    async def scenario(client: Client) -> None:
        await known(client, "a", "b")
        frames = b""
        for number in range(1, 6):
            group_id = "ab"[number % 2]
            frames += request_frame(commit(100 * number, [3], group_id), VERSION, 2 * number, "again")
            frames += request_frame(fetch([3], VERSION, group_id), VERSION, 2 * number + 1, "again")
        client.connection.data_received(frames)
        answers = await client.receive(10)
        assert [correlation_id for correlation_id, _ in answers] == list(range(2, 12))
        assert [offset_of(frame) for _, frame in answers[1::2]] == [100, 200, 300, 400, 500]

    run_scenario(scenario)


def test_commits_and_fetches_of_several_connections_are_served_by_kind() -> None:
    """Only the requests of one connection keep their order: a fetch is served behind its own commit."""

    async def scenario(client: Client) -> None:
        second, third = beside(client), beside(client)
        await known(client, "a", "b", "c")
        put(client, commit(100, [3], "a"), 50)
        put(second, fetch([3], VERSION, "b"), 51)
        put(client, fetch([3], VERSION, "a"), 52)
        put(third, commit(300, [3], "c"), 53)
        put(second, fetch([3], VERSION, "b"), 54)
        turn = client.listener.served.turn
        assert _together(turn._repeats, turn._calls) == [[0, 3], [1, 4], [2]]
        answers = await client.receive(2)
        assert [correlation_id for correlation_id, _ in answers] == [50, 52]
        assert offset_of(answers[1][1]) == 100
        assert [correlation_id for correlation_id, _ in await second.receive(2)] == [51, 54]
        assert [correlation_id for correlation_id, _ in await third.receive(1)] == [53]
        assert await committed(client, "c") == {3: 300}

    run_scenario(scenario)


def test_a_request_that_has_to_be_read_waits_for_those_before_it() -> None:
    """Of a repeated commit and a new one after it, the new one is the committed offset."""

    async def scenario(client: Client) -> None:
        await known(client, "a")
        new = request_frame(commit(7, [3], "a", metadata="new"), VERSION, 21, "somebody")
        client.connection.data_received(request_frame(commit(6, [3], "a"), VERSION, 20, "again") + new)
        assert [correlation_id for correlation_id, _ in await client.receive(2)] == [20, 21]
        assert await committed(client, "a") == {3: 7}

    run_scenario(scenario)


def test_a_commit_to_a_topic_deleted_in_its_turn_is_refused() -> None:
    """The topic is deleted between the arrival and the handling: no offset remains for a later topic."""

    async def scenario(client: Client) -> None:
        await known(client, "a", "b")
        node = client.node
        other = beside(client)
        put(client, commit(100, [3], "a"), 50)
        put(other, commit(100, [3], "b"), 51)
        topic = node.topics.by_name("t")
        assert topic is not None
        assert node.topics.delete(topic, node.system_time()) is None
        for one, expected in ((client, 50), (other, 51)):
            ((correlation_id, frame),) = await one.receive(1)
            assert (correlation_id, error_of(frame)) == (expected, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    run_scenario(scenario)


def test_the_error_of_one_is_nobody_elses() -> None:
    """A group that has members now rejects a non-member; the other commits of the iteration succeed."""

    async def scenario(client: Client) -> None:
        await known(client, "a", "b")
        shard = client.node.coordinator.runtimes[0].shard
        await join(client, "b")
        assert len(classic_groups(shard).live) == 1
        put(client, commit(200, [3], "a"), 52)
        put(client, commit(200, [3], "b"), 53)
        (_, first), (_, second) = await client.receive(2)
        assert (error_of(first), error_of(second)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
        assert (await committed(client, "a"), await committed(client, "b")) == ({3: 200}, {3: 1})

    run_scenario(scenario)


def test_a_connection_that_is_lost_takes_nobody_along() -> None:
    """It is lost between its request and the end of the iteration, in which another one is answered."""

    async def scenario(client: Client) -> None:
        await known(client, "a", "b")
        other = beside(client)
        put(other, commit(100, [3], "a"), 50)
        put(client, commit(100, [3], "b"), 51)
        other.connection.connection_lost(None)
        ((_, frame),) = await client.receive(1)
        assert error_of(frame) == ErrorCode.NONE
        assert not other.wire.sent
        assert await committed(client, "a") == {3: 100}, "it had arrived"

    run_scenario(scenario)


def test_what_came_before_a_broken_frame_is_served() -> None:
    """The invalid frame closes the connection; the commit before it is kept, and others are served."""

    async def scenario(client: Client) -> None:
        await known(client, "a", "b")
        other = beside(client)
        put(client, commit(100, [3], "b"), 51)
        put(other, commit(100, [3], "a"), 50)
        other.connection.data_received(b"\xff\xff\xff\xff")
        ((_, frame),) = await client.receive(1)
        assert error_of(frame) == ErrorCode.NONE
        assert other.wire.is_closed
        assert await committed(client, "a") == {3: 100}

    run_scenario(scenario)


def test_who_asks_without_reading_answers_is_not_read_for_a_while() -> None:
    """With too many unanswered requests the socket is not read, however small the received pieces."""

    async def scenario(client: Client) -> None:
        await known(client, "a")
        for number in range(MOST_REQUESTS_WAITING):
            put(client, commit(number, [3], "a"), number)
        was_read = [client.wire.is_read]
        put(client, commit(7, [3], "a"), 7)
        was_read.append(client.wire.is_read)
        await client.receive(MOST_REQUESTS_WAITING + 1)
        assert [*was_read, client.wire.is_read] == [True, False, True]

    run_scenario(scenario)


async def join(client: Client, group_id: str) -> None:
    """Make a member of the classic protocol join the group, over its own connection."""
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30000,
        rebalance_timeout_ms=30000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    await beside(client).ask(request, 3, "member")
