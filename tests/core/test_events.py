"""What a shard reports of members and rebalances."""

from __future__ import annotations

from tests.core.consumer.support import ConsumerHarness
from tests.core.harness import Harness, heartbeat, join, sync
from tests.core.kinds_of_shard import share_groups
from tests.core.share.membership_life import SESSION_MS, G, ShareLife

from headgate.core.classic.commands import LeaveGroup, LeavingMember
from headgate.core.commands import DeleteGroup
from headgate.core.events import (
    Awaited,
    Event,
    GroupCreated,
    GroupDeleted,
    GroupRebalanced,
    MemberAwaited,
    MemberJoined,
    MemberRemoved,
    RemovalReason,
    TransactionTimedOut,
)
from headgate.domain.ids import GroupId, MemberId

GROUP = GroupId("billing")
CLIENT = ("client", "/127.0.0.1")
LOST = [MemberRemoved(GROUP, MemberId("a"), *CLIENT, RemovalReason.SESSION_TIMEOUT)]


def events_of(h: Harness) -> list[Event]:
    """Collect the events of the shard from now on."""
    found: list[Event] = []
    h.shard.events.listener = found.append
    return found


def let_join(h: Harness) -> None:
    """Let member a join a classic group, and sync."""
    token = h.send(join(group_id=GROUP, new_member_id="a", must_know_member_id=False))
    while h.is_parked(token):
        h.advance(1000)
    h.send(sync("a", h.answers[token].generation, group_id=GROUP, assignments=(("a", b""),)))


def test_a_classic_group_reports_generations_and_lost_members() -> None:
    """With the members, how long the group waited for them, and why one was removed."""
    h = Harness(group_initial_rebalance_delay_ms="3000")
    found = events_of(h)
    let_join(h)
    assert [type(event) for event in found] == [GroupCreated, MemberJoined, GroupRebalanced]
    assert found[-1] == GroupRebalanced(GROUP, 1, 1, 3000)
    found.clear()
    h.advance(120_000)
    assert [event for event in found if isinstance(event, MemberRemoved)] == LOST


def beat(h: Harness, member_id: str, generation: int, seconds: int) -> None:
    """Let a member send a heartbeat every three seconds."""
    for _ in range(seconds // 3):
        h.advance(3000)
        h.ask(heartbeat(member_id, generation, group_id=GROUP))


def test_a_member_that_keeps_a_rebalance_waiting_is_reported_once() -> None:
    """By its heartbeats, after half a minute: neither those who rejoined, nor earlier, nor again."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    generation = h.stable_group("a", "b", group_id=GROUP)
    found = events_of(h)
    h.send(join(group_id=GROUP, new_member_id="c", must_know_member_id=False, rebalance_timeout_ms=300_000))
    h.send(join(group_id=GROUP, member_id="b"))
    beat(h, "a", generation, 27)
    assert [type(event) for event in found] == [MemberJoined]
    beat(h, "a", generation, 60)
    assert found[1:] == [MemberAwaited(GROUP, MemberId("a"), *CLIENT, Awaited.REJOIN, 30_000)]


def test_a_leader_that_does_not_assign_is_reported() -> None:
    """The others wait for its sync; the next wait of the group is one of its own."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    generation = h.stable_group("a", "b", group_id=GROUP)
    found = events_of(h)
    for rejoining in ("a", "b"):
        h.send(join(group_id=GROUP, member_id=rejoining, protocols=(("range", b"new"),)))
    h.send(sync("b", generation + 1, group_id=GROUP))
    beat(h, "a", generation + 1, 45)
    assert found[1:] == [MemberAwaited(GROUP, MemberId("a"), *CLIENT, Awaited.SYNC, 30_000)]


def test_a_static_member_that_is_replaced_is_reported() -> None:
    """With the client that took its instance id, as two clients may have the same one; a rejoin with its
    member id is no event.
    """
    h = Harness(group_initial_rebalance_delay_ms="0")
    first = join(group_id=GROUP, instance_id="i", new_member_id="a", must_know_member_id=False)
    token = h.send(first)
    while h.is_parked(token):
        h.advance(1000)
    h.send(sync("a", h.answers[token].generation, group_id=GROUP, instance_id="i", assignments=(("a", b""),)))
    found = events_of(h)
    other = {"client_id": "other", "client_host": "/10.0.0.2"}
    h.send(join(group_id=GROUP, instance_id="i", new_member_id="b", must_know_member_id=False, **other))
    assert found[:2] == [
        MemberRemoved(GROUP, MemberId("a"), *CLIENT, RemovalReason.REPLACED),
        MemberJoined(GROUP, MemberId("b"), "other", "/10.0.0.2"),
    ]


def test_a_group_is_created_once() -> None:
    """By a commit without members; a second commit, and a member of a group with offsets, create none."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    found = events_of(h)
    for offset in (1, 2):
        h.commit(GROUP, offset=offset)
    assert found == [GroupCreated(GROUP, "classic")]


def test_members_that_leave_and_groups_that_are_deleted_are_reported() -> None:
    """What was asked for has its reason too. A deletion that is refused is no event."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    let_join(h)
    found = events_of(h)
    h.ask(DeleteGroup(GROUP))
    assert found == []
    reason = "consumer poll timeout has expired."
    h.ask(LeaveGroup(group_id=GROUP, members=(LeavingMember(MemberId("a"), None, reason),)))
    assert found[0] == MemberRemoved(GROUP, MemberId("a"), *CLIENT, RemovalReason.LEFT, reason)
    found.clear()
    h.ask(DeleteGroup(GROUP))
    assert found == [GroupDeleted(GROUP)]


def test_a_consumer_group_reports_target_assignments_and_lost_members() -> None:
    """A member that sends no heartbeats is removed."""
    h = ConsumerHarness({"t": 2}, group_consumer_assignment_interval_ms="0")
    found = events_of(h)
    h.join("a", "t")
    assert [type(event) for event in found] == [GroupCreated, MemberJoined, GroupRebalanced]
    assert {event.group_id for event in found if not isinstance(event, TransactionTimedOut)} == {"g"}
    found.clear()
    h.advance(60_000)
    assert found == [MemberRemoved(GroupId("g"), MemberId("a"), *CLIENT, RemovalReason.SESSION_TIMEOUT)]


def test_a_share_group_reports_its_members_and_assignments() -> None:
    """As other groups do; a repeated join reports nothing."""
    h = ShareLife()
    found = events_of(h)
    h.join("a")
    h.join("a")
    h.join("b")
    h.heartbeat("a", -1)
    h.advance(SESSION_MS + 1)
    kinds = [type(one) for one in found]
    assert kinds[:2] == [GroupCreated, MemberJoined]
    assert found[0] == GroupCreated(G, "share")
    assert [one.member_id for one in found if isinstance(one, MemberJoined)] == ["a", "b"]
    removed = [(one.member_id, one.reason) for one in found if isinstance(one, MemberRemoved)]
    assert removed == [("a", RemovalReason.LEFT), ("b", RemovalReason.SESSION_TIMEOUT)]
    rebalanced = [one for one in found if isinstance(one, GroupRebalanced)]
    assert rebalanced and all(one.is_share for one in rebalanced)
    assert len(rebalanced) == share_groups(h.shard).rebalances
