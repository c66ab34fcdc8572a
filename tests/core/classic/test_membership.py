"""Heartbeats, syncs, leaves and expired sessions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.harness import NONE, Harness, heartbeat, join, leave, sync

from headgate.core.classic.state import ClassicState
from headgate.domain.errors import ErrorCode

HEARTBEATS = [
    # group, member, generation (relative), instance, the answer
    ("g", "a", 0, None, NONE),
    ("g", "b", 0, None, NONE),
    ("", "a", 0, None, ErrorCode.INVALID_GROUP_ID),
    ("nobody", "a", 0, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("committed", "a", 0, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "x", 0, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "x", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "a", 1, None, ErrorCode.ILLEGAL_GENERATION),
    ("g", "a", -1, None, ErrorCode.ILLEGAL_GENERATION),
    ("g", "a", 0, "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "s", 0, "s", NONE),
    ("g", "a", 0, "s", ErrorCode.FENCED_INSTANCE_ID),
]


def mixed_group() -> tuple[Harness, int]:
    """Return a stable group of two dynamic members and one static one, beside a group that only commits."""
    h = Harness()
    h.commit("committed")
    for one in ("a", "b"):
        h.send(join(new_member_id=one, must_know_member_id=False))
    h.send(join(new_member_id="s", instance_id="s"))
    h.advance(6_000)
    for one in ("a", "b", "s"):
        h.ask(sync(one, 1))
    return h, 1


@pytest.mark.parametrize(("group_id", "member_id", "change", "instance_id", "expected"), HEARTBEATS)
def test_a_heartbeat_is_answered(
    group_id: str, member_id: str, change: int, instance_id: str | None, expected: ErrorCode
) -> None:
    """One row per heartbeat to a stable group, in Kafka's order of checks."""
    h, generation = mixed_group()
    command = heartbeat(member_id, generation + change, group_id=group_id, instance_id=instance_id)
    assert h.ask(command) == expected


