"""The simulation finds no violation in the server, and detects deliberate faults.

`python -m tests.simulation --seeds 1..1000` runs more seeds than these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from tests.simulation import broken_pauses
from tests.simulation import broken_servers as broken
from tests.simulation.clock import START_MS, SimulatedTime
from tests.simulation.seeds import check_that_it_is_noticed, seeds_to_try
from tests.simulation.world import World

OPERATIONS = 300
"""Fewer per seed than by default, so that more seeds run in the same time."""
SEEDS = range(40, 52)
MOST_SEEDS = 60
"""A fault is detected within this number of seeds."""


def test_nothing_is_found_in_a_few_seeds() -> None:
    """Every reply is right, no request waits forever, and all acknowledged data exists at the end."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = World(seed, OPERATIONS).run()
        assert outcome.violation is None, (
            f"python -m tests.simulation --seeds {seed} --operations {OPERATIONS}"
        )
        counts += outcome.counts
    exercised = (
        "checkpoints",
        "checkpoints restored",
        "clean stops",
        "compactions",
        "conditions failed",
        "conditions held",
        "expired offsets",
        "failed datasync",
        "failed pwrite",
        "failed shards",
        "kills",
        "lost connections",
        "power cuts",
        "rebalances",
        "replays compared",
        "shards found as they were left",
        "changes told",
        "pasts without a beginning",
        "static replacements",
        "torn writes",
        "unanswered commits kept",
        "unanswered commits undone",
        "wide commits",
    )
    assert [what for what in exercised if not counts[what]] == []


def test_nothing_is_found_in_groups_that_the_server_balances() -> None:
    """With restarts, lost answers, changes of topics and settings, and calm periods."""
    counts: Counter[str] = Counter()
    for circumstances in (BALANCED, RESTLESS, RESTARTING, CALM, MIXED):
        for seed in range(1, 6):
            outcome = World(seed, OPERATIONS, **circumstances).run()
            assert outcome.violation is None, (seed, circumstances)
            counts += outcome.counts
    exercised = (
        "answers asked for again",
        "calms",
        "calms of both protocols",
        "changes told of former topics",
        "checkpoints restored",
        "commits in earlier epochs accepted",
        "commits in earlier epochs refused",
        "group settings changed",
        "static members replaced",
        "topics created",
        "topics deleted",
        "topics grown",
    )
    assert [what for what in exercised if not counts[what]] == []


def test_nothing_is_found_in_groups_with_paused_partitions() -> None:
    """With failures between any two steps, late commits, members that never revoke, and other changes."""
    counts: Counter[str] = Counter()
    for circumstances in (BALANCED, RESTARTING, CALM, MIXED):
        for seed in range(1, 5):
            outcome = World(seed, OPERATIONS, **(circumstances | PAUSED)).run()
            assert outcome.violation is None, (seed, circumstances)
            counts += outcome.counts
    exercised = (
        "commits of paused partitions by their owners",
        "commits of paused partitions refused",
        "partitions listed that are to be released",
        "pauses found by a load",
        "released partitions listed",
        "resets before the release refused",
        "resets of paused partitions",
        "resumes",
    )
    assert [what for what in exercised if not counts[what]] == []


@pytest.mark.usefixtures("small_parts")
def test_nothing_is_found_where_the_clock_is_set() -> None:
    """By seconds, hours and months, in both directions, during a life of the server and between two."""
    counts: Counter[str] = Counter()
    for seed in range(1, 9):
        outcome = World(seed, OPERATIONS, clock_seconds=(1.0, 3.0, 10.0, 30.0)[seed % 4]).run()
        assert outcome.violation is None, seed
        counts += outcome.counts
    exercised = ("changes told", "expired offsets", "settings of the clock", "standstills of the clock")
    assert [what for what in exercised if not counts[what]] == []


