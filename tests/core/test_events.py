"""What a shard reports of members and rebalances."""

from __future__ import annotations

from tests.core.consumer.support import ConsumerHarness
from tests.core.harness import Harness, join, leave, sync

from headgate.core.commands import DeleteGroup
from headgate.core.events import (
    Event,
    GroupCreated,
    GroupDeleted,
    GroupRebalanced,
    MemberJoined,
    MemberRemoved,
    RemovalReason,
    TransactionTimedOut,
)
from headgate.domain.ids import GroupId, MemberId

GROUP = GroupId("billing")
LOST = [MemberRemoved(GROUP, MemberId("a"), RemovalReason.SESSION_TIMEOUT)]


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


def test_a_static_member_that_is_replaced_is_reported() -> None:
    """With the member that took its instance id; a rejoin with its member id is no event."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    first = join(group_id=GROUP, instance_id="i", new_member_id="a", must_know_member_id=False)
    token = h.send(first)
    while h.is_parked(token):
        h.advance(1000)
    h.send(sync("a", h.answers[token].generation, group_id=GROUP, instance_id="i", assignments=(("a", b""),)))
    found = events_of(h)
    h.send(join(group_id=GROUP, instance_id="i", new_member_id="b", must_know_member_id=False))
    assert found[:2] == [
        MemberRemoved(GROUP, MemberId("a"), RemovalReason.REPLACED),
        MemberJoined(GROUP, MemberId("b"), "client", "/127.0.0.1"),
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
    h.ask(leave(("a", None), group_id=GROUP))
    assert found[0] == MemberRemoved(GROUP, MemberId("a"), RemovalReason.LEFT)
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
    assert found == [MemberRemoved(GroupId("g"), MemberId("a"), RemovalReason.SESSION_TIMEOUT)]
