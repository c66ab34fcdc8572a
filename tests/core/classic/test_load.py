"""Classic groups after a crash: their records, with restarted session timers."""

from __future__ import annotations

from tests.core.harness import NONE, Harness, count_by_state, heartbeat, join, sync
from tests.core.kinds_of_shard import classic_groups

from headgate.core.classic.state import ClassicState
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.records import UnknownRecord


def test_a_stable_group_is_stable_after_a_crash() -> None:
    """With the same generation and assignments, and new sessions."""
    h = Harness()
    generation = h.stable_group("a", "b")
    h.advance(9_000)
    h.reload()
    h.advance(9_999)
    for one in ("a", "b"):
        assert h.ask(heartbeat(one, generation)) == NONE
        assert h.ask(sync(one, generation)).assignment == one.encode()


def test_a_member_that_does_not_come_back_after_a_crash_is_removed() -> None:
    """Its session timer starts with the load."""
    h = Harness()
    generation = h.stable_group("a", "b")
    h.reload()
    h.advance(5_000)
    h.ask(heartbeat("a", generation))
    h.advance(5_000)
    assert h.state("g") is ClassicState.PREPARING_REBALANCE
    assert h.ask(heartbeat("b", generation)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unfinished_rebalance_is_lost_in_a_crash() -> None:
    """The last stable generation is restored; its new members are unknown."""
    h = Harness()
    generation = h.stable_group("a", "b")
    h.send(join(new_member_id="c", must_know_member_id=False))
    h.send(join(member_id="a"))
    h.reload()
    assert h.state("g") is ClassicState.STABLE
    assert h.ask(heartbeat("a", generation)) == NONE
    assert h.ask(join(member_id="c")).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_empty_after_a_crash() -> None:
    """With its generation and the time since which it is empty."""
    h = Harness()
    h.stable_group("a")
    h.advance(60_000)
    before = classic_groups(h.shard).recorded[GroupId("g")]
    h.reload()
    assert classic_groups(h.shard).recorded[GroupId("g")] == before
    assert h.state("g") is ClassicState.EMPTY
    token = h.send(join(must_know_member_id=False))
    h.advance(3_000)
    assert h.answers[token].generation == before.generation + 1


def test_a_member_that_rejoins_after_a_crash_with_two_protocols_rebalances() -> None:
    """The record has the selected protocol only, so the member seems changed, as in Kafka."""
    h = Harness()
    both = (("range", b""), ("sticky", b""))
    h.stable_group("a", "b", protocols=both)
    h.reload()
    token = h.send(join(member_id="b", protocols=both))
    assert h.is_parked(token)


def test_a_group_that_is_too_large_now_rebalances() -> None:
    """After a change of group.max.size the first members to join stay."""
    h = Harness()
    h.stable_group("a", "b", "c")
    h.settings = Harness(group_max_size="2").settings
    h.reload()
    assert h.state("g") is ClassicState.PREPARING_REBALANCE
    tokens = [h.send(join(member_id=one)) for one in ("c", "b", "a")]
    assert [h.answers[token].error for token in tokens] == [NONE, NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_unknown_records_are_ignored() -> None:
    """They change nothing."""
    shard = GroupShard(Harness().settings)
    shard.apply(UnknownRecord(2000, b"\x07\xd0key", b"value"), 0)
    shard.apply(UnknownRecord(2000, b"\x07\xd0key", None), 1)
    assert shard.offset_count == 0
    assert not any(count_by_state(shard).values())


def test_metrics_count_offsets_and_groups() -> None:
    """Groups by state: with members, with a record only, with offsets only."""
    h = Harness()
    h.stable_group("a", group_id="stable")
    h.commit("stable", member_id="a", generation=1)
    h.stable_group("b", group_id="emptied")
    h.commit("emptied", member_id="b", generation=1)
    h.advance(6_000)
    h.ask(heartbeat("a", 1, group_id="stable"))
    h.advance(5_000)
    h.ask(join(group_id="pending"))
    h.commit("simple")
    assert {state: count for state, count in count_by_state(h.shard).items() if count} == {
        "Stable": 1,
        "Empty": 3,
    }
    assert h.shard.offset_count == 3
