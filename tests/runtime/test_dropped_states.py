"""Shards that fail again and again, as on a full disk, leave no former states in memory."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.runtime.checkpointed import Life, begin, run

from headgate.core.shard import GroupShard
from headgate.log.memory_filesystem import Fault
from headgate.runtime import dropped_states, shard_reloading, shard_runtime
from headgate.runtime.dropped_states import DroppedStates

FAILURES = 6


def states_in_memory() -> int:
    """Count the states of shards. `isinstance` would ask weak proxies for the class of what is gone."""
    return sum(type(one) is GroupShard for one in gc.get_objects())


async def fail_and_load(life: Life) -> None:
    """Let a sync of the shard's log fail, and wait until the shard is loaded again."""
    life.files.inject(Fault(kind="datasync"))
    former = life.runtime.shard
    await life.commit("g", 1, 5)
    while life.runtime.shard is former or not life.runtime.is_active:
        await asyncio.sleep(0.001)


def test_the_state_of_a_shard_that_failed_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure drops all offsets of the shard; the collector by itself would find them hours later."""
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(dropped_states, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(dropped_states, "_TIMES_ITS_LENGTH", 0)
    monkeypatch.setattr(shard_runtime, "DROPPED", DroppedStates())  # the process's own may have run just now

    async def scenario() -> None:
        life = await begin()
        gc.collect()
        before = states_in_memory()
        gc.disable()
        try:
            for _ in range(FAILURES):
                await fail_and_load(life)
            assert states_in_memory() <= before + 1
        finally:
            gc.enable()
        life.end()

    run(scenario)


def test_the_collector_runs_for_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops the event loop: many shards that fail together share one collection."""
    now, collections = 100.0, []

    def collect() -> int:
        nonlocal now
        collections.append(now)
        now += 0.5
        return 0

    monkeypatch.setattr(gc, "collect", collect)
    states = DroppedStates(lambda: now)
    for _ in range(50):
        states.free()
    assert collections == [100.0]
    now += 9.9
    states.free()
    assert len(collections) == 1
    now += 0.2
    states.free()
    assert len(collections) == 2
