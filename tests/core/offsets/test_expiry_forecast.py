"""The forecast of expiry, a group's own retention, and the reports of what expired (KIP-211).

`test_expiry_months` compares forecasts with an oracle; these tests state the rules one by one.
"""

from __future__ import annotations

import pytest
from tests.core.harness import Harness, join, leave, sync
from tests.core.offsets.forecasts import ask_forecast, end_of, forecast_of

from headgate.core.commands import DescribeExpiry
from headgate.core.events import Event, ExpiryReason, GroupExpired, OffsetsExpired
from headgate.core.expiry_forecast import NEVER
from headgate.core.offsets.expiry import Aging
from headgate.core.offsets.scanning import ROWS_A_STRETCH
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis

MINUTE = 60_000
HOUR = 60 * MINUTE
SWEEP = 10_000


@pytest.fixture
def h() -> Harness:
    """Return a shard with a retention of ten minutes and a sweep every ten seconds."""
    return Harness(offsets_retention_minutes="10", offsets_retention_check_interval_ms=str(SWEEP))


def events_of(h: Harness) -> list[Event]:
    """Collect the events of the shard from now on."""
    found: list[Event] = []
    h.shard.events.listener = found.append
    return found


def emptied(h: Harness, group_id: str) -> None:
    """Let a group commit one offset and lose its only member."""
    token = h.send(
        join(group_id=group_id, new_member_id="m", must_know_member_id=False, protocol_type="consumer")
    )
    while h.is_parked(token):
        h.advance(1000)
    generation = h.answers[token].generation
    h.send(sync("m", generation, group_id=group_id, assignments=(("m", b""),)))
    assert not h.commit(group_id, member_id="m", generation=generation).error
    h.ask(leave(("m", None), group_id=group_id))


def test_a_group_that_only_commits_expires_offset_by_offset(h: Harness) -> None:
    """Each offset has its own time: its commit and the retention. The group's first is listed."""
    start = h.now
    h.commit("g", partition=0)
    h.advance(MINUTE)
    h.commit("g", partition=1)
    assert forecast_of(h.shard, "g", h.now) == {
        ("g", "t", 0): start + 10 * MINUTE,
        ("g", "t", 1): start + 11 * MINUTE,
    }
    (listed,) = [forecast for forecast in h.shard.forecasts() if forecast is not None]
    assert (listed.group.group_id, listed.offset_count) == ("g", 2)
    assert (listed.first_at, listed.last_at) == (start + 10 * MINUTE, start + 11 * MINUTE)


def test_a_group_that_had_members_expires_at_once(h: Harness) -> None:
    """All its offsets age since it became empty, however old the commits are."""
    emptied(h, "g")
    forecast = ask_forecast(h.shard, "g", h.now)
    assert (forecast.group.aging, forecast.group.empty_since) == (Aging.SINCE_STATE, h.now)
    assert forecast_of(h.shard, "g", h.now) == {("g", "t", 0): h.now + 10 * MINUTE}


def test_groups_that_do_not_exist_have_no_forecast(h: Harness) -> None:
    """Also if they have settings."""
    h.configure_retention("g", MINUTE)
    assert h.ask(DescribeExpiry(GroupId("g"))) == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("retention_ms", [2 * MINUTE, 30 * MINUTE])
def test_a_groups_own_retention_counts(h: Harness, retention_ms: int) -> None:
    """Shorter or longer than the broker's. Groups beside it keep the broker's."""
    start = h.now
    h.configure_retention("own", retention_ms)
    h.commit("own")
    h.commit("other")
    forecast = ask_forecast(h.shard, "own", h.now)
    assert (forecast.group.retention_ms, forecast.group.is_own_retention) == (retention_ms, True)
    assert forecast_of(h.shard, "own", h.now) == {("own", "t", 0): start + retention_ms}
    h.advance(retention_ms - SWEEP)
    assert h.offset("own") == 1
    h.advance(2 * SWEEP)
    assert h.offset("own") is None
    assert (h.offset("other") is None) == (retention_ms > 10 * MINUTE)


def test_without_its_own_retention_a_group_has_the_brokers_again(h: Harness) -> None:
    """An offset that was kept for ever expires with the next sweep if it is old."""
    h.configure_retention("g", -1)
    h.commit("g")
    assert forecast_of(h.shard, "g", h.now) == {("g", "t", 0): NEVER}
    (listed,) = [forecast for forecast in h.shard.forecasts() if forecast is not None]
    assert (listed.first_at, listed.last_at) == (NEVER, NEVER)
    h.advance(HOUR)
    assert h.offset("g") == 1
    h.configure_retention("g", None)
    h.advance(2 * SWEEP)
    assert h.offset("g") is None