def test_the_models_know_what_a_clock_that_was_set_can_have_been() -> None:
    """Its maximum and minimum, its largest rise, and the longest time past a value."""
    time = SimulatedTime()
    time.seconds = 10.0
    time.set(START_MS + 100_000)
    time.seconds = 20.0
    time.set(START_MS + 5_000, is_running=False)
    time.seconds = 30.0
    assert time.system_time() == START_MS + 5_000
    assert time.steady_time() == 30_000
    assert time.highest(5.0, 9.0) == START_MS + 9_000
    assert abs(time.highest(0.0, 30.0) - (START_MS + 110_000)) < 10
    assert time.highest(25.0, 30.0) == time.lowest(12.0, 30.0) == START_MS + 5_000
    assert abs(time.largest_rise(5.0, 30.0) - 105_000) < 10
    assert time.largest_rise(21.0, 30.0) == 0
    assert abs(time.longest_past(START_MS + 50_000, 0.0, 30.0) - 10) < 0.01
    assert abs(time.longest_past(START_MS + 4_000, 0.0, 30.0) - 26) < 0.01
    assert time.longest_past(START_MS + 200_000, 0.0, 30.0) == 0


def test_the_models_know_for_how_long_nothing_could_happen() -> None:
    """Only the parts of stalls within the time are subtracted."""
    time = SimulatedTime()
    assert time.awake_seconds(3.0, 7.0) == 4.0
    time.seconds = 10.0
    time.stall(5.0)
    time.seconds = 20.0
    time.stall(1.0)
    time.stall(2.0)
    time.seconds = 30.0
    assert time.awake_seconds(0.0, 9.0) == 9.0
    assert time.awake_seconds(9.0, 16.0) == 2.0
    assert time.awake_seconds(12.0, 15.0) == time.awake_seconds(11.0, 14.0) == 0.0
    assert time.awake_seconds(12.0, 15.5) == 0.5
    assert time.awake_seconds(12.0, 30.0) == 12.0
    assert time.awake_seconds(float("-inf"), 30.0) == float("inf")
    assert time.longest_past(START_MS + 8_000, 5.0, 30.0) == 14.0


def test_a_seed_replays_exactly() -> None:
    """Two runs of a seed have the same replies at the same times."""
    hashes = {World(5, OPERATIONS).run().trace_hash for _ in range(2)}
    assert len(hashes) == 1
    assert World(6, OPERATIONS).run().trace_hash not in hashes


def test_a_seed_replays_exactly_in_another_process() -> None:
    """A run does not depend on the process's hash seed."""
    script = f"from tests.simulation.world import World; print(World(4, {OPERATIONS}).run().trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_a_life_without_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A life that never ends while time passes is reported, like a deadlock."""
    monkeypatch.setattr("tests.simulation.loop.MOST_TURNS", 50)
    violation = World(1, OPERATIONS).run().violation
    assert violation is not None
    assert "there is no end" in violation


