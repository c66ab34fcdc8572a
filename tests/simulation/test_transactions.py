"""The simulation of transactions finds no violation in the server, and detects deliberate faults.

`make simulate OF=transactions SEEDS=1..1000` runs more seeds than these.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from tests.simulation.broken_servers import a_checkpoint_claims_what_came_while_it_was_written
from tests.simulation.seeds import check_that_it_is_noticed, seeds_to_try
from tests.simulation.transactions import broken
from tests.simulation.transactions.world import TransactionWorld

from headgate.compiled import is_compiled

TRANSACTIONS = 80
"""Fewer per seed than by default, so that more seeds run in the same time."""
SEEDS = range(1, 10)
MOST_SEEDS = 30
"""Seeds that are tried after the one that is known to detect a fault."""


@pytest.mark.usefixtures("small_parts")
def test_nothing_is_found_in_transactions() -> None:
    """Whole transactions in order, offsets with them, zombies fenced, nothing left at the end."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = TransactionWorld(seed, TRANSACTIONS).run()
        assert outcome.violation is None, seed
        counts += outcome.counts
    exercised = (
        "aborts",
        "checkpoints",
        "clean stops",
        "commits",
        "compactions",
        "failed datasync",
        "failed pwrite",
        "hanging transactions",
        "inputs processed",
        "kills",
        "late requests",
        "lost connections",
        "power cuts",
        "refused producers",
        "replays compared",
        "settings of the clock",
        "torn writes",
    )
    assert [what for what in exercised if not counts[what]] == []
    assert counts["new producer ids"] or is_compiled(), "the greatest epoch is a constant in compiled modules"


@pytest.mark.parametrize(
    ("seed", "transactions"),
    [
        pytest.param(5005, 10, id="a batch arrives after the clock was set back by more than an hour"),
        pytest.param(7001, 50, id="compaction removed all between the last batch and the last stable offset"),
    ],
)
def test_what_is_no_fault_is_no_violation(seed: int, transactions: int) -> None:
    """Each of these lives was one."""
    assert TransactionWorld(seed, transactions).run().violation is None


def test_a_seed_with_transactions_replays_exactly() -> None:
    """Two runs of a seed have the same requests and responses at the same times."""
    hashes = {TransactionWorld(5, TRANSACTIONS).run().trace_hash for _ in range(2)}
    assert len(hashes) == 1
    assert TransactionWorld(6, TRANSACTIONS).run().trace_hash not in hashes


FAILING = {"trouble_seconds": 0.5, "pace_seconds": 0.005, "troubles": ("kill", "power")}
RIVALS = {"rivals": 2, "timeout_seconds": 1.0, "troubles": ("disconnect",)}
WORKING = {
    "workers": 3,
    "producers": 2,
    "trouble_seconds": 0.5,
    "clock_seconds": 0.0,
    "troubles": ("disconnect", "kill"),
}
PATIENT = WORKING | {"timeout_seconds": 20.0, "trouble_seconds": 8.0}
"""A transaction outlives the session of its worker, so that another worker takes the input over."""
STOPPING = {"trouble_seconds": 0.5, "pace_seconds": 0.005, "troubles": ("stop",)}
FIRST_SEEDS: dict[broken.Break, int] = {
    broken.the_start_does_not_wait_for_markers: 3,
    broken.decisions_are_told_before_they_are_durable: 3,
    broken.a_load_believes_the_clock: 3,
    broken.the_last_marker_wins: 5,
    broken.partitions_are_not_verified: 4,
    broken.a_stopped_server_goes_on_writing: 3,
}
"""The first seed that detects a fault, where it is a late one."""
OLD = {"server_version": 0, "lost_share": 0.1, "troubles": ("disconnect",), "pace_seconds": 0.005}


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("break_the_server", "circumstances"),
    [
        (broken.aborts_are_commits, {}),
        (broken.the_last_marker_is_lost, {}),
        (broken.zombies_are_accepted, RIVALS),
        (broken.a_second_producer_fences_nobody, RIVALS),
        (broken.the_start_does_not_wait_for_markers, FAILING),
        (broken.decisions_are_told_before_they_are_durable, FAILING),
        (broken.timeouts_are_forgotten_by_a_load, FAILING),
        (broken.decisions_are_forgotten_by_a_load, FAILING),
        (broken.a_load_believes_the_clock, FAILING | {"clock_seconds": 0.3}),
        (broken.a_timeout_keeps_the_epoch, {"timeout_seconds": 1.0}),
        (broken.readers_pass_the_last_stable_offset, {}),
        (broken.aborted_transactions_are_not_listed, {}),
        (broken.plain_commits_do_not_win, {}),
        (broken.removals_leave_pending_offsets, {}),
        (broken.the_last_marker_wins, {}),
        (broken.checkpoints_forget_pending_offsets, FAILING | {"checkpoint_records": 10}),
        (a_checkpoint_claims_what_came_while_it_was_written, FAILING | {"checkpoint_records": 10}),
        (broken.ends_are_not_repeated, {"server_version": 2, "lost_share": 0.1}),
        (broken.partitions_are_not_verified, OLD),
        (broken.compaction_drops_markers_of_batches_that_remain, {}),
        (broken.the_answer_of_a_rotation_is_the_old_producer, {"greatest_epoch": 7}),
        (broken.markers_end_offsets_of_all_groups_but_the_last, {}),
        (broken.former_owners_commit, PATIENT),
        (broken.unstable_offsets_are_told, {}),
        (broken.a_stopped_server_goes_on_writing, STOPPING),
    ],
)
@pytest.mark.plants_failures("reply", "shard", "request", "connection", "loop")
def test_the_simulation_of_transactions_notices_that(
    break_the_server: broken.Break, circumstances: dict[str, Any]
) -> None:
    """A server with this fault fails within a few seeds, and without it lives the same seed."""

    def has_violation(seed: int) -> bool:
        return (
            TransactionWorld(seed, TRANSACTIONS, **({"workers": 0} | circumstances)).run().violation
            is not None
        )

    seeds = seeds_to_try(FIRST_SEEDS.get(break_the_server, 1), MOST_SEEDS)
    check_that_it_is_noticed(break_the_server, seeds, has_violation)


@pytest.mark.interpreted
def test_a_decision_that_is_never_carried_through_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would wait for it for ever, before it listens."""
    broken.decisions_are_forgotten_by_a_load(monkeypatch)
    worlds = (TransactionWorld(seed, TRANSACTIONS, **FAILING) for seed in range(1, MOST_SEEDS))
    violation = next(found for world in worlds if (found := world.run().violation))
    assert "has not started" in violation
    assert re.search(r"'(id|worker)-\d+ is Prepare", violation), violation
