"""A classic group becomes a consumer group: when it may, what its members keep, what they are told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import ConsumerHarness, G, Pairs, joining, pairs
from tests.core.harness import heartbeat, join, leave, sync
from tests.core.migration.support import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    ClassicClient,
    NewClient,
    assignment,
    play,
    subscription,
)

from headgate.core.consumer.group import tombstone_of
from headgate.core.image import record_parts
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId

ALL: Pairs = frozenset({("t", 0), ("t", 1), ("t", 2)})


def classic_group(
    assigned: bytes | None = None, *, protocol: str = "range", metadata: bytes | None = None, **settings: str
) -> ConsumerHarness:
    """A stable group of one classic member "a" in generation 1, which has everything unless told."""
    h = ConsumerHarness(None, group_initial_rebalance_delay_ms="0", **settings)
    protocols = ((protocol, subscription("t") if metadata is None else metadata),)
    h.send(
        join(
            group_id=G,
            new_member_id="a",
            must_know_member_id=False,
            protocols=protocols,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )
    )
    h.advance(1)
    given = assignment(ALL) if assigned is None else assigned
    h.send(sync("a", 1, group_id=G, assignments=((MemberId("a"), given),)))
    return h


def test_members_keep_what_they_had_from_the_generation_on() -> None:
    """It is the epoch of the group, of the member, and of every partition it has (R1.9)."""
    h = classic_group()
    assert h.join("x", "t").member_epoch == 2
    current = h.group.member(MemberId("a")).current
    assert (current.member_epoch, pairs(current.assigned)) == (1, ALL)
    assert {epoch for epochs in current.assigned.values() for epoch in epochs.values()} == {1}
    assert h.commit_as("a", 1, *ALL) is ErrorCode.NONE
    assert h.commit_as("a", 0, *ALL) is ErrorCode.ILLEGAL_GENERATION
    assert h.ask(heartbeat("a", 1, group_id=G)) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ({"assigned": b"x"}, "assignment"),
        ({"assigned": assignment(ALL, b"mine")}, "user data"),
        ({"metadata": b"\x00\x01\x00"}, "subscription"),
        ({"group_consumer_migration_policy": "disabled"}, "disabled"),
        ({"group_consumer_migration_policy": "downgrade"}, "disabled"),
    ],
)
def test_a_group_that_cannot_be_upgraded_goes_on(group: dict[str, Any], reason: str) -> None:
    """The new member is told why; the others notice nothing, not even those that wait."""
    h = classic_group(**group)
    refused = h.join("x", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert reason in str(refused.message)
    assert h.ask(heartbeat("a", 1, group_id=G)) is ErrorCode.NONE
    assert not h.shard.consumer.by_id


def test_a_group_of_more_than_may_be_stays_classic() -> None:
    """What a consumer group may have counts, not what a classic group may."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    play(h, ClassicClient(h, "a"), ClassicClient(h, "b"))
    assert h.join("x", "t").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_user_data_of_sticky_assignors_is_no_hindrance() -> None:
    """It is but what members had before."""
    h = classic_group(assignment(ALL, b"what it had"), protocol="cooperative-sticky")
    assert h.join("x", "t").error is ErrorCode.NONE


def test_who_waits_is_told_to_join_again() -> None:
    """Joins and syncs that are parked are answered."""
    h = classic_group()
    joining_one = h.send(
        join(
            group_id=G,
            new_member_id="b",
            must_know_member_id=False,
            protocols=(("range", subscription("t")),),
        )
    )
    assert h.is_parked(joining_one)
    h.join("x", "t")
    assert h.answers[joining_one].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(h.group.members) == {"a", "b", "x"}


def test_a_rebalance_under_way_goes_on_though_nobody_new_comes() -> None:
    """A static member that only changes its protocol still raises the epoch: others wait for partitions."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    static = ClassicClient(h, "s", instance_id="i")
    play(h, static)
    other = ClassicClient(h, "o")
    other.step()
    other.step()
    new = NewClient(h, "n", instance_id="i")
    play(h, new, other)
    assert other.owned
    assert new.owned | other.owned == ALL


def test_what_no_classic_leader_has_assigned_is_assigned_now() -> None:
    """A topic that has grown unnoticed is no reason to wait for somebody else to come."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    h.send(
        join(
            group_id=G,
            new_member_id="a",
            must_know_member_id=False,
            instance_id=InstanceId("i"),
            protocols=(("range", subscription("t")),),
        )
    )
    h.advance(1)
    h.send(sync("a", 1, group_id=G, assignments=((MemberId("a"), assignment(frozenset({("t", 0)}))),)))
    new = NewClient(h, "n", instance_id="i")
    play(h, new)
    assert new.owned == ALL


def test_a_static_member_takes_its_place_without_a_new_epoch() -> None:
    """Nothing is to be assigned; its old life is fenced."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    old = ClassicClient(h, "old", instance_id="i")
    play(h, old)
    result = h.beat("n", 0, **joining("t"), instance_id=InstanceId("i"))
    assert (result.member_epoch, pairs(result.assigned)) == (1, ALL)
    assert h.ask(heartbeat(old.member_id, 1, group_id=G, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert old.commit() is ErrorCode.UNKNOWN_MEMBER_ID


def test_nothing_of_the_classic_group_is_due_any_more() -> None:
    """Its timers are gone with it: only the new member's session is left when the classic one has gone."""
    h = classic_group()
    h.join("x", "t")
    h.ask(leave(("a", None), group_id=G))
    h.advance(REBALANCE_TIMEOUT_MS // 2)
    assert set(h.group.members) == {"x"}


def test_a_mixed_group_is_in_an_image() -> None:
    """What its records say is all there is to it."""
    h = classic_group()
    h.join("x", "t")
    parts = [data for kind, data in record_parts((h.shard.classic, h.shard.consumer)) if kind == "records"]
    restored = GroupShard(h.settings)
    for _ in restored.restore(lambda kind: parts if kind == "records" else [], {}):
        pass
    group = restored.consumer.find(G)
    assert group is not None
    assert {tombstone_of(one): one for one in group.records()} == {
        tombstone_of(one): one for one in h.group.records()
    }
    assert group.classic_members == 1
