"""Repeated requests: they get the responses of decoded ones, whatever happened in between."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.clients import WIDTH, Client, T, commit, committed, fetch, run_scenario
from tests.waiting import until

from headgate.api.registration import Api
from headgate.api.repeats import Habit
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName
from headgate.server.connection import MOST_OTHERS_WAITING
from headgate.server.node import BrokerNode
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.codec import decode
from headgate.wire.framing import request_frame
from headgate.wire.message import Request
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from headgate.wire.repeats import MOST_NARROW

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
INDEXES = {"one": [3], "a few": [5, 0, 9], "many": list(range(WIDTH)), "twice": [4, 4]}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
def test_a_repeated_commit_commits_its_own_offsets(version: int, indexes: list[int]) -> None:
    """The responses have the bytes of those to a decoded commit; the offsets are those of the last commit."""

    async def scenario(client: Client) -> None:
        answers = set()
        for round_ in range(5):
            request = commit(1000 * round_, indexes)
            assert client.is_known(request, version) == (round_ >= 1), "the first of its size is known"
            answers.add(await client.send(request, version, "again"))
            expected = {index: 1000 * round_ + place for place, index in enumerate(indexes)}
            assert await committed(client) == expected
            answers.add(await client.send(commit(7, indexes, "other"), version, f"new {round_}"))
        assert len(answers) == 1

    run_scenario(scenario)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
def test_a_repeated_fetch_finds_what_is_committed_now(version: int, indexes: list[int]) -> None:
    """The same bytes as for a decoded fetch: no offset, another offset, metadata, no offset again."""

    async def scenario(client: Client) -> None:
        request = fetch(indexes, version)
        commits = [
            commit(5, []),
            commit(5, indexes[:1]),
            commit(9, indexes),
            commit(2**62, indexes),
            commit(3, indexes[-1:], metadata="note"),
            commit(4, indexes),
        ]
        for round_, change in enumerate(commits):
            await client.ask(change, 8, f"writer {round_}")
            for _ in range(3):
                answer = await client.send(request, version, "again")
                assert answer == await client.send(request, version, f"new {next(client._ids)}")
        assert client.is_known(request, version)

    run_scenario(scenario)


def test_a_commit_that_was_refused_when_it_was_learned_is_answered_without_its_error() -> None:
    """The response of a repeated commit has no error of the request that it was learned from."""

    async def scenario(client: Client) -> None:
        member = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert (await client.ask(member, 1)).error_code == ErrorCode.NONE
        for offset in range(3):
            response = await client.ask(commit(offset, [0, 1]), 9)
            errors = [one.error_code for one in response.topics[0].partitions]
            assert errors == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
        assert client.is_known(commit(3, [0, 1]), 9)
        member.member_epoch = -1
        assert (await client.ask(member, 1)).error_code == ErrorCode.NONE
        response = await client.ask(commit(4, [0, 1]), 9)
        assert [one.error_code for one in response.topics[0].partitions] == [ErrorCode.NONE] * 2
        assert await committed(client) == {0: 4, 1: 5}

    run_scenario(scenario)


def test_a_request_with_bytes_that_no_version_knows_is_known_by_them() -> None:
    """Unknown tagged fields are a part of the request; the offsets behind them are found."""

    async def scenario(client: Client) -> None:
        for offset in range(1, 5):
            frame = request_frame(commit(offset, [2]), 8, offset, "again")[4:-1] + b"\x01\x63\x03abc"
            client.connection.data_received(len(frame).to_bytes(4) + frame)
            ((_, answer),) = await client.receive(1)
            assert answer[4:] == await client.send(commit(0, [2], "other"), 8, f"new {offset}")
            assert await committed(client) == {2: offset}
        assert client.listener.served.repeats.find(frame, Habit()) is not None

    run_scenario(scenario)


def test_a_repeated_commit_is_checked_again() -> None:
    """A group that has members now rejects a commit of a non-member, on each partition."""

    async def scenario(client: Client) -> None:
        for _ in range(3):
            await client.ask(commit(5, [0, 1]), 8)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        await client.send(join, 3, "member")
        refused = commit(6, [0, 1])
        assert client.is_known(refused, 8)
        response = await client.ask(refused, 8)
        assert [one.error_code for one in response.topics[0].partitions] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
        assert await committed(client) == {0: 5, 1: 6}

    run_scenario(scenario)


async def create_again(node: BrokerNode, partition_count: int) -> None:
    """Create another topic "t" when all offsets of the deleted one are removed."""
    is_free = asyncio.Event()
    node.topics.held_names.when_free(TopicName("t"), is_free.set)
    await is_free.wait()
    created = node.topics.create(NewTopic("t", TopicId(b"u" * 16), partition_count), node.system_time())
    assert isinstance(created, Topic)


@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_repeated_commit_notices_that_its_topic_is_gone(is_created_again: bool) -> None:
    """A deleted topic, or one created again with fewer partitions, rejects the missing partitions."""

    async def scenario(client: Client) -> None:
        for _ in range(3):
            await client.ask(commit(5, [0, 30]), 8)
        client.node.topics.delete(client.node.topics.by_name("t"), client.node.system_time())  # type: ignore[arg-type]
        if is_created_again:
            await create_again(client.node, 10)
        response = await client.ask(commit(6, [0, 30]), 8)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        first = ErrorCode.NONE if is_created_again else unknown
        assert [one.error_code for one in response.topics[0].partitions] == [first, unknown]

    run_scenario(scenario)


def test_a_commit_whose_topic_is_gone_is_forgotten() -> None:
    """As long as it is known, it makes the server read all requests of its turn."""

    async def scenario(client: Client) -> None:
        request = commit(5, [0, 30])
        for _ in range(3):
            await client.ask(request, 8)
        assert client.is_known(request, 8)
        client.node.topics.delete(client.node.topics.by_name("t"), client.node.system_time())  # type: ignore[arg-type]
        for _ in range(3):
            await client.ask(request, 8)
        assert not client.is_known(request, 8)

    run_scenario(scenario)


@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_repeated_request_by_id_does_not_reach_the_topic_that_took_the_name(
    is_created_again: bool, indexes: list[int]
) -> None:
    """Deleted, or deleted and created again alike: commits and fetches with the old id are rejected."""

    async def scenario(client: Client) -> None:
        for _ in range(3):
            await client.ask(commit(5, indexes), 10)
            fetched = await client.ask(fetch(indexes, 10), 10)
            assert {one.error_code for one in fetched.groups[0].topics[0].partitions} == {ErrorCode.NONE}
        assert client.is_known(commit(5, indexes), 10)
        assert client.is_known(fetch(indexes, 10), 10)
        client.node.topics.delete(client.node.topics.by_name("t"), client.node.system_time())  # type: ignore[arg-type]
        if is_created_again:
            await create_again(client.node, WIDTH)
        response = await client.ask(commit(6, indexes), 10)
        unknown = [(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
        assert [(one.partition_index, one.error_code) for one in response.topics[0].partitions] == unknown
        fetched = await client.ask(fetch(indexes, 10), 10)
        answers = fetched.groups[0].topics[0]
        assert answers.topic_id == T
        assert [(one.partition_index, one.error_code) for one in answers.partitions] == unknown
        assert {one.committed_offset for one in answers.partitions} == {-1}
        assert await committed(client) == {}

    run_scenario(scenario)


def test_few_fetches_with_long_responses_wait_at_a_time() -> None:
    """A short request may ask for much metadata; a connection's requests are not all answered at once."""

    async def scenario(client: Client) -> None:
        await client.ask(commit(5, list(range(WIDTH)), metadata="x" * 4000), 8)
        request = fetch(list(range(WIDTH)), 7)
        expected = {await client.send(request, 7, "again") for _ in range(4)}
        assert client.is_known(request, 7)
        frames = [request_frame(request, 7, place, "again") for place in range(300)]
        client.connection.data_received(b"".join(frames))
        for frame in frames:
            client.connection.data_received(frame)
        assert len(client.connection.line.waiting) <= MOST_OTHERS_WAITING
        answers = await client.receive(600)
        assert [correlation_id for correlation_id, _ in answers] == [*range(300)] * 2
        assert {frame[4:] for _, frame in answers} == expected

    run_scenario(scenario)


