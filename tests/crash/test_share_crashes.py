"""A share group whose server loses its power at every change of the disk, also in the middle of a write.

A member acknowledges in every type. What was answered before the crash holds after it; what was not may hold
or not; and every other record is delivered again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from tests.server.disk import new_disk
from tests.server.share_members import Member, started

from headgate.domain.errors import ErrorCode

ACCEPT, RELEASE, REJECT = 1, 2, 3
ROUNDS: tuple[tuple[tuple[int, int, list[int]], ...], ...] = (
    ((0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])),
    ((1, 1, [ACCEPT]), (3, 3, [RELEASE])),
    ((3, 5, [ACCEPT, RELEASE, REJECT]),),
)
"""What is acknowledged after each fetch."""
MOST_CHANGES = 200


@dataclass
class Told:
    """What the member knows: what it has asked for, and what was answered."""

    complete: set[int] = field(default_factory=set)
    perhaps_complete: set[int] = field(default_factory=set)
    counts: dict[int, int] = field(default_factory=dict)
    """The delivery counts of released records."""


async def work(member: Member, told: Told) -> None:
    """Fetch and acknowledge, round by round."""
    counts: dict[int, int] = {}
    for number, batches in enumerate(ROUNDS):
        got = await member.fetch(*([0] if number == 0 else []))
        for first, last, count in got[0].acquired if got else ():
            counts |= dict.fromkeys(range(first, last + 1), count)
        kinds = {
            offset: types[0] if len(types) == 1 else types[offset - first]
            for first, last, types in batches
            for offset in range(first, last + 1)
        }
        complete = {offset for offset, kind in kinds.items() if kind != RELEASE}
        told.perhaps_complete |= complete
        assert await member.acknowledge({0: batches}) == {0: ErrorCode.NONE}
        told.complete |= complete
        told.counts |= {offset: counts[offset] for offset in kinds.keys() - complete}


async def crash_after(changes: int, torn_bytes: int) -> bool:
    """Cut the power after so many changes, and check the next server. Return whether all was done before."""
    files = new_disk()
    scene = await started(files)
    await scene.initialize()
    for value in (b"ab", b"cd", b"ef"):
        scene.append(*(bytes([one]) for one in value))
    told = Told()
    files.cut_power_after(changes, torn_bytes)
    working = asyncio.create_task(work(scene.member("m"), told))
    while not working.done() and files.has_power:
        await asyncio.sleep(0)
    is_done = working.done() and working.exception() is None
    working.cancel()
    with suppress(BaseException):
        await working
    files.crash()
    with suppress(BaseException):
        scene.node.close()
    again = await started(files)
    got = await again.member("n").fetch(0, wait_ms=5_000)
    found = {
        offset: count
        for first, last, count in (got[0].acquired if got else ())
        for offset in range(first, last + 1)
    }
    again.node.close()
    where = (changes, torn_bytes, told, found)
    assert not told.complete & found.keys(), where
    assert set(range(6)) - found.keys() <= told.perhaps_complete, where
    assert all(found[offset] > count for offset, count in told.counts.items() if offset in found), where
    return is_done


@pytest.mark.parametrize("torn_bytes", [0, 61])
def test_share_group_after_a_crash_at_every_change(torn_bytes: int) -> None:
    """Nothing that was answered is lost, and nothing else."""
    for changes in range(MOST_CHANGES):
        if asyncio.run(asyncio.wait_for(crash_after(changes, torn_bytes), 60)):
            assert changes > len(ROUNDS)
            return
    raise AssertionError("the work never ends")


def test_scene_of_the_crashes_works() -> None:
    """Without a crash each round is answered."""

    async def story() -> None:
        scene = await started(new_disk())
        await scene.initialize()
        for value in (b"ab", b"cd", b"ef"):
            scene.append(*(bytes([one]) for one in value))
        told = Told()
        await work(scene.member("m"), told)
        assert told == Told({0, 1, 2, 3, 5}, {0, 1, 2, 3, 5}, {1: 1, 3: 1, 4: 1})
        scene.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))
