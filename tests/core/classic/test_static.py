"""Static members (KIP-345): they return with their instance id, and fence their former member id."""

from __future__ import annotations

import pytest
from tests.core.harness import NONE, Harness, heartbeat, join, sync

from headgate.core.classic.state import ClassicState
from headgate.domain.errors import ErrorCode

FENCED = ErrorCode.FENCED_INSTANCE_ID


def static_group() -> Harness:
    """Return a stable group of two static members; instance "i" (member "i-1") leads."""
    h = Harness()
    for one in ("i", "j"):
        h.send(join(new_member_id=f"{one}-1", instance_id=one, protocols=(("range", b"\x00\x01"),)))
    h.advance(6_000)
    h.send(sync("j-1", 1, instance_id="j"))
    h.send(sync("i-1", 1, instance_id="i", assignments=(("i-1", b"for i"), ("j-1", b"for j"))))
    assert h.state("g") is ClassicState.STABLE
    return h


def test_a_returning_follower_causes_no_rebalance() -> None:
    """It gets a new id and, when it syncs, its old assignment."""
    h = static_group()
    result = h.ask(join(new_member_id="j-2", instance_id="j"))
    assert (result.error, result.member_id, result.generation, result.leader) == (NONE, "j-2", 1, "i-1")
    assert (result.members, result.skip_assignment) == ((), False)
    assert h.state("g") is ClassicState.STABLE
    assert h.ask(sync("j-2", 1, instance_id="j")).assignment == b"for j"


def test_other_metadata_causes_no_rebalance_while_the_protocol_stays() -> None:
    """With a new id; with its known id it does, as seen of Kafka 4.3.1."""
    h = static_group()
    changed = (("range", b"\x00\x02"),)
    assert h.ask(join(new_member_id="j-2", instance_id="j", protocols=changed)).error == NONE
    assert h.state("g") is ClassicState.STABLE
    token = h.send(join(member_id="j-2", instance_id="j", protocols=(("range", b"\x00\x03"),)))
    assert h.is_parked(token)
    assert h.state("g") is ClassicState.PREPARING_REBALANCE


def test_a_change_of_the_protocol_causes_a_rebalance() -> None:
    """All members are affected by the selected protocol."""
    h = Harness()
    both = (("range", b""), ("sticky", b""))
    for one in ("i", "j"):
        h.send(join(new_member_id=f"{one}-1", instance_id=one, protocols=both))
    h.advance(6_000)
    for one in ("i", "j"):
        h.send(sync(f"{one}-1", 1))
    token = h.send(join(new_member_id="j-2", instance_id="j", protocols=(("sticky", b""),)))
    assert h.is_parked(token)
    other = h.send(join(member_id="i-1", instance_id="i", protocols=both))
    assert h.answers[token].protocol_name == h.answers[other].protocol_name == "sticky"


def test_a_returning_leader_skips_the_assignment() -> None:
    """From v9: its new id leads, it gets the members, and keeps the assignment (KIP-814)."""
    h = static_group()
    result = h.ask(join(new_member_id="i-2", instance_id="i"))
    assert (result.member_id, result.leader, result.skip_assignment) == ("i-2", "i-2", True)
    assert {member.member_id for member in result.members} == {"i-2", "j-1"}
    assert h.ask(sync("i-2", 1, instance_id="i")).assignment == b"for i"
    assert h.ask(sync("j-1", 1, instance_id="j")).assignment == b"for j"


def test_a_returning_old_leader_gets_its_old_id_as_leader() -> None:
    """Before v9: so it does not assign, and gets no members, as seen of Kafka 4.3.1."""
    h = static_group()
    result = h.ask(join(new_member_id="i-2", instance_id="i", can_skip_assignment=False))
    assert (result.member_id, result.leader, result.members) == ("i-2", "i-1", ())
    assert not result.skip_assignment


def test_the_replaced_member_is_fenced() -> None:
    """In every request with its instance id; without it it is unknown, as seen of Kafka 4.3.1."""
    h = static_group()
    h.ask(join(new_member_id="j-2", instance_id="j"))
    assert h.ask(heartbeat("j-1", 1, instance_id="j")) == FENCED
    assert h.ask(sync("j-1", 1, instance_id="j")).error == FENCED
    assert h.ask(join(member_id="j-1", instance_id="j")).error == FENCED
    assert h.commit("g", member_id="j-1", generation=1, instance_id="j").error == FENCED
    assert h.commit("g", member_id="j-1", generation=1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit("g", member_id="j-2", generation=1, instance_id="j").error == NONE


def test_a_parked_join_of_the_replaced_member_is_answered_fenced() -> None:
    """Of two processes with one instance id the later one is valid."""
    h = static_group()
    older = h.send(join(member_id="i-1", instance_id="i"))
    newer = h.send(join(new_member_id="i-2", instance_id="i"))
    assert (h.answers[older].error, h.answers[older].member_id) == (FENCED, "i-1")
    assert h.is_parked(newer)


def test_a_parked_sync_of_the_replaced_member_is_answered_fenced() -> None:
    """And the group rebalances."""
    h = Harness()
    for one in ("i", "j"):
        h.send(join(new_member_id=f"{one}-1", instance_id=one))
    h.advance(6_000)
    older = h.send(sync("j-1", 1, instance_id="j"))
    newer = h.send(join(new_member_id="j-2", instance_id="j"))
    assert h.answers[older].error == FENCED
    assert h.is_parked(newer)
    assert h.state("g") is ClassicState.PREPARING_REBALANCE


def test_a_replacement_may_complete_a_rebalance() -> None:
    """If the instance was the last one missing."""
    h = static_group()
    first = h.send(join(member_id="i-1", instance_id="i"))
    second = h.send(join(new_member_id="j-2", instance_id="j"))
    assert {member.member_id for member in h.answers[first].members} == {"i-1", "j-2"}
    assert h.answers[second].generation == 2


def test_a_static_member_survives_a_rebalance_it_misses() -> None:
    """It keeps its place and its assignment while its session lasts."""
    h = Harness()
    for one in ("i", "j"):
        h.send(join(new_member_id=f"{one}-1", instance_id=one, session_timeout_ms=300_000))
    h.advance(6_000)
    for one in ("j", "i"):
        h.send(sync(f"{one}-1", 1))
    token = h.send(join(member_id="i-1", instance_id="i", session_timeout_ms=300_000))
    h.advance(60_000)
    assert {member.member_id for member in h.answers[token].members} == {"i-1", "j-1"}


def test_a_static_member_that_stays_away_is_removed_after_its_session() -> None:
    """Like a dynamic one."""
    h = static_group()
    h.advance(9_000)
    h.ask(heartbeat("i-1", 1))
    h.advance(1_000)
    assert h.state("g") is ClassicState.PREPARING_REBALANCE
    assert h.ask(heartbeat("j-1", 1, instance_id="j")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("instance_id", ["i", "j"])
def test_a_replaced_member_survives_a_crash_under_its_new_id(instance_id: str) -> None:
    """The replacement is a record, so the old id stays fenced (invariant 25)."""
    h = static_group()
    h.ask(join(new_member_id="new", instance_id=instance_id))
    h.reload()
    assert h.ask(heartbeat("new", 1, instance_id=instance_id)) == NONE
    assert h.ask(heartbeat(f"{instance_id}-1", 1, instance_id=instance_id)) == FENCED
