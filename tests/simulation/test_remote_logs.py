"""Group shards over logs that delay, lose, fence, interleave and compact: the models find no violation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.runtime.memory_log import MemoryLog
from tests.simulation.remote_logs import FAULTS
from tests.simulation.world import World

OPERATIONS = 300
REMOTE: dict[str, Any] = {
    "has_remote_logs": True,
    "trouble_seconds": 1.0,
    "stall_seconds": 0.0,
    "troubles": ("kill", "stop", "disconnect", *FAULTS),
}
CALMS: dict[str, Any] = REMOTE | {
    "troubles": ("refuse", "fence", "calm"),
    "trouble_seconds": 0.5,
    "longest_session_seconds": 1.0,
    "latency_seconds": 0.05,
    "tools": 1,
    "pausing": 1,
    "members": 0,
}
"""Few slow clients, so that a calm period takes few requests."""
OFFSETS = REMOTE | {"members": 0, "consumers": 0, "mixed": 0, "tools": 10}
CLASSIC = REMOTE | {"members": 7, "consumers": 0, "mixed": 0}
CONSUMERS = REMOTE | {"members": 0, "consumers": 8, "mixed": 0}
MIXED = REMOTE | {"members": 0, "consumers": 0, "mixed": 6}


def test_nothing_is_found_over_logs_on_other_machines() -> None:
    """Offsets, and groups of every protocol; nodes that claim the logs, compaction and batches of others."""
    counts: Counter[str] = Counter()
    for seed in (3, 5):
        for circumstances in (OFFSETS, CLASSIC, CONSUMERS, MIXED):
            outcome = World(seed, OPERATIONS, **circumstances).run()
            assert outcome.violation is None, (seed, circumstances)
            counts += outcome.counts
    exercised = (
        "clean stops",
        "conditions held",
        "failed shards",
        "fenced logs",
        "kills",
        "rebalances",
        "records compacted by others",
        "shards found as they were left",
        "topics deleted",
        "unanswered commits kept",
        "unanswered commits undone",
        "unreachable logs",
    )
    assert [what for what in exercised if not counts[what]] == []


def test_groups_are_stable_when_the_faults_of_their_logs_have_ended() -> None:
    """Calm periods: every log can be reached, and at the end each group has the members' state."""
    counts: Counter[str] = Counter()
    for seed in (3, 5):
        for members in ({"consumers": 3, "mixed": 0}, {"consumers": 0, "mixed": 2}):
            outcome = World(seed, OPERATIONS, **CALMS, **members).run()
            assert outcome.violation is None, (seed, members)
            counts += outcome.counts
    assert counts["calms"] and counts["calms of both protocols"]
    assert counts["fenced logs"] and counts["unreachable logs"]


def test_replies_before_the_log_has_the_records_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log reports batches in flight as durable."""
    append = MemoryLog.append

    def hasty(log: MemoryLog, batches: list[bytearray]) -> int:
        log.durable_position = append(log, batches)
        return log.durable_position

    monkeypatch.setattr(MemoryLog, "append", hasty)
    assert any(World(seed, OPERATIONS, **OFFSETS).run().violation for seed in range(1, 20))


def test_a_compaction_that_takes_commits_apart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime writes runs to a log that compacts itself without knowledge of them."""
    monkeypatch.setattr(
        MemoryLog, "compacts_itself", property(lambda log: False, lambda log, value: None), raising=False
    )
    wide = OFFSETS | {"batch_bytes": 700, "partition_count": 300}
    assert any(World(seed, OPERATIONS, **wide).run().violation for seed in (3, *range(1, 20)))
