"""The simulation of a kind of shard unknown to the server finds no violation, but detects faults."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.runtime.memory_log import MemoryLog
from tests.runtime.registers import Registers
from tests.simulation.register_world import RegisterWorld
from tests.simulation.requests import Violation


def test_nothing_is_found_over_a_log_that_may_do_anything() -> None:
    """With kills, fencing, losses, compaction by others, and their batches between ours."""
    counts: Counter[str] = Counter()
    for seed in (0, 1, 2, 4, 5):
        counts += RegisterWorld(seed).run()
    exercised = ("answered", "compacted records", "fence", "kill", "refuse", "refused", "stop")
    assert [what for what in exercised if not counts[what]] == []


def test_a_log_that_loses_durable_records_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is reported as written before it arrives."""
    append = MemoryLog.append

    def hasty(log: MemoryLog, batches: list[bytearray]) -> int:
        end = append(log, batches)
        log.durable_position = end
        return end

    monkeypatch.setattr(MemoryLog, "append", hasty)
    with pytest.raises(Violation):
        for seed in range(30):
            RegisterWorld(seed).run()


def test_markers_that_are_not_heard_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed writes are ignored."""
    monkeypatch.setattr(Registers, "end_transaction", lambda shard, end, position: None)
    with pytest.raises(Violation):
        for seed in range(30):
            RegisterWorld(seed).run()
