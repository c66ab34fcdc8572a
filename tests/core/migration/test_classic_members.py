"""Classic members in a consumer group: their epochs, timers and errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import ConsumerHarness, G
from tests.core.harness import heartbeat, join, leave, sync
from tests.core.kinds_of_shard import consumer_groups
from tests.core.migration.support import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    ClassicClient,
    NewClient,
    assigned_pairs,
    play,
    subscription,
)

from headgate.core.classic.commands import DescribeGroup, JoinResult
from headgate.core.consumer.commands import DescribeConsumerGroup
from headgate.core.group_bytes import MOST_BYTES
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId


def joins(h: ConsumerHarness, member_id: str, *topics: str, **more: Any) -> JoinResult:
    """Join a consumer group as a classic member."""
    values = {
        "group_id": G,
        "member_id": MemberId(member_id),
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "protocols": (("range", subscription(*topics)),),
    }
    result = h.ask(join(**(values | more)))
    assert isinstance(result, JoinResult)
    return result


def with_new_member(**settings: str) -> tuple[ConsumerHarness, NewClient]:
    """Return a group with one member of the consumer protocol that owns everything."""
    h = ConsumerHarness(None, **settings)
    new = NewClient(h, "x")
    play(h, new)
    return h, new


def test_the_server_assigns_without_a_leader() -> None:
    """A join returns the epoch as the generation, a sync the free partitions."""
    h = ConsumerHarness()
    h.join("x")  # reads nothing
    joined = joins(h, "a", "t")
    assert (joined.error, joined.generation, joined.leader, joined.members) == (ErrorCode.NONE, 2, "", ())
    synced = h.ask(sync("a", 2, group_id=G))
    assert assigned_pairs(synced.assignment) == {("t", 0), ("t", 1), ("t", 2)}
    assert h.ask(heartbeat("a", 2, group_id=G)) is ErrorCode.NONE


def test_metadata_that_no_record_of_a_classic_group_takes_is_refused() -> None:
    """The group may become a classic one at any time, and one record then has all members."""
    h, _ = with_new_member()
    half = subscription("t") + b"\0" * (MOST_BYTES // 2 - 100)
    for member_id in ("a", "b"):
        assert joins(h, member_id, protocols=(("range", half),)).error is ErrorCode.NONE
    refused = joins(h, "c", protocols=(("range", subscription("t") + b"\0" * 200),))
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joins(h, "b", protocols=(("range", half),)).error is ErrorCode.NONE


def test_a_member_without_an_id_gets_one_first() -> None:
    """The group does not change until it joins with it."""
    h, _ = with_new_member()
    refused = joins(h, "", "t", new_member_id="given")
    assert (refused.error, refused.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "given")
    assert len(h.group.members) == 1


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"protocols": (("roundrobin", subscription("t")),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\x00\x01\x00"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": InstanceId("unknown")}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_joins_that_are_refused_change_nothing(asked: dict[str, Any], error: ErrorCode) -> None:
    """The members continue."""
    h, _ = with_new_member()
    joins(h, "a", "t")
    before = h.group.epoch
    assert joins(h, "b", "t", **asked).error is error
    assert (h.group.epoch, len(h.group.members)) == (before, 2)


def test_a_removed_member_has_to_lose_its_partitions_before_it_joins_again() -> None:
    """Other members own them, and in the newest epoch its commits for them would be accepted."""
    h, _ = with_new_member()
    owned = (("range", subscription("t", owned=frozenset({("t", 0)}))),)
    assert joins(h, "removed", "t", protocols=owned).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert joins(h, "", "t", new_member_id="given").error is ErrorCode.MEMBER_ID_REQUIRED
    assert joins(h, "given", "t", protocols=owned).error is ErrorCode.NONE


def test_a_full_group_accepts_only_known_classic_members() -> None:
    """Also no one with an unknown instance id."""
    h, _ = with_new_member(group_consumer_max_size="2")
    joins(h, "a", "t")
    assert joins(h, "b", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joins(h, "a", "t").error is ErrorCode.NONE


def test_a_member_that_does_not_rejoin_is_removed_after_its_rebalance_timeout() -> None:
    """However often it heartbeats."""
    h, new = with_new_member()
    a = ClassicClient(h, "a")
    play(h, new, a)
    other = NewClient(h, "y")
    other.step()
    for _ in range(REBALANCE_TIMEOUT_MS // 5_000 - 1):
        error = h.ask(heartbeat(a.member_id, a.generation, group_id=G))
        assert error is ErrorCode.REBALANCE_IN_PROGRESS
        h.advance(5_000)
        new.step()
        other.step()
    h.advance(6_000)
    assert a.member_id not in h.group.members


def test_a_member_that_does_not_sync_is_removed_after_its_rebalance_timeout() -> None:
    """Heartbeats do not extend it."""
    h, new = with_new_member()
    generation = joins(h, "a", "t").generation
    for _ in range(REBALANCE_TIMEOUT_MS // 5_000):
        assert MemberId("a") in h.group.members
        h.ask(heartbeat("a", generation, group_id=G))
        new.step()
        h.advance(5_000)
    assert MemberId("a") not in h.group.members


@pytest.mark.parametrize("crashes", [False, True])
def test_a_silent_classic_member_is_removed_after_its_own_session_timeout(crashes: bool) -> None:
    """Not after the group's longer one; also when the shard was loaded meanwhile."""
    h, new = with_new_member()
    a = ClassicClient(h, "a")
    play(h, new, a)
    a.step()
    if crashes:
        h.reload()
    h.advance(SESSION_TIMEOUT_MS - 1)
    assert a.member_id in h.group.members
    h.advance(1)
    assert a.member_id not in h.group.members
    assert len(h.group.members) == 1


