"""Timers whose handlers raise: the effects of other timers are kept, and other timers continue."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.core.harness import NONE, Harness, join

from headgate.core.commands import DeleteTopicOffsets
from headgate.core.members import MemberDispatch
from headgate.core.offsets.removal import erase_topic
from headgate.core.upkeep import Upkeep
from headgate.domain.ids import TopicName

MINUTE = 60_000
EXPIRING: dict[str, Any] = {
    "offsets_retention_minutes": "10",
    "offsets_retention_check_interval_ms": str(MINUTE),
}


class Planted(Exception):
    """What the tests here let fail."""


def pass_time(h: Harness, duration_ms: int) -> int:
    """Let time pass, as the runtime does: a Tick that raises is counted, and the next one comes."""
    failed = 0
    end = h.now + duration_ms
    while h.now < end:
        with suppress(Planted):
            h.advance(min(100, end - h.now))
            continue
        failed += 1
        assert failed < 1000, "the shard's timers spin"
    return failed


@pytest.mark.interpreted
@pytest.mark.parametrize("bad", range(5))
def test_a_group_that_fails_in_a_sweep_does_not_stop_the_sweep(
    bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any position; and later sweeps run."""
    sweep_group = Upkeep._sweep_group

    def failing(upkeep: Upkeep, walk: Any, *more: Any) -> bool:
        if walk.group_id == f"g{bad}":
            raise Planted
        return sweep_group(upkeep, walk, *more)

    h = Harness(**EXPIRING)
    for number in range(5):
        h.commit(f"g{number}")
    monkeypatch.setattr(Upkeep, "_sweep_group", failing)
    assert pass_time(h, 12 * MINUTE) >= 2
    assert [h.offset(f"g{number}") is None for number in range(5)] == [number != bad for number in range(5)]
    monkeypatch.setattr(Upkeep, "_sweep_group", sweep_group)
    assert pass_time(h, 2 * MINUTE) == 0
    assert h.offset(f"g{bad}") is None


@pytest.mark.interpreted
def test_a_failing_session_timer_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies of others in the same tick are sent. It is called again: no member stays for ever."""
    on_timer = MemberDispatch.on_timer

    def failing(members: MemberDispatch, timer: Any, now: Any) -> Any:
        if timer.group_id == "bad":
            raise Planted
        return on_timer(members, timer, now)

    h = Harness(group_initial_rebalance_delay_ms="0")
    for group_id in ("g1", "bad", "g2"):
        h.stable_group("a", group_id=group_id, session_timeout_ms=10_000)
    waiting = h.send(join(group_id="g2", member_id="", must_know_member_id=False, new_member_id="b"))
    assert h.is_parked(waiting)
    monkeypatch.setattr(MemberDispatch, "on_timer", failing)
    assert 5 <= pass_time(h, 60_000) <= 6
    assert not h.is_parked(waiting)
    assert h.state("g1").value == "Empty"
    assert h.state("bad").value == "Stable"
    monkeypatch.setattr(MemberDispatch, "on_timer", on_timer)
    assert pass_time(h, 10_000) == 0
    assert h.state("bad").value == "Empty"


@pytest.mark.interpreted
def test_a_failing_erasure_does_not_stop_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is retried until it succeeds, and answered then."""
    is_failing = [True]

    def failing(found: Any, topic: TopicName, room: Any) -> bool:
        if topic == "bad" and is_failing:
            raise Planted
        return erase_topic(found, topic, room)

    h = Harness()
    for topic in ("bad", "good"):
        h.commit("g", topic)
    monkeypatch.setattr("headgate.core.upkeep.erase_topic", failing)
    with suppress(Planted):
        h.send(DeleteTopicOffsets(TopicName("bad")))
    assert h.ask(DeleteTopicOffsets(TopicName("good"))) == NONE
    assert pass_time(h, 3000) >= 2
    assert (h.offset("g", "bad"), h.offset("g", "good")) == (1, None)
    is_failing.clear()
    pass_time(h, 3000)
    assert h.offset("g", "bad") is None