def test_a_commit_with_its_own_retention_is_not_changed_by_the_groups(h: Harness) -> None:
    """What an old client sends counts more than both settings."""
    start = h.now
    h.configure_retention("g", -1)
    h.commit("g", partition=0, retention_ms=5 * MINUTE)
    h.commit("g", partition=1)
    assert forecast_of(h.shard, "g", h.now) == {("g", "t", 0): start + 5 * MINUTE, ("g", "t", 1): NEVER}
    (listed,) = [forecast for forecast in h.shard.forecasts() if forecast is not None]
    assert (listed.first_at, listed.last_at) == (start + 5 * MINUTE, NEVER)


def test_what_expires_is_reported_with_its_reason_and_counted(h: Harness) -> None:
    """Offsets by group, and the group when it is removed."""
    emptied(h, "had-members")
    h.commit("only-commits", partition=0)
    h.commit("only-commits", partition=1)
    found = events_of(h)
    h.commit("only-commits", partition=2, retention_ms=MINUTE)
    h.advance(2 * MINUTE)
    ten = 10 * MINUTE
    assert found == [OffsetsExpired(GroupId("only-commits"), 1, ExpiryReason.COMMIT_RETENTION, ten)]
    found.clear()
    h.advance(10 * MINUTE)
    assert sorted(found, key=str) == sorted(
        [
            OffsetsExpired(GroupId("had-members"), 1, ExpiryReason.EMPTY_GROUP, ten),
            GroupExpired(GroupId("had-members")),
            OffsetsExpired(GroupId("only-commits"), 2, ExpiryReason.OLD_COMMIT, ten),
            GroupExpired(GroupId("only-commits")),
        ],
        key=str,
    )
    counts = h.shard.expiry_counts
    assert counts.offsets == {
        ExpiryReason.COMMIT_RETENTION: 1,
        ExpiryReason.EMPTY_GROUP: 1,
        ExpiryReason.OLD_COMMIT: 2,
    }
    assert counts.groups == 2


def test_a_list_of_forecasts_is_made_in_small_steps(h: Harness) -> None:
    """However many offsets there are: a step looks at a stretch of the table, or at one group."""
    h.replays_each_step = False
    for number in range(30):
        for partition in range(20):
            h.commit(f"g{number}", partition=partition)
    steps = list(h.shard.forecasts())
    assert sum(step is not None for step in steps) == 30
    assert len(h.shard.offsets) < ROWS_A_STRETCH
    abandoned = h.shard.forecasts()
    next(abandoned)
    del abandoned
    assert not h.shard.offsets._holds


def test_a_pending_offset_holds_its_partition_until_the_transaction_ends(h: Harness) -> None:
    """Nobody foresees the end: the partition is said not to expire, the others as ever."""
    start = h.now
    for partition in range(3):
        h.commit("g", partition=partition)
        h.commit("h", partition=partition)
    h.commit_in(7, "g", partition=1)
    h.commit_in(7, "only pending")
    assert forecast_of(h.shard, "g", h.now) == {
        ("g", "t", 0): start + 10 * MINUTE,
        ("g", "t", 1): NEVER,
        ("g", "t", 2): start + 10 * MINUTE,
    }
    listed = {one.group.group_id: one for one in h.shard.forecasts() if one is not None}
    assert (listed[GroupId("g")].offset_count, listed[GroupId("g")].first_at) == (3, start + 10 * MINUTE)
    assert set(listed) == {"g", "h"}
    h.commit_in(7, "g", partition=0)
    h.commit_in(7, "g", partition=2)
    (held,) = [one for one in h.shard.forecasts() if one is not None and one.group.group_id == "g"]
    assert (held.offset_count, held.first_at, held.last_at) == (3, NEVER, NEVER)
    until = Millis(start + 11 * MINUTE)
    assert end_of(h.shard.counting_expiring_groups([until])) == [1]
    h.advance(12 * MINUTE)
    assert h.offset("g", partition=1) == 1 and h.offset("h") is None
    h.end(7, is_committed=False)
    assert end_of(h.shard.counting_expiring_groups([until])) == [1]
    assert set(forecast_of(h.shard, "g", h.now).values()) == {start + 10 * MINUTE}
    h.advance(SWEEP)
    assert h.offset("g", partition=1) is None


def test_a_pending_offset_holds_also_the_offsets_of_a_group_that_had_members(h: Harness) -> None:
    """These expire together, but for those that wait."""
    emptied(h, "g")
    assert not h.commit("g", partition=1).error
    empty_since = h.now
    h.commit_in(7, "g", partition=1)
    (listed,) = [one for one in h.shard.forecasts() if one is not None]
    assert (listed.offset_count, listed.first_at, listed.last_at) == (2, *[empty_since + 10 * MINUTE] * 2)
    assert forecast_of(h.shard, "g", h.now)[("g", "t", 1)] == NEVER
