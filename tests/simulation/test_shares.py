"""Share groups in the simulation: nothing is found, and deliberate faults are.

`make simulate OF=shares SEEDS=1..500` runs more seeds than these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from tests.simulation.requests import Violation
from tests.simulation.seeds import check_that_it_is_noticed, seeds_to_try
from tests.simulation.shares import broken_shares as broken
from tests.simulation.shares.world import ShareWorld

SEEDS = range(1, 9)
MOST_SEEDS = 30
"""Seeds that are tried after the one that is known to detect a fault."""
FIRST_SEEDS: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    broken.anybody_may_acknowledge: 80,
    broken.failed_writes_leave_records_pending: 29,
    broken.records_are_delivered_before_the_start_is_durable: 6,
    broken.starts_behind_the_last_record_are_not_persisted: 3,
    broken.what_could_not_be_written_is_forgotten: 45,
}
"""The first seed that detects a fault, where it is a late one."""


@pytest.mark.usefixtures("small_parts")
def test_nothing_is_found_in_share_groups() -> None:
    """With crashes, faults of the disk, clocks that jump, lost connections, and members that die."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts += ShareWorld(seed).run().counts
    exercised = (
        "acknowledged by 0",
        "acknowledged by 1",
        "acknowledged by 2",
        "acknowledged by 3",
        "acknowledged by 4",
        "acknowledgements refused",
        "clean stop",
        "deliveries again",
        "failed datasync",
        "failed pwrite",
        "kill",
        "lost answers",
        "power cut",
        "replays compared",
        "settings of the clock",
        "starts that moved",
        "torn writes",
    )
    assert [what for what in exercised if not counts[what]] == []


@pytest.mark.usefixtures("small_parts")
def test_nothing_is_found_in_share_groups_that_begin_at_the_end() -> None:
    """They begin behind no record that was delivered, whatever fails."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts += ShareWorld(seed, begins_at_the_end=True).run().counts
    assert counts["deliveries"] and counts["power cut"]


def test_a_seed_gives_the_same_life_twice() -> None:
    """Every exchange at the same time."""
    assert ShareWorld(3).run().trace_hash() == ShareWorld(3).run().trace_hash()


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "break_the_server",
    [
        broken.acknowledgements_are_answered_before_they_are_durable,
        broken.the_limit_of_deliveries_is_ignored,
        broken.anybody_may_acknowledge,
        broken.locks_end_early,
        broken.renewed_locks_end_as_before,
        broken.released_records_keep_no_count,
        broken.snapshots_forget_batches,
        broken.updates_move_the_start_only,
        broken.the_start_passes_what_is_in_flight,
        broken.records_of_aborted_transactions_are_delivered,
        broken.records_of_open_transactions_are_delivered,
        broken.failed_writes_leave_records_pending,
        broken.starts_behind_the_last_record_are_not_persisted,
        broken.what_could_not_be_written_is_forgotten,
        broken.complete_ranges_are_dropped_anywhere,
    ],
)
@pytest.mark.plants_failures("reply", "shard", "request", "connection", "loop", "housekeeping")
def test_the_simulation_notices_that(
    break_the_server: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """A server with this fault fails within a few seeds, and without it lives the same seed."""
    seeds = seeds_to_try(FIRST_SEEDS.get(break_the_server, 1), MOST_SEEDS)
    check_that_it_is_noticed(break_the_server, seeds, _is_noticed)


@pytest.mark.interpreted
@pytest.mark.plants_failures("reply", "shard", "request", "connection", "loop", "housekeeping")
def test_the_simulation_notices_a_delivery_before_the_start_is_durable() -> None:
    """Only groups that begin at the end of the log may begin elsewhere after a power cut."""
    fault = broken.records_are_delivered_before_the_start_is_durable
    is_noticed = partial(_is_noticed, begins_at_the_end=True)
    check_that_it_is_noticed(fault, seeds_to_try(FIRST_SEEDS[fault], MOST_SEEDS), is_noticed)


def _is_noticed(seed: int, *, begins_at_the_end: bool = False) -> bool:
    try:
        ShareWorld(seed, begins_at_the_end=begins_at_the_end).run()
    except Violation:
        return True
    return False