TEARING = {
    "consumers": 0,
    "mixed": 0,
    "batch_bytes": 700,
    "partition_count": 300,
    "trouble_seconds": 0.3,
    "is_durable": True,
    "troubles": ("power", "power", "write", "stop"),
}
TORN_APART = TEARING | {"partition_count": 60, "troubles": ("power",)}
FAILING = {"consumers": 0, "mixed": 0, "trouble_seconds": 0.3, "is_durable": True}
CROWDED = {
    "trouble_seconds": 1.0,
    "members": 7,
    "tools": 1,
    "consumers": 0,
    "mixed": 0,
    "troubles": ("disconnect", "kill"),
}
JOINING = CROWDED | {"trouble_seconds": 0.3, "longest_session_seconds": 1.0, "troubles": ("disconnect",)}
BUSY = {
    "consumers": 0,
    "mixed": 0,
    "tools": 10,
    "pace_seconds": 0.005,
    "slowest_sync_seconds": 0.1,
    "trouble_seconds": 3.0,
}
STALE = FAILING | {"troubles": ("sync", "kill", "power")}
STATIC = CROWDED | {"longest_session_seconds": 6.0, "pace_seconds": 0.1}
CLEANING = {
    "consumers": 0,
    "mixed": 0,
    "segment_bytes": 2048,
    "cleaner_backoff_ms": 50,
    "cleanable_ratio": 0.0,
}
ROOMY = CLEANING | {"is_durable": True, "room_after_bytes": 0, "troubles": ("stop", "kill")}
BALANCED = {
    "mixed": 0,
    "consumers": 8,
    "tools": 1,
    "members": 0,
    "trouble_seconds": 3.0,
    "change_seconds": 1.0,
    "pausing": 0,
}
RESTLESS = BALANCED | {"trouble_seconds": 0.3, "troubles": ("disconnect",), "latency_seconds": 0.05}
RESTARTING = BALANCED | {"trouble_seconds": 1.0, "troubles": ("kill", "stop", "disconnect")}
CALM = BALANCED | {"consumers": 3, "tools": 0, "trouble_seconds": 0.3, "troubles": ("calm",)}
CALM |= {"longest_session_seconds": 1.0, "assignment_interval_ms": 0}
MIXED = CALM | {"consumers": 0, "mixed": 4, "troubles": ("calm", "disconnect", "kill")}
MOVING = MIXED | {"mixed": 6, "trouble_seconds": 3.0, "assignment_interval_ms": 0, "pace_seconds": 0.1}
MOVING |= {"change_seconds": 3.0, "troubles": ("disconnect",)}
PAUSED = {"pausing": 1}
HELD: dict[str, Any] = BALANCED | PAUSED | {"consumers": 3, "change_seconds": 10.0, "trouble_seconds": 1.0}
HELD |= {"sweep_interval_ms": 700, "troubles": ("lull",)}
REMEMBERING = CLEANING | {"keeps_history": True, "delete_retention_ms": 0}
FORGETFUL = REMEMBERING | {"trouble_seconds": 0.3, "is_durable": True, "troubles": ("power",)}
TORN = FORGETFUL | {"batch_bytes": 700, "partition_count": 20, "tools": 10, "pace_seconds": 0.005}
SLEEPY = {"consumers": 0, "mixed": 0, "trouble_seconds": 1.0, "sweep_interval_ms": 700, "troubles": ("lull",)}

