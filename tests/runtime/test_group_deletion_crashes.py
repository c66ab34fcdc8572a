"""A group is deleted with all its offsets or not at all, at whatever moment the power fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.runtime.wide_commits import CRASHES, OLD, Life, cut_short, simulated

from headgate.core import group_deletion
from headgate.domain.errors import ErrorCode
from headgate.log.memory_filesystem import MemoryFileSystem


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a deletion of 30 offsets take five slices."""
    monkeypatch.setattr(group_deletion, "OFFSETS_AT_ONCE", 6)
    monkeypatch.setattr(group_deletion, "OFFSETS_A_SLICE", 6)
    monkeypatch.setattr(group_deletion, "BETWEEN_SLICES_MS", 1)
    yield


async def delete(life: Life) -> Any:
    """Delete the group; a power failure leaves the request unanswered."""
    return await life.delete_group(timeout_s=5)


async def found_after(files: MemoryFileSystem) -> bool:
    """Return whether a start finds the group with all its offsets; if not, the rest of it is removed."""
    life = Life(files)
    await life.runtime.load()
    after = await life.offsets()
    assert after in (OLD, {})
    while not after and (await life.commit({1: 3})).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert await life.offsets() == {}
        await asyncio.sleep(0.001)
    expected = after or {1: 3}
    assert await life.offsets() == expected
    assert life.last_of_each_key() == expected
    life.end()
    return bool(after)


@pytest.mark.parametrize("kind", CRASHES)
def test_a_wide_group_is_deleted_altogether_or_not_at_all_wherever_the_power_fails(kind: str) -> None:
    """At every change of the disk: the next start finds the whole group, or removes the rest."""
    outcomes = set()
    for operation in range(100):
        has_got_through = False
        for torn_bytes in (0, 90, 300):
            is_acknowledged, files = simulated(partial(cut_short, operation, torn_bytes, act=delete))
            has_got_through = files.has_power
            assert is_acknowledged or not has_got_through
            CRASHES[kind](files, Random(operation))
            is_there = simulated(partial(found_after, files))
            assert not (is_there and is_acknowledged)
            outcomes.add((is_there, is_acknowledged))
        if has_got_through:
            assert outcomes >= {(True, False), (False, False), (False, True)}
            return
    raise AssertionError("the deletion never got through")