def test_the_last_new_member_that_is_silent_leaves_a_classic_group() -> None:
    """Its session expires, and the classic members rebalance."""
    h, new = with_new_member()
    a = ClassicClient(h, "a")
    play(h, new, a)
    for _ in range(12):
        a.step()
        h.advance(SESSION_TIMEOUT_MS // 2)
    play(h, a)
    assert h.ask(DescribeGroup(G)).state == "Stable"
    assert len(a.owned) == 3


def test_descriptions_have_the_protocol_of_members() -> None:
    """ConsumerGroupDescribe tells which members are classic ones."""
    h, new = with_new_member()
    a = ClassicClient(h, "a")
    play(h, new, a)
    described = h.ask(DescribeConsumerGroup(G))
    assert {one.member_id: one.uses_classic_protocol for one in described.members} == {
        new.member_id: False,
        a.member_id: True,
    }


def test_without_downgrades_the_server_continues_to_assign() -> None:
    """With the policy "upgrade" classic members stay in a consumer group, and get the partitions of leaving
    members.
    """
    h, new = with_new_member(group_consumer_migration_policy="upgrade")
    a = ClassicClient(h, "a")
    play(h, new, a)
    new.leave()
    play(h, a)
    assert len(a.owned) == 3
    assert G in consumer_groups(h.shard).by_id


def test_a_group_that_may_not_be_mixed_refuses_classic_members() -> None:
    """With the policy "disabled"."""
    h, _ = with_new_member(group_consumer_migration_policy="disabled")
    assert joins(h, "a", "t").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_administrator_removes_members_of_both_kinds() -> None:
    """A wrong id of an instance is fenced; without consumer members the group becomes a classic one."""
    h, new = with_new_member()
    a = ClassicClient(h, "a", instance_id="i")
    play(h, new, a)
    refused = h.ask(leave(("nobody", "i"), ("nobody", None), ("", "unknown"), group_id=G))
    assert [error for _, error in refused.members] == [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    h.ask(leave((new.member_id, None), group_id=G))
    assert h.ask(DescribeGroup(G)).state == "PreparingRebalance"


def test_the_static_member_that_makes_a_group_classic_leads_it() -> None:
    """It need not assign: all members keep their partitions, and none rejoins."""
    h = ConsumerHarness()
    first, second = NewClient(h, "n1", instance_id="i"), NewClient(h, "n2", instance_id="j")
    play(h, first, second)
    assert joins(h, "", "t", instance_id=InstanceId("i"), new_member_id="c1").leader == ""
    joined = joins(h, "", "t", instance_id=InstanceId("j"), new_member_id="c2")
    assert (joined.leader, joined.skip_assignment) == ("c2", True)
    owned = [
        assigned_pairs(h.ask(sync(one, joined.generation, group_id=G)).assignment) for one in ("c1", "c2")
    ]
    assert owned == [first.owned, second.owned]
    assert h.ask(DescribeGroup(G)).state == "Stable"
