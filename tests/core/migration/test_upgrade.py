"""Upgrades of classic groups: when they are allowed, what members keep, and the answers they get."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import ConsumerHarness, G, Pairs, joining, pairs
from tests.core.harness import heartbeat, join, leave, sync
from tests.core.kinds_of_shard import classic_groups, consumer_groups
from tests.core.migration.support import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    ClassicClient,
    NewClient,
    assignment,
    play,
    subscription,
)

from headgate.core.consumer.group import ConsumerState, tombstone_of
from headgate.core.image import record_parts
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId

ALL: Pairs = frozenset({("t", 0), ("t", 1), ("t", 2)})


def classic_group(
    assigned: bytes | None = None,
    *,
    protocol: str = "range",
    metadata: bytes | None = None,
    harness_type: type[ConsumerHarness] = ConsumerHarness,
    **settings: str,
) -> ConsumerHarness:
    """A stable group of one classic member "a" in generation 1, which has everything unless told."""
    h = harness_type(None, group_initial_rebalance_delay_ms="0", **settings)
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


def test_members_keep_their_assignments_with_the_generation_as_epoch() -> None:
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
def test_a_group_that_cannot_be_upgraded_does_not_change(group: dict[str, Any], reason: str) -> None:
    """The new member gets the reason; the others, also those with parked requests, are not affected."""
    h = classic_group(**group)
    refused = h.join("x", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert reason in str(refused.message)
    assert h.ask(heartbeat("a", 1, group_id=G)) is ErrorCode.NONE
    assert not consumer_groups(h.shard).by_id


def test_a_group_over_the_maximum_size_stays_classic() -> None:
    """The maximum of consumer groups applies, not that of classic ones."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    play(h, ClassicClient(h, "a"), ClassicClient(h, "b"))
    assert h.join("x", "t").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_user_data_of_sticky_assignors_does_not_prevent_an_upgrade() -> None:
    """It only has former assignments."""
    h = classic_group(assignment(ALL, b"what it had"), protocol="cooperative-sticky")
    assert h.join("x", "t").error is ErrorCode.NONE


def test_an_upgrade_answers_parked_requests() -> None:
    """With REBALANCE_IN_PROGRESS."""
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


def test_an_unfinished_rebalance_continues_after_an_upgrade() -> None:
    """A static member that only changes its protocol raises the epoch: others wait for partitions."""
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


def test_an_upgrade_assigns_unassigned_partitions() -> None:
    """For example those of a topic that has grown."""
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