def test_a_repeated_fetch_is_refused_if_its_response_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that names a partition with metadata many times fails both when decoded and when repeated."""
    monkeypatch.setattr("headgate.api.fetch_messages.MOST_RESPONSE_BYTES", 200_000)

    async def scenario(client: Client) -> None:
        await client.ask(commit(5, [3], metadata="x" * 100), 8)
        request = fetch([3] * 3000, 7)
        for _ in range(4):
            assert (await client.ask(request, 7)).error_code == ErrorCode.INVALID_REQUEST
        assert client.is_known(request, 7)

    run_scenario(scenario)


def test_a_repeated_wide_fetch_of_metadata_is_answered_as_one_that_is_read() -> None:
    """This holds also while other requests are served together with it."""

    async def scenario(client: Client) -> None:
        await client.ask(commit(5, [3], metadata="note"), 8)
        wide, narrow = fetch(list(range(WIDTH)) * 60, 7), fetch([3, 4], 7)
        for _ in range(3):
            for request in (wide, narrow):
                answer = await client.send(request, 7, "again")
                assert answer == await client.send(request, 7, f"new {next(client._ids)}")
        assert client.is_known(wide, 7)
        frames = [request_frame(one, 7, place, "again") for place, one in enumerate((narrow, wide, narrow))]
        client.connection.data_received(b"".join(frames))
        answers = await client.receive(3)
        assert [correlation_id for correlation_id, _ in answers] == [0, 1, 2]
        assert len(answers[1][1]) > 2000 and answers[0][1][4:] == answers[2][1][4:]

    run_scenario(scenario)


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
def test_a_repeated_fetch_is_checked_again(version: int, indexes: list[int]) -> None:
    """A member of a consumer group with a stale epoch is rejected, for narrow and wide fetches."""

    async def scenario(client: Client) -> None:
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        epoch = (await client.ask(heartbeat, 1)).member_epoch
        request = fetch(indexes, version)
        request.groups[0].member_id, request.groups[0].member_epoch = "m", epoch
        commits = commit(5, indexes, member_id="m", generation_id_or_member_epoch=epoch)
        await client.ask(commits, version)
        for _ in range(3):
            assert (await client.ask(request, version)).groups[0].error_code == ErrorCode.NONE
        assert client.is_known(request, version)
        leave = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
        await client.ask(leave, 1)
        assert (await client.ask(request, version)).groups[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


@pytest.mark.parametrize(
    "request_",
    [
        commit(5, [0, WIDTH]),
        commit(5, [0], metadata="x" * 5000),
        commit(5, [0], retention_time_ms=60_000),
        OffsetCommitRequest(group_id="g"),
    ],
    ids=["a partition that is not there", "too much metadata", "a retention", "nothing"],
)
def test_a_commit_that_is_not_taken_whole_is_read_each_time(request_: OffsetCommitRequest) -> None:
    """Its response is the same every time."""

    async def scenario(client: Client) -> None:
        answers = {await client.send(request_, 4, "again") for _ in range(4)}
        assert len(answers) == 1
        assert not client.is_known(request_, 4)

    run_scenario(scenario)


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 400))
@settings(max_examples=30)
def test_requests_in_a_row_are_answered_one_by_one(kinds: list[int], piece: int) -> None:
    """Any number may arrive at once, split anywhere: each is answered in order; reads see earlier commits."""

    async def scenario(client: Client) -> None:
        for _ in range(2):
            for request in (commit(0, [0]), commit(0, [1, 2]), commit(0, list(range(WIDTH)))):
                await client.ask(request, 8)
                await client.ask(fetch([0, 1], 8), 8)
        now: dict[int, int] = await committed(client)
        stream, expected = bytearray(), []
        for place, kind in enumerate(kinds):
            base = 1000 * (place + 1)
            indexes = ([0], [1, 2], list(range(WIDTH)))[kind % 3]
            if kind < 3:
                now |= {index: base + at for at, index in enumerate(indexes)}
                stream += request_frame(commit(base, indexes), 8, place, "again")
                expected.append((place, [0] * len(indexes)))
            else:
                stream += request_frame(fetch([0, 1], 8), 8, place, "again")
                expected.append((place, [now[0], now[1]]))
        for at in range(0, len(stream), piece):
            client.connection.data_received(bytes(stream[at : at + piece]))
        answers = await client.receive(len(kinds))
        found = []
        for kind, (correlation_id, frame) in zip(kinds, answers, strict=True):
            if kind < 3:
                committed_ = decode(OffsetCommitResponse, 8, frame, 5)
                found.append((correlation_id, [one.error_code for one in committed_.topics[0].partitions]))
            else:
                fetched = decode(OffsetFetchResponse, 8, frame, 5)
                partitions = fetched.groups[0].topics[0].partitions
                found.append((correlation_id, [one.committed_offset for one in partitions]))
        assert found == expected
        assert await committed(client) == now

    run_scenario(scenario)


@pytest.mark.parametrize("version", [8, 9], ids=["known", "read"])
def test_commits_that_are_read_again_stay_in_their_order(version: int) -> None:
    """The first one may take long, because it names many topics, one of them deleted."""

    def wide(base: int) -> OffsetCommitRequest:
        topics = [topic for _ in range(1500) for topic in commit(base, [0]).topics]
        topics[0].name = "u"
        return OffsetCommitRequest(group_id="g", topics=topics)

    async def scenario(client: Client) -> None:
        node = client.node
        gone = node.topics.create(NewTopic("u", TopicId(b"u" * 16), 1), node.system_time())
        assert isinstance(gone, Topic)
        for number in range(3):
            await client.ask(wide(number), 8)
            await client.ask(commit(number, [0]), 8)
        assert client.is_known(wide(5), 8)
        node.topics.delete(gone, node.system_time())
        requests: list[tuple[Request[Any], int]] = [
            (wide(1000), 8),
            (commit(2000, [0]), version),
            (fetch([0], 7), 7),
            (commit(2001, [1]), 8),
        ]
        frames = [request_frame(one, at, place, "again") for place, (one, at) in enumerate(requests)]
        client.connection.data_received(b"".join(frames[:2]))
        client.connection.data_received(b"".join(frames[2:]))
        answers = await client.receive(4)
        assert [correlation_id for correlation_id, _ in answers] == [0, 1, 2, 3]
        fetched = decode(OffsetFetchResponse, 7, answers[2][1], 5)
        assert fetched.topics[0].partitions[0].committed_offset == 2000
        assert await committed(client) == {0: 2000, 1: 2001}
        assert not client.connection._long.is_busy

    run_scenario(scenario)


def test_repeated_requests_get_the_error_of_a_shard_that_cannot_answer() -> None:
    """A fetch gets the retriable error of its version, a commit one on each partition."""

    async def scenario(client: Client) -> None:
        for _ in range(3):
            await client.ask(commit(5, [0, 1]), 8)
            await client.ask(fetch([0, 1], 8), 8)
        for runtime in client.node.coordinator._runtimes:
            runtime._fail("broken for the test", None)
        assert client.is_known(commit(6, [0, 1]), 8)
        answer = await client.ask(commit(6, [0, 1]), 8)
        assert {one.error_code for one in answer.topics[0].partitions} == {
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        }
        fetched = await client.ask(fetch([0, 1], 8), 8)
        assert fetched.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_scenario(scenario)


@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
def test_a_repeated_fetch_forgets_what_was_lost(indexes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that were decided and not written are lost with the shard's memory, and so are cached reads."""
    monkeypatch.setattr("headgate.runtime.shard_reloading.RELOAD_DELAY_SECONDS", 0.0)

    async def scenario(client: Client) -> None:
        request = fetch(indexes, 8)
        await client.ask(commit(5, indexes), 8)
        before = {await client.send(request, 8, "again") for _ in range(3)}
        assert len(before) == 1
        lost = request_frame(commit(9, indexes), 8, 0, "again")
        client.connection.data_received(lost + request_frame(request, 8, 1, "again"))
        runtimes = client.node.coordinator._runtimes
        for runtime in runtimes:
            runtime._fail("broken for the test", None)
        _, (_, fetched) = await client.receive(2)
        answer = decode(OffsetFetchResponse, 8, fetched, 5)
        assert answer.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until(lambda: all(runtime.is_active for runtime in runtimes), "all are loaded again", 10)
        assert {await client.send(request, 8, "again")} == before
        await client.ask(commit(7, indexes), 8)
        assert {await client.send(request, 8, "again")} != before

    run_scenario(scenario)


