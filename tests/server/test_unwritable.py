"""Values that were accepted and could not be written: one client's error made its whole shard fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.server.clients import Client, commit, committed, run_scenario
from tests.server.raw import RawConnection

from headgate.api import k12_heartbeat
from headgate.api.heartbeat_messages import classic_response_of
from headgate.core.offsets.commands import Commits
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.runtime import failures
from headgate.runtime.failures import Where
from headgate.wire.framing import request_frame
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

Connect = Callable[[], RawConnection]

LONGEST = 32_767


def join(version: int, **more: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="crew",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **more,
    )


@pytest.mark.parametrize("retention_ms", [(1 << 63) - 1, -(1 << 63), (1 << 62) + 5])
def test_a_retention_beyond_all_time_is_taken_and_stops_nobody(retention_ms: int) -> None:
    """The expiry is the largest time that a record can hold; commits of other groups continue."""

    async def scenario(client: Client) -> None:
        response = await client.ask(commit(5, [0], retention_time_ms=retention_ms), 2, "a")
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        response = await client.ask(commit(7, [1], group_id="other"), 2, "b")
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await committed(client, "other") == {1: 7}

    run_scenario(scenario)


@pytest.mark.parametrize("size", [LONGEST - 37, LONGEST - 36, LONGEST])
@pytest.mark.parametrize("version", [5, 9])
def test_an_instance_id_too_long_for_its_member_id_is_refused(
    connect: Connect, size: int, version: int
) -> None:
    """The generated member id is the instance id, a dash and 36 characters; it fits into a string or not."""
    answer = connect().request(join(version, group_instance_id="i" * size), version, JoinGroupResponse)
    fits = size + 37 <= LONGEST
    assert answer.error_code == (ErrorCode.NONE if fits else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert len(answer.member_id) == (size + 37 if fits else 0)


def test_a_client_id_too_long_for_its_member_id_is_refused(connect: Connect) -> None:
    """A member id may also begin with a client id; its length counts in bytes, not in characters."""
    connection = connect()
    connection.send(request_frame(join(3), 3, 1, "\N{SNOWMAN}" * 10_920))
    answer = connection.read_frame()
    assert int.from_bytes(answer[8:10], "big", signed=True) == ErrorCode.UNKNOWN_SERVER_ERROR


def asked_of(command: Any) -> list[Any]:
    """The commits of a command for several, or the command alone."""
    return [shape.asked for shape in command.commits] if isinstance(command, Commits) else [command]


@pytest.mark.plants_failures("request")
def test_a_commit_that_fails_among_others_of_its_turn_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Repeated commits are one command; when it fails, each commit is handled alone."""
    decide = GroupShard.handle

    def failing(shard: GroupShard, command: Any, now: Any, token: int = 0) -> Any:
        if any("planted" in repr(asked) for asked in asked_of(command)):
            raise ZeroDivisionError("planted")
        return decide(shard, command, now, token)

    async def scenario(client: Client) -> None:
        for group_id in ("g", "planted", "h"):
            for base in range(3):
                await client.ask(commit(base, [0], group_id=group_id), 8)
        with monkeypatch.context() as patched:
            patched.setattr(GroupShard, "handle", failing)
            for number, group_id in enumerate(("g", "planted", "h")):
                request = commit(10, [0], group_id=group_id)
                assert client.is_known(request, 8)
                client.connection.data_received(request_frame(request, 8, number, "again"))
            answers = await client.receive(3)
        errors = [answer[-5:-3] for _, answer in answers]  # before three empty tagged fields
        assert errors == [b"\x00\x00", b"\xff\xff", b"\x00\x00"]
        assert await committed(client, "g") == {0: 10}
        assert await committed(client, "h") == {0: 10}
        assert await committed(client, "planted") == {0: 2}

    run_scenario(scenario)


@pytest.mark.interpreted
@pytest.mark.plants_failures("reply")
@pytest.mark.parametrize("unwritable", [True, False])
def test_a_reply_that_cannot_be_made_closes_its_connection(
    unwritable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client does not wait for ever, and the log distinguishes it from a client's error."""

    def respond(error: Any) -> HeartbeatResponse:
        if not unwritable:
            raise ZeroDivisionError("planted")
        response = classic_response_of(error)
        response.error_code = 1 << 20
        return response

    monkeypatch.setattr(k12_heartbeat, "classic_response_of", respond)

    async def scenario(client: Client) -> None:
        request = HeartbeatRequest(group_id="crew", generation_id=1, member_id="m")
        client.connection.data_received(request_frame(request, 4, 1, "x"))
        assert client.wire.is_closed
        assert failures.counts() == {Where.REPLY: 1}

    run_scenario(scenario)


class Unreadable:
    """Frames of a connection that cannot be read, because of a fault."""

    def only_frame(self, data: bytes) -> bytes:
        raise AssertionError("planted")

    def drop(self) -> None:
        """Nothing was received."""


@pytest.mark.interpreted
@pytest.mark.plants_failures("connection")
def test_an_exception_in_a_connection_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for an exception anywhere; it is counted, and the client can connect again."""

    async def scenario(client: Client) -> None:
        await client.ask(commit(1, [0]), 8)
        monkeypatch.setattr(client.connection, "_frames", Unreadable())
        client.connection.data_received(b"\x00\x00\x00\x01\x00")
        assert client.wire.is_closed
        assert not client.connection.line.waiting

    run_scenario(scenario)
