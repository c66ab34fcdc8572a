"""Several deadlines in one tick, in time or late: each decision sees the effects of those before it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from tests.core.consumer.support import ConsumerHarness
from tests.core.harness import NONE, Harness, heartbeat, join, leave, sync
from tests.core.kinds_of_shard import classic_groups

from headgate.core.classic.state import ClassicState
from headgate.core.commands import Tick
from headgate.core.effects import NOTHING, GroupEffects
from headgate.core.shard import GroupShard
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings
from headgate.records import GroupMember, GroupMetadata, decode, encode

MINUTE = 60_000
EXPIRING: dict[str, Any] = {
    "offsets_retention_minutes": "10",
    "offsets_retention_check_interval_ms": str(MINUTE),
}


@pytest.mark.parametrize("late_ms", [0, 500, 5 * MINUTE])
def test_a_sweep_does_not_age_a_group_that_empties_in_the_same_tick(late_ms: int) -> None:
    """Its offsets are kept for a full retention, also if the tick is late."""
    h = Harness(**EXPIRING)
    generation = h.stable_group("a", session_timeout_ms=MINUTE)
    h.commit("g", "quiet", member_id="a", generation=generation)
    for _ in range(30):
        h.advance(MINUTE // 2)
        assert h.ask(heartbeat("a", generation)) == NONE
    h.commit("g", member_id="a", generation=generation)
    h.reload()  # session and sweep both begin now, and are due together
    h.be_late([late_ms])
    h.advance(MINUTE + late_ms)
    assert h.state("g") is ClassicState.EMPTY
    h.advance(9 * MINUTE)
    assert (h.offset("g"), h.offset("g", "quiet")) == (1, 1)
    h.advance(2 * MINUTE)
    assert h.offset("g") is None


@pytest.mark.parametrize("late_ms", [0, 500, 5 * MINUTE])
def test_a_sweep_does_not_age_a_consumer_group_that_empties_in_the_same_tick(late_ms: int) -> None:
    """Its last member is removed, then the sweep checks it."""
    h = ConsumerHarness(**EXPIRING, group_consumer_session_timeout_ms=str(MINUTE))
    epoch = h.join("a", "u").member_epoch
    assert h.commit_as("a", epoch, ("u", 0), knows_group_not_found=True) == NONE
    for _ in range(30):
        h.advance(MINUTE // 2)
        assert h.beat("a", epoch).error == NONE
    h.reload()
    h.be_late([late_ms])
    h.advance(MINUTE + late_ms)
    assert h.group.is_empty
    h.advance(9 * MINUTE)
    assert h.offset("g", "u") == 7


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31), 1])
def test_a_rebalance_of_absent_static_members_does_not_spin(timeout_ms: int) -> None:
    """It is checked from time to time."""
    h = Harness()
    tokens = [
        h.send(join(new_member_id=one, instance_id=instance, rebalance_timeout_ms=rebalance_timeout_ms))
        for one, instance, rebalance_timeout_ms in (("a", "i", timeout_ms), ("b", "j", 60_000))
    ]
    while h.is_parked(tokens[0]):
        h.advance(1)
    generation = h.answers[tokens[0]].generation
    for one in ("b", "a"):
        h.send(sync(one, generation, assignments=((MemberId(one), one.encode()),)))
    h.reload()
    h.ask(leave(("b", None)))
    ticks = h.ticks
    for _ in range(5):
        h.advance(5_000)
        assert h.ask(heartbeat("a", generation, instance_id="i")) == ErrorCode.REBALANCE_IN_PROGRESS
    assert h.ticks - ticks < 60
    token = h.send(join(member_id="a", instance_id="i", rebalance_timeout_ms=timeout_ms))
    assert h.answers[token].generation == generation + 1


def test_a_rebalance_timeout_of_minus_one_is_stored_unchanged() -> None:
    """The group made from the record uses the session timeout instead."""
    member = GroupMember(
        member_id=MemberId("a"),
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=-1,
        session_timeout_ms=10_000,
        subscription=b"",
        assignment=b"",
    )
    record = GroupMetadata(GroupId("g"), "consumer", 3, "range", MemberId("a"), Millis(1), (member,))
    assert decode(*encode(record)) == record
    shard = GroupShard(Settings({}))
    shard.apply(record, 0)
    shard.loaded(Millis(5))
    assert classic_groups(shard).live[GroupId("g")].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize("kind", list(TimerKind))
@pytest.mark.interpreted
def test_a_tick_ends_though_a_deadline_sets_itself_again_at_once(kind: TimerKind) -> None:
    """A handler with such a bug costs one tick per millisecond, and all other due handlers run."""
    shard = GroupShard(Settings({}))
    shard.loaded(Millis(0))
    handled: list[Timer] = []
    deadlines = shard._deadlines

    def again(shard: GroupShard, timer: Timer, now: Millis) -> GroupEffects:
        handled.append(timer)
        deadlines.set(timer, now)
        return NOTHING

    with patch.object(GroupShard, "_on_timer", again):
        bad, other = Timer(kind, "g", "bad"), Timer(TimerKind.SESSION, "g", "other")
        deadlines.set(bad, Millis(10))
        deadlines.set(other, Millis(10))
        for now in range(10, 13):
            shard.handle(Tick(), Millis(now))
    assert handled.count(bad) <= 3
    assert other in handled