def test_a_frame_of_the_same_size_that_asks_something_else_is_read() -> None:
    """Another partition, member or API version: none is taken for the earlier request."""

    async def scenario(client: Client) -> None:
        for _ in range(3):
            await client.ask(commit(5, [0, 1]), 8)
        await client.ask(commit(50, [0, 2]), 8)
        await client.ask(commit(70, [3, 1], "h"), 8)
        assert await committed(client) == {0: 50, 1: 6, 2: 51}
        assert await committed(client, "h") == {3: 70, 1: 71}

    run_scenario(scenario)


def test_two_commits_of_one_size_by_turns_are_each_known() -> None:
    """A connection's last request is compared first; other requests are looked up."""

    async def scenario(client: Client) -> None:
        for round_ in range(6):
            await client.ask(commit(round_, [0], "one"), 8)
            await client.ask(commit(10 * round_, [0], "two"), 8)
            await client.ask(commit(10 * round_ + 1, [0], "two"), 8)
            assert await committed(client, "one") == {0: round_}
            assert await committed(client, "two") == {0: 10 * round_ + 1}
        assert client.is_known(commit(7, [0], "one"), 8) and client.is_known(commit(7, [0], "two"), 8)

    run_scenario(scenario)


def test_a_commit_whose_topic_was_created_again_is_learned_once() -> None:
    """The connection forgets its last request, which would be decoded each time."""

    async def scenario(client: Client) -> None:
        for _ in range(4):
            await client.ask(commit(5, [0]), 8)
        client.node.topics.delete(client.node.topics.by_name("t"), client.node.system_time())  # type: ignore[arg-type]
        await create_again(client.node, WIDTH)
        for _ in range(4):
            await client.ask(commit(6, [0]), 8)
        learned = client.listener.served.repeats._count
        for _ in range(4):
            await client.ask(commit(7, [0]), 8)
        assert client.listener.served.repeats._count == learned
        assert await committed(client) == {0: 7}

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("MOST_REPEATS", 8),
        ("MOST_SEEN", 8),
        ("MOST_BYTES", 8 * 1400),
    ],
)
def test_what_is_known_is_bounded(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beyond the limit are learned again; every request is answered."""
    monkeypatch.setattr(f"headgate.api.repeats.{limit}", most)

    async def scenario(client: Client) -> None:
        for _ in range(4):
            for number in range(20):
                await client.ask(commit(number, [number % WIDTH], f"group-{number:02}"), 8)
        repeats = client.listener.served.repeats
        known = [known for shapes in repeats._by_size.values() for known in shapes]
        assert sum(len(one.young) for one in known) <= 8
        assert sum(len(one.old) for one in known) <= 8
        assert any(one.young or one.old for one in known)
        assert sum(map(len, repeats._forgotten)) <= 8
        assert len(repeats._seen) <= 8 or limit != "MOST_SEEN"
        for number in range(20):
            assert await committed(client, f"group-{number:02}") == {number % WIDTH: number}

    run_scenario(scenario)


def in_topics(request_type: Any, count: int, group_id: str) -> Any:
    """Make a fetch or commit of one partition in each of `count` topics."""
    if request_type is OffsetFetchRequest:
        topics = [OffsetFetchRequestTopic(name=f"t{at}", partition_indexes=[0]) for at in range(count)]
        return OffsetFetchRequest(group_id=group_id, topics=topics)
    return OffsetCommitRequest(group_id=group_id, topics=commit(0, [0]).topics * count)


@pytest.mark.parametrize(
    ("of_group", "version"),
    [
        (lambda group_id: commit(0, [0], group_id), 8),
        (lambda group_id: commit(0, [0], group_id, "x" * 4000), 8),
        (lambda group_id: commit(0, list(range(12)), group_id), 8),
        (lambda group_id: commit(0, list(range(WIDTH)) * 50, group_id), 8),
        (lambda group_id: in_topics(OffsetCommitRequest, 500, group_id), 8),
        (lambda group_id: fetch([0], 7, group_id), 7),
        (lambda group_id: fetch(list(range(12)), 7, group_id), 7),
        (lambda group_id: fetch(list(range(3000)), 7, group_id), 7),
        (lambda group_id: in_topics(OffsetFetchRequest, 500, group_id), 7),
        (lambda group_id: OffsetFetchRequest(group_id=group_id, topics=[long_name()]), 7),
        (lambda group_id: HeartbeatRequest(group_id=group_id, member_id="m", generation_id=1), 4),
        (lambda group_id: HeartbeatRequest(group_id=group_id, member_id="m" * 30_000), 4),
        (lambda group_id: staying(group_id), 1),
    ],
)
def test_what_a_known_request_takes_is_known(of_group: Callable[[str], Any], version: int) -> None:
    """The counted size is neither much less than the real one nor many times as much."""

    async def scenario(client: Client) -> None:
        repeats = client.listener.served.repeats
        found: list[tuple[int, int]] = []
        for name in ("group-one", "group-two", "group-six"):
            for _ in range(4):
                await client.ask(of_group(name), version)
            found.append((size_of(repeats._by_size), repeats._bytes))
        (before, told_before), (after, told_after) = found[1:]
        assert repeats._count == 3
        assert after - before <= 1.2 * (told_after - told_before) <= 6 * (after - before)

    run_scenario(scenario)


def test_long_responses_with_metadata_are_not_kept() -> None:
    """A short request may name a partition with much metadata any number of times."""

    async def scenario(client: Client) -> None:
        repeats = client.listener.served.repeats
        await client.ask(commit(5, [3], metadata="x" * 4000), 8)
        request = fetch([3] * 1000, 7)
        answers = {await client.send(request, 7, "again") for _ in range(4)}
        assert client.is_known(request, 7)
        assert len(answers) == 1 and len(answers.pop()) > 4_000_000
        assert size_of(repeats._by_size) <= 1.2 * repeats._bytes

    run_scenario(scenario)


def long_name() -> OffsetFetchRequestTopic:
    return OffsetFetchRequestTopic(name="t" * 30_000, partition_indexes=[0])


def staying(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=1, topic_partitions=None
    )


def size_of(root: Any) -> int:
    """Return the memory of an object and all objects it refers to, except the node and code."""
    seen: set[int] = set()
    found, total = [root], 0
    while found:
        one = found.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType, Api, BrokerNode, Topic)):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        found += gc.get_referents(one)
        if isinstance(one, np.ndarray) and one.base is not None:
            found.append(one.base)
    return total


def test_requests_of_many_groups_that_come_in_turn_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds also when generations end because of requests that are not repeated."""
    monkeypatch.setattr("headgate.api.repeats.MOST_REPEATS", 24)

    async def scenario(client: Client) -> None:
        for once in range(10):
            for number in (*range(20), *(2 * [20 + once])):
                await client.ask(commit(number, [0], f"group-{number:02}"), 8)
        repeats = client.listener.served.repeats
        habit = Habit()
        for number in range(20):
            frame = request_frame(commit(99, [0], f"group-{number:02}"), 8, 77, "again")[4:]
            found = repeats.find(frame, habit)
            assert found is not None
            assert (found[2], found[3]) == (77, (99,))

    run_scenario(scenario)


assert len(INDEXES["many"]) > MOST_NARROW, "one of the cases has to be wide"