SYNCS: list[tuple[str, str, int, dict[str, Any], ErrorCode]] = [
    ("g", "b", 0, {}, NONE),
    ("", "a", 0, {}, ErrorCode.INVALID_GROUP_ID),
    ("nobody", "a", 0, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("committed", "a", 0, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "x", 0, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "a", 1, {}, ErrorCode.ILLEGAL_GENERATION),
    ("g", "a", 0, {"instance_id": "s"}, ErrorCode.FENCED_INSTANCE_ID),
    ("g", "a", 0, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("g", "a", 0, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ("g", "a", 0, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ("g", "a", 1, {"protocol_name": "sticky"}, ErrorCode.ILLEGAL_GENERATION),
    ("g", "a", 0, {"protocol_type": "consumer", "protocol_name": "range"}, NONE),
]


@pytest.mark.parametrize(("group_id", "member_id", "change", "more", "expected"), SYNCS)
def test_a_sync_is_answered(
    group_id: str, member_id: str, change: int, more: dict[str, Any], expected: ErrorCode
) -> None:
    """One row per sync to a stable group, in Kafka's order of checks."""
    h, generation = mixed_group()
    assert h.ask(sync(member_id, generation + change, group_id=group_id, **more)).error == expected


def test_a_sync_during_a_rebalance_is_refused() -> None:
    """The member must rejoin first."""
    h, generation = mixed_group()
    h.send(join(new_member_id="c", must_know_member_id=False))
    assert h.ask(sync("a", generation)).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_syncs_twice_is_answered_twice() -> None:
    """The older sync gets an error."""
    h = Harness()
    for one in ("a", "b"):
        h.send(join(new_member_id=one, must_know_member_id=False))
    h.advance(6_000)
    older, newer = h.send(sync("b", 1)), h.send(sync("b", 1))
    assert h.answers[older].error == ErrorCode.REBALANCE_IN_PROGRESS
    h.send(sync("a", 1, assignments=(("b", b"mine"),)))
    assert h.answers[newer].assignment == b"mine"


def test_a_silent_member_is_removed_after_its_session() -> None:
    """The other members rebalance."""
    h = Harness()
    generation = h.stable_group("a", "b")
    for _ in range(2):
        h.advance(6_000)
        if h.state("g") is ClassicState.STABLE:
            h.ask(heartbeat("a", generation))
    assert h.state("g") is ClassicState.PREPARING_REBALANCE
    assert h.ask(heartbeat("b", generation)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.ask(heartbeat("a", generation)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_and_commits_restart_the_session_timer() -> None:
    """Either of them."""
    h = Harness()
    generation = h.stable_group("a", "b")
    for _ in range(5):
        h.advance(9_000)
        assert h.ask(heartbeat("a", generation)) == NONE
        assert h.commit("g", member_id="b", generation=generation).error == NONE


def test_heartbeats_restart_the_session_timer_during_a_rebalance() -> None:
    """Though they are answered REBALANCE_IN_PROGRESS."""
    h = Harness()
    generation = h.stable_group("a", "b")
    h.send(join(member_id="a"))
    for _ in range(5):
        h.advance(9_000)
        assert h.ask(heartbeat("b", generation)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_with_a_parked_request_does_not_expire() -> None:
    """It waits for the server."""
    h = Harness()
    generation = h.stable_group("a", "b")
    token = h.send(join(member_id="a"))
    for _ in range(5):
        h.advance(9_000)
        h.ask(heartbeat("b", generation))
    assert h.is_parked(token)
    h.advance(10_000)  # now the session of the other one is over
    assert h.answers[token].error == NONE
    h.advance(9_999)
    assert h.state("g") is ClassicState.COMPLETING_REBALANCE
    h.advance(1)
    assert h.state("g") is ClassicState.EMPTY


def test_a_new_member_with_a_parked_join_expires() -> None:
    """Its connection may be lost unnoticed; after five minutes, as in Kafka."""
    h = Harness()
    generation = h.stable_group("a", rebalance_timeout_ms=1_000_000)
    token = h.send(join(new_member_id="b", must_know_member_id=False))
    for _ in range(33):
        h.advance(9_000)
        h.ask(heartbeat("a", generation))
    assert h.is_parked(token)
    h.advance(3_000)
    assert h.answers[token].error == ErrorCode.UNKNOWN_MEMBER_ID


LEAVES = [
    ([("b", None)], [NONE], ClassicState.PREPARING_REBALANCE),
    ([("x", None)], [ErrorCode.UNKNOWN_MEMBER_ID], ClassicState.STABLE),
    ([("", None)], [ErrorCode.UNKNOWN_MEMBER_ID], ClassicState.STABLE),
    ([("", "s")], [NONE], ClassicState.PREPARING_REBALANCE),
    ([("s", "s")], [NONE], ClassicState.PREPARING_REBALANCE),
    ([("a", "s")], [ErrorCode.FENCED_INSTANCE_ID], ClassicState.STABLE),
    ([("", "unknown")], [ErrorCode.UNKNOWN_MEMBER_ID], ClassicState.STABLE),
    ([("a", "unknown")], [ErrorCode.UNKNOWN_MEMBER_ID], ClassicState.STABLE),
    ([("b", None), ("b", None)], [NONE, ErrorCode.UNKNOWN_MEMBER_ID], ClassicState.PREPARING_REBALANCE),
    ([("x", None), ("b", None)], [ErrorCode.UNKNOWN_MEMBER_ID, NONE], ClassicState.PREPARING_REBALANCE),
    ([("a", None), ("b", None), ("", "s")], [NONE, NONE, NONE], ClassicState.EMPTY),
    ([], [], ClassicState.STABLE),
]


@pytest.mark.parametrize(("members", "errors", "state"), LEAVES)
def test_each_leaving_member_has_its_own_error(
    members: list[tuple[str, str | None]], errors: list[ErrorCode], state: ClassicState
) -> None:
    """If one of them could leave, the group rebalances."""
    h, _ = mixed_group()
    result = h.ask(leave(*members))
    assert result.error == NONE
    assert [error for _, error in result.members] == errors
    assert h.state("g") is state


@pytest.mark.parametrize("group_id", ["nobody", "committed"])
def test_a_leave_of_a_group_without_members(group_id: str) -> None:
    """Every member is unknown; the group does not change."""
    h, _ = mixed_group()
    result = h.ask(leave(("a", None), ("", "s"), group_id=group_id))
    assert [error for _, error in result.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert h.ask(leave(("a", None), group_id="")).error == ErrorCode.INVALID_GROUP_ID


def test_parked_requests_of_a_leaving_member_are_answered() -> None:
    """A join and a sync get UNKNOWN_MEMBER_ID; Kafka never answers the sync."""
    h = Harness()
    h.stable_group("a", "b")
    joining = h.send(join(member_id="a"))
    h.ask(leave(("a", None)))
    assert h.answers[joining].error == ErrorCode.UNKNOWN_MEMBER_ID
    h = Harness()
    for one in ("a", "b"):
        h.send(join(new_member_id=one, must_know_member_id=False))
    h.advance(6_000)
    syncing = h.send(sync("b", 1))
    h.ask(leave(("b", None)))
    assert h.answers[syncing].error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leaving_leader_is_replaced() -> None:
    """By the member that joined first."""
    h = Harness()
    h.stable_group("a", "b", "c")
    h.ask(leave(("a", None)))
    h.send(join(member_id="c"))
    token = h.send(join(member_id="b"))
    assert h.answers[token].leader == "b"
