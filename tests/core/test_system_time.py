"""Changes of the system clock: timestamps and ages follow it, deadlines do not."""

from __future__ import annotations

import pytest
from tests.core.consumer.support import ConsumerHarness
from tests.core.harness import NONE, START, Harness, heartbeat, join, leave
from tests.core.kinds_of_shard import classic_groups

from headgate.core.classic.state import ClassicState
from headgate.core.commands import SystemTimeMoved
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName

HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS
RETENTION_MS = 60_000
SWEEP_MS = 5000
JUMPS = [-MONTH_MS, -2 * HOUR_MS, -1, 1, 2 * HOUR_MS, MONTH_MS]


@pytest.fixture
def shard() -> Harness:
    """A shard that keeps offsets for a minute."""
    return Harness(offsets_retention_minutes="1", offsets_retention_check_interval_ms=str(SWEEP_MS))


def set_clock(harness: Harness, ahead_ms: int) -> None:
    """The system's clock is so far ahead of steady time from now on."""
    harness._handle(SystemTimeMoved(ahead_ms), 0)


def committed_at(harness: Harness, group_id: str) -> int:
    """The commit timestamp of the offset of `t-0`."""
    stored = harness.shard.offsets.get(GroupId(group_id), TopicName("t"), 0)
    assert stored is not None
    return stored.commit_timestamp


def test_commits_have_the_system_time(shard: Harness) -> None:
    """So has their own expiry."""
    shard.advance(10)
    set_clock(shard, MONTH_MS)
    assert shard.commit("g").error is NONE
    assert committed_at(shard, "g") == START + 10 + MONTH_MS
    set_clock(shard, -HOUR_MS)
    shard.commit("h", retention_ms=500)
    stored = shard.shard.offsets.get(GroupId("h"), TopicName("t"), 0)
    assert stored is not None
    assert stored.commit_timestamp == START + 10 - HOUR_MS
    assert stored.expire_timestamp == START + 10 - HOUR_MS + 500


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_change_of_the_clock_does_not_affect_sessions(shard: Harness, jump_ms: int) -> None:
    """A member is removed a session timeout after its last heartbeat."""
    generation = shard.stable_group("a", session_timeout_ms=10_000)
    shard.advance(4000)
    set_clock(shard, jump_ms)
    shard.advance(5999)
    assert shard.state("g") is ClassicState.STABLE
    assert shard.ask(heartbeat("a", generation)) is ErrorCode.NONE
    set_clock(shard, 0)
    shard.advance(9999)
    assert shard.state("g") is ClassicState.STABLE
    shard.advance(1)
    assert shard.state("g") is ClassicState.EMPTY


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_change_of_the_clock_does_not_affect_the_initial_delay(shard: Harness, jump_ms: int) -> None:
    """Of the first rebalance of a group."""
    token = shard.send(join(must_know_member_id=False))
    shard.advance(1000)
    set_clock(shard, jump_ms)
    shard.advance(1999)
    assert shard.is_parked(token)
    shard.advance(1)
    assert shard.answers[token].error is NONE


@pytest.mark.parametrize("jump_ms", [-10 * SWEEP_MS, -1])
def test_a_clock_set_back_delays_expiry_by_the_same_time(shard: Harness, jump_ms: int) -> None:
    """An offset expires when the system time is a retention past its commit timestamp."""
    shard.commit("g")
    set_clock(shard, jump_ms)
    shard.advance(RETENTION_MS - SWEEP_MS - jump_ms)
    assert shard.offset("g") == 1
    shard.advance(3 * SWEEP_MS)
    assert shard.offset("g") is None


def test_an_offset_with_a_future_timestamp_has_age_zero() -> None:
    """It is kept until its timestamp is reached, and a retention longer."""
    day_ms = 24 * HOUR_MS
    shard = Harness(offsets_retention_minutes="1", offsets_retention_check_interval_ms=str(HOUR_MS))
    set_clock(shard, day_ms)
    shard.commit("g")
    set_clock(shard, 0)
    shard.advance(day_ms)
    assert shard.offset("g") == 1
    shard.advance(2 * HOUR_MS)
    assert shard.offset("g") is None


def test_a_clock_set_ahead_ages_offsets(shard: Harness) -> None:
    """Offsets older than a retention by it are removed by the next sweep."""
    shard.commit("g")
    set_clock(shard, RETENTION_MS)
    shard.advance(SWEEP_MS)
    assert shard.offset("g") is None


def test_a_clock_set_back_between_two_sweeps_keeps_unswept_offsets(shard: Harness) -> None:
    """Only the time of the sweep counts."""
    shard.commit("g")
    set_clock(shard, MONTH_MS)
    set_clock(shard, 0)
    shard.advance(RETENTION_MS - SWEEP_MS)
    assert shard.offset("g") == 1


def test_a_group_that_becomes_empty_ages_by_the_systems_time(shard: Harness) -> None:
    """Its offsets expire a retention after that by the system clock, also if the clock was set before."""
    generation = shard.stable_group("a")
    shard.commit("g", member_id="a", generation=generation)
    set_clock(shard, MONTH_MS)
    shard.send(leave(("a", None)))
    emptied_at = shard.now + MONTH_MS
    recorded = classic_groups(shard.shard).recorded[GroupId("g")]
    assert recorded.state_timestamp == emptied_at
    shard.advance(RETENTION_MS - SWEEP_MS)
    assert shard.offset("g") == 1
    shard.advance(2 * SWEEP_MS)
    assert shard.offset("g") is None


def test_a_consumer_groups_records_have_the_system_time() -> None:
    """That of its target assignment, and that since which it is empty."""
    harness = ConsumerHarness()
    set_clock(harness, MONTH_MS)
    epoch = harness.join("a", "t").member_epoch
    assert epoch > 0
    assert harness.group.assignment_timestamp == harness.now + MONTH_MS
    harness.beat("a", -1)
    assert harness.group.metadata is not None
    assert harness.group.metadata.empty_since == harness.now + MONTH_MS


def test_without_a_command_the_system_time_is_steady_time(shard: Harness) -> None:
    """Until the runtime sets the distance."""
    shard.commit("g")
    assert committed_at(shard, "g") == Millis(START)