def test_a_static_member_migrates_without_a_new_epoch() -> None:
    """Nothing must be reassigned; its former process is fenced."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    old = ClassicClient(h, "old", instance_id="i")
    play(h, old)
    result = h.beat("n", 0, **joining("t"), instance_id=InstanceId("i"))
    assert (result.member_epoch, pairs(result.assigned)) == (1, ALL)
    assert h.ask(heartbeat(old.member_id, 1, group_id=G, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert old.commit() is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_upgrade_cancels_the_timers_of_the_classic_group() -> None:
    """When the classic member has left, only the new member's session timer is left."""
    h = classic_group()
    h.join("x", "t")
    h.ask(leave(("a", None), group_id=G))
    h.advance(REBALANCE_TIMEOUT_MS // 2)
    assert set(h.group.members) == {"x"}


def test_an_image_restores_a_mixed_group() -> None:
    """Its records are its whole state."""
    h = classic_group()
    h.join("x", "t")
    parts = [
        data
        for kind, data in record_parts((classic_groups(h.shard), consumer_groups(h.shard)))
        if kind == "records"
    ]
    restored = GroupShard(h.settings)
    for _ in restored.restore(lambda kind: parts if kind == "records" else [], {}):
        pass
    group = consumer_groups(restored).find(G)
    assert group is not None
    assert {tombstone_of(one): one for one in group.records()} == {
        tombstone_of(one): one for one in h.group.records()
    }
    assert group.classic_members == 1


# --- what cooperative members own besides their last assignment ---


def joins_classic(h: ConsumerHarness, member_id: str, owned: Pairs, **more: Any) -> int:
    """A cooperative member joins and says what it owns; the token of the request."""
    known = {"member_id": MemberId(member_id)} if more.pop("is_known", False) else {}
    return h.send(
        join(
            group_id=G,
            new_member_id=member_id,
            must_know_member_id=False,
            protocols=(("range", subscription("t", owned=owned)),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            **known,
        )
    )


def with_a_second_member() -> ConsumerHarness:
    """Cooperative members "a", which owns everything, and "b" in generation 2, not assigned yet."""
    h = classic_group()
    joins_classic(h, "b", frozenset())
    joins_classic(h, "a", ALL, is_known=True)
    h.advance(1)
    assert classic_groups(h.shard).live[G].generation == 2
    return h


def with_a_new_member(h: ConsumerHarness) -> NewClient:
    """A member of the new protocol after some heartbeats, in which it may have come to own partitions."""
    new = NewClient(h, "n")
    for _ in range(4):
        new.step()
        h.advance(1_000)
    return new


def test_partitions_revoked_by_a_delayed_assignment_stay_owned_until_the_rejoin() -> None:
    """The response to its SyncGroup may be in flight: it commits the partition in its generation."""
    h = with_a_second_member()
    taken = ("t", 2)
    given = ((MemberId("a"), assignment(ALL - {taken})),)
    on_its_way = h.send(sync("a", 2, group_id=G, assignments=given))
    assert not h.is_parked(on_its_way)
    new = with_a_new_member(h)
    current = h.group.member(MemberId("a")).current
    assert pairs(current.pending_revocation) == {taken}
    assert taken not in new.owned
    assert h.commit_as("a", 2, taken) is ErrorCode.NONE
    assert h.ask(heartbeat("a", 2, group_id=G)) is ErrorCode.REBALANCE_IN_PROGRESS
    before, after = (joins_classic(h, "a", owned, is_known=True) for owned in (ALL, frozenset()))
    assert h.answers[before].generation == 2, "the answer to its SyncGroup has not arrived yet"
    assert h.answers[after].generation == 3
    assert h.commit_as("a", 2, taken) is ErrorCode.ILLEGAL_GENERATION
    assert not pairs(h.group.member(MemberId("a")).current.pending_revocation)


def test_members_own_their_former_partitions_after_an_abandoned_rebalance() -> None:
    """Its assignment was never sent, so all members have what they joined with."""
    h = with_a_second_member()
    joins_classic(h, "c", frozenset())
    assert classic_groups(h.shard).live[G].members[MemberId("a")].assignment == b""
    new = with_a_new_member(h)
    assert pairs(h.group.member(MemberId("a")).current.pending_revocation) == ALL
    assert not new.owned
    assert h.commit_as("a", 2, *ALL) is ErrorCode.NONE


def test_an_assigned_partition_has_precedence_over_a_reported_one() -> None:
    """Of several members that report a partition one owns it; unknown partitions are ignored."""
    h = with_a_second_member()
    claimed = ALL | {("t", 3), ("t", -1), ("nothing", 0)}
    joins_classic(h, "b", claimed, is_known=True)
    joins_classic(h, "a", claimed, is_known=True)
    h.advance(1)
    h.send(sync("b", 3, group_id=G))
    given = ((MemberId("b"), assignment(frozenset({("t", 0)}))),)
    h.send(sync("a", 3, group_id=G, assignments=given))
    h.join("n", "t")
    pending = [pairs(h.group.member(MemberId(one)).current.pending_revocation) for one in ("a", "b")]
    assert frozenset().union(*pending) == ALL - {("t", 0)}
    assert not pending[0] & pending[1]


def test_a_partition_of_two_members_keeps_the_group_classic() -> None:
    """A consumer group cannot represent it, and neither member may lose it unnoticed."""
    h = with_a_second_member()
    given = tuple((MemberId(one), assignment(ALL)) for one in ("a", "b"))
    h.send(sync("a", 2, group_id=G, assignments=given))
    refused = h.join("n", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "more than one member" in str(refused.message)


def test_a_group_with_pending_revocations_becomes_stable() -> None:
    """Also if the only new member replaces a static one, which by itself raises no epoch."""
    h = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    static = ClassicClient(h, "s", instance_id="i")
    a, b = (ClassicClient(h, name, is_cooperative=True) for name in "ab")
    play(h, static, a)
    b.step()
    for _ in range(6):
        for member in (static, a, b):
            if classic_groups(h.shard).live[G].state.value != "CompletingRebalance":
                member.step()
    new = NewClient(h, "n", instance_id="i")
    play(h, new, a, b)
    assert new.owned | a.owned | b.owned == ALL
    assert h.group.state is ConsumerState.STABLE