FIRST_SEEDS: dict[broken.Break, int] = {
    broken.failed_syncs_are_ignored: 6,
    broken.failed_syncs_count_as_done: 6,
    broken.members_of_old_generations_may_commit: 5,
    broken.sessions_begin_anew_only_at_a_crash: 23,
    broken.offsets_expire_too_early: 6,
    broken.history_is_deleted_too_early: 5,
    broken.a_new_topic_owns_the_past_of_its_name: 3,
    broken.a_static_member_comes_back_in_its_old_epochs: 5,
    broken.members_may_keep_what_they_are_to_let_go: 28,
    broken.former_owners_may_commit: 6,
    broken.who_goes_is_not_replaced: 25,
    broken.what_is_moved_bears_the_time_of_a_clock_that_was_set_back: 6,
    broken_pauses.paused_partitions_are_assigned: 3,
    broken_pauses.administrators_do_not_wait_for_the_release: 6,
    broken_pauses.offsets_of_paused_groups_expire: 2,
}
"""The first seed that detects a fault, where it is a late one."""


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("break_the_server", "circumstances"),
    [
        (broken.replies_before_they_are_durable, FAILING),
        (broken.parts_of_a_commit_count, TORN_APART),
        (broken.torn_commits_stay_the_last_of_their_keys, TORN_APART),
        (broken.failed_syncs_are_ignored, FAILING),
        (broken.failed_syncs_count_as_done, FAILING),
        (broken.an_older_join_is_forgotten, JOINING),
        (broken.members_of_old_generations_may_commit, CROWDED),
        (broken.offsets_expire_too_early, SLEEPY),
        (broken.offsets_never_expire, SLEEPY),
        (broken.sessions_begin_anew_only_at_a_crash, CROWDED),
        (broken.a_wide_commit_misses_its_last_partition, TEARING),
        (broken.members_are_forgotten_by_a_load, CROWDED),
        (broken.a_checkpoint_claims_what_came_while_it_was_written, BUSY | {"checkpoint_records": 20}),
        (broken.conditions_are_ignored, {}),
        (broken.a_condition_is_judged_by_the_first_partition, {}),
        (broken.torn_commits_count_in_compaction, TEARING | CLEANING),
        (broken.compaction_trusts_the_page_cache, FAILING | CLEANING | {"troubles": ("power",)}),
        (broken.compaction_keeps_the_first_record_of_a_key, CLEANING),
        (broken.pages_of_a_failed_sync_are_trusted_by_the_next_process, STALE),
        (broken.closed_segments_keep_their_room, ROOMY),
        (broken.a_static_member_comes_back_without_its_assignment, STATIC),
        (broken.a_static_member_loses_its_place_in_a_crash, STATIC),
        (broken.compaction_moves_nothing, REMEMBERING),
        (broken.what_is_moved_is_not_durable_before_it_is_dropped, FORGETFUL),
        (broken.removals_are_not_moved, REMEMBERING),
        (broken.parts_of_a_commit_are_told, TORN),
        (broken.history_is_deleted_too_early, REMEMBERING),
        (broken.the_search_ends_too_early, REMEMBERING),
        (broken.a_new_topic_owns_the_past_of_its_name, BALANCED | {"troubles": ("kill",)}),
        (broken.commits_of_zombies_count, BALANCED),
        (broken.owners_have_to_commit_in_their_present_epoch, BALANCED),
        (broken.heartbeats_of_zombies_are_accepted, RESTLESS),
        (broken.a_lost_answer_fences_its_member, RESTLESS),
        (broken.partitions_are_given_before_they_are_let_go, BALANCED),
        (broken.partitions_that_others_have_are_given_away, BALANCED),
        (broken.what_was_let_go_first_is_given_away_in_the_same_epoch, BALANCED),
        (broken.assignment_epochs_are_not_persisted, RESTARTING),
        (broken.a_static_member_comes_back_in_its_old_epochs, BALANCED),
        (broken.silent_members_stay, BALANCED),
        (broken.members_may_keep_what_they_are_to_let_go, BALANCED),
        (broken.sessions_of_a_group_are_forgotten_by_a_load, RESTARTING | {"longest_session_seconds": 1.0}),
        (broken.who_goes_is_not_replaced, CALM),
        (broken.groups_do_not_look_at_topics_again, CALM),
        (broken.expressions_are_matched_once, CALM | {"consumers": 2}),
        (broken.classic_members_are_not_told_to_join_again, MIXED),
        (broken.former_owners_may_commit, MOVING),
        (broken.checkpoints_forget_members, RESTARTING | {"checkpoint_records": 20}),
        (broken_pauses.members_may_commit_what_they_released_for_a_pause, BALANCED | PAUSED),
        (broken_pauses.paused_partitions_are_assigned, BALANCED | PAUSED),
        (broken_pauses.administrators_do_not_wait_for_the_release, BALANCED | PAUSED),
        (broken_pauses.checkpoints_forget_pauses, RESTARTING | PAUSED | {"checkpoint_records": 20}),
        (broken_pauses.offsets_of_paused_groups_expire, HELD),
        (broken.the_systems_clock_is_read_once, {"clock_seconds": 1.0, "consumers": 0, "mixed": 0}),
        (broken.deadlines_follow_the_systems_clock, CROWDED | {"clock_seconds": 1.0}),
        (
            broken.what_is_moved_bears_the_time_of_a_clock_that_was_set_back,
            REMEMBERING | {"clock_seconds": 1.0},
        ),
    ],
)
@pytest.mark.plants_failures("reply", "shard", "request")
def test_the_simulation_notices_that(break_the_server: broken.Break, circumstances: dict[str, Any]) -> None:
    """A server with this fault fails within a few seeds, and without it lives the same seed."""

    def has_violation(seed: int) -> bool:
        return (
            World(seed, OPERATIONS, **({"stall_seconds": 0.0, "pausing": 0} | circumstances)).run().violation
            is not None
        )

    seeds = seeds_to_try(FIRST_SEEDS.get(break_the_server, 1), MOST_SEEDS)
    check_that_it_is_noticed(break_the_server, seeds, has_violation)
