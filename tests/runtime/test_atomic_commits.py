"""A commit of any size is atomic, at whatever moment the power fails (R3.4, R3.7, R3.12, R3.13).

The power fails at every written byte and every change of the disk's names: of a small commit, a commit of
several batches, a commit that begins a segment, a compaction, and a recovery that truncates a torn log. Time
is simulated, so that the tests do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.runtime.wide_commits import (
    CRASHES,
    NEW,
    OLD,
    Act,
    Life,
    Offsets,
    cut_short,
    found_after,
    simulated,
)
from tests.server.disk import new_disk

from headgate.core.offsets import removal
from headgate.core.offsets.commit import NARROWEST_ROWS
from headgate.log.log import LogSettings
from headgate.log.memory_filesystem import PowerCut
from headgate.runtime import record_batches


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a wide commit take several batches."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 1500)


async def holds_wherever_the_power_fails(
    new: Offsets, torn: Iterable[int], segment_bytes: int | None = None, act: Act | None = None
) -> set[bool]:
    """Check that the commit is atomic, and there if acknowledged. Return whether it was there, per failure.

    `act` changes OLD into `new` if a plain commit does not.
    """
    old_and_new = OLD | new if act is None else new
    outcomes = set()
    random = Random(len(new))
    for operation in range(100):
        has_got_through = False
        # Only writes can be torn.
        for torn_bytes in torn if operation == 0 else (0, 40):
            # Each torn position gets one kind of crash, and its neighbours get the other kinds.
            kinds = list(CRASHES) if operation else [list(CRASHES)[torn_bytes % len(CRASHES)]]
            for kind in kinds:
                is_acknowledged, files = await cut_short(operation, torn_bytes, new, segment_bytes, act)
                has_got_through = files.has_power
                assert is_acknowledged or not has_got_through
                CRASHES[kind](files, random)
                after = await found_after(files, (operation, torn_bytes, kind))
                assert after in (OLD, old_and_new), (operation, torn_bytes, kind)
                assert after == old_and_new or not is_acknowledged, (operation, torn_bytes, kind)
                outcomes.add(after == old_and_new)
        if has_got_through:
            return outcomes
    raise AssertionError("the commit never got through")


def test_a_small_commit_is_all_or_nothing_wherever_the_power_fails() -> None:
    """The power fails at every byte of its batch, and at every change after that."""
    assert simulated(lambda: holds_wherever_the_power_fails({0: 2}, range(140))) == {True, False}


def test_a_commit_of_several_batches_is_all_or_nothing_at_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch holds a few of its partitions."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 330)
    new = dict.fromkeys(range(10), 2)
    assert simulated(lambda: holds_wherever_the_power_fails(new, range(0, 1300, 2))) == {True, False}


def test_a_wide_commit_is_all_or_nothing_wherever_the_power_fails() -> None:
    """The commit has many more batches."""
    torn = (0, 1, 61, 700, 1600, 2500, 3300, 4200, 10_000)
    assert simulated(lambda: holds_wherever_the_power_fails(NEW, torn)) == {True, False}


def test_a_wide_commit_that_expires_is_all_or_nothing_wherever_the_power_fails() -> None:
    """The commit has a retention of its own, in columns; its records hold the expiry."""
    torn = (0, 1, 61, 700, 1600, 2500, 3300, 4200, 8400, 20_000)
    new = dict.fromkeys(range(NARROWEST_ROWS + 20), 2)

    async def act(life: Life) -> Any:
        return await life.commit(new, timeout_s=0.05, retention_ms=3_600_000, in_columns=True)

    assert simulated(lambda: holds_wherever_the_power_fails(new, torn, act=act)) == {True, False}


def test_a_wide_deletion_of_offsets_is_all_or_nothing_wherever_the_power_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes several batches of tombstones; an incomplete run deletes nothing."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 330)
    monkeypatch.setattr(removal, "_FEWEST_IN_COLUMNS", 1)
    left = {0: 1, 58: 1}

    async def act(life: Life) -> Any:
        return await life.delete_offsets(OLD.keys() - left.keys(), timeout_s=0.05)

    assert simulated(lambda: holds_wherever_the_power_fails(left, range(0, 2000, 29), act=act)) == {
        True,
        False,
    }


@pytest.mark.parametrize("new", [{0: 2}, NEW], ids=["small", "wide"])
def test_a_commit_that_begins_a_segment_is_all_or_nothing_wherever_the_power_fails(new: Offsets) -> None:
    """The previous segment is closed and synced, its indexes are written, and the new one is created."""
    torn = (0, 1, 100)
    assert simulated(lambda: holds_wherever_the_power_fails(new, torn, segment_bytes=1)) == {True, False}


@pytest.mark.parametrize("kind", CRASHES)
def test_a_compaction_changes_no_offset_wherever_the_power_fails(kind: str) -> None:
    """The compacted records include a commit that a crash cut short."""

    async def scenario() -> None:
        for operation in range(200):
            _, files = await cut_short(0, 1600, segment_bytes=1)
            files.kill()
            life = Life(files)
            await life.runtime.load()
            life.partition.log.settings = LogSettings(segment_bytes=1)
            expected = OLD | {1: 5, 2: 6}
            for offsets in ({1: 4}, {1: 5}, {2: 6}):
                await life.commit(offsets)
            files.cut_power_after(operation, torn_bytes=operation % 200)
            with suppress(PowerCut):
                life.compact(now_ms=0)
            has_got_through = files.has_power
            life.end()
            CRASHES[kind](files, Random(operation))
            assert await found_after(files, operation) == expected, operation
            if has_got_through:
                assert operation > 20
                return
        raise AssertionError("the compaction never got through")

    simulated(scenario)


@pytest.mark.parametrize("kind", CRASHES)
@pytest.mark.parametrize("torn_bytes", [30, 900, 1600, 3300])
def test_a_recovery_can_fail_anywhere_and_be_done_again(kind: str, torn_bytes: int) -> None:
    """It fails during the truncation, and during the commit of the previous values."""

    async def scenario() -> None:
        for operation in range(100):
            _, files = await cut_short(0, torn_bytes)
            files.kill()
            files.cut_power_after(operation, torn_bytes=operation % 100)
            with suppress(PowerCut):
                life = Life(files)
                await life.runtime.load()
                # Its records are written and synced in the background.
                await asyncio.sleep(1)
                life.end()
            has_got_through = files.has_power
            CRASHES[kind](files, Random(operation))
            assert await found_after(files, operation) == OLD, operation
            if has_got_through:
                return
        raise AssertionError("the recovery never got through")

    simulated(scenario)


def test_a_wide_commit_takes_several_batches_and_a_narrow_one_shares() -> None:
    """The wide commit is a run, and the commit after it is loaded."""

    async def scenario() -> None:
        life = Life(new_disk())
        await life.runtime.load()
        await life.commit(NEW)
        assert len(list(life.partition.log.batches(0))) > 2
        await life.commit({0: 3})
        assert await life.offsets() == {**NEW, 0: 3}
        life.end()

    simulated(scenario)
