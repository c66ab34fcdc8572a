"""A crash at every change of the disk while dead letters are written: each is there exactly once then.

The copies of the disk are taken before each change. In each copy the machine restarts: everything that was
not durable is lost, or a part of it, or nothing, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.server.dead_letters import DEAD, REJECT, RELEASE, configure, create, letters, letters_settle
from tests.server.disk import DATA_DIR
from tests.server.share_members import Member, started

from headgate.log.memory_filesystem import Fault, MemoryFileSystem

RECORDS = 5
SETTINGS = {"group_share_delivery_count_limit": "2"}
Restart = Callable[[MemoryFileSystem, int], None]


class CopiedDisk(MemoryFileSystem):
    """A disk that can be asked for a copy of itself before each of its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[MemoryFileSystem] | None = None

    def pass_change(self, kind: str, path: Path) -> Fault | None:
        if self.copies is not None:
            taken = MemoryFileSystem()
            taken._root = copy.deepcopy(self._root)
            self.copies.append(taken)
        return super().pass_change(kind, path)


async def _reject(member: Member, first: int, last: int) -> None:
    await member.fetch(0, most=last - first + 1, batch_size=1)
    await member.acknowledge({0: [(first, last, [REJECT])]})


async def _life() -> list[MemoryFileSystem]:
    """Reject records, one and several at a time, and by the delivery limit; return the copies of the disk."""
    files = CopiedDisk()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    scene = await started(files, **SETTINGS)
    await scene.initialize()
    create(scene)
    configure(scene, topic=DEAD, copy="true")
    for number in range(RECORDS):
        scene.append(b"%d" % number)
    files.copies = []
    ann = scene.member("ann")
    await _reject(ann, 0, 0)
    await _reject(ann, 1, 2)
    await letters_settle(scene)
    await _reject(ann, 3, 3)
    for _ in range(2):
        await ann.fetch(0, most=1, batch_size=1, wait_ms=1000)
        await ann.acknowledge({0: [(4, 4, [RELEASE])]})
    await letters_settle(scene)
    copies, files.copies = files.copies, None
    assert sorted(one.offset for one in letters(scene)) == list(range(RECORDS))
    scene.node.close()
    return copies


async def _go_on(files: MemoryFileSystem) -> list[tuple[int, bytes | None]]:
    """Start again, reject what is delivered, and return the dead letters."""
    scene = await started(files, **SETTINGS)
    ben = scene.member("ben")
    await ben.fetch(0, wait_ms=100)
    (shared,) = scene.shared()
    async with asyncio.timeout(10):
        while shared.machine is None or shared.machine.start_offset < RECORDS:
            held = [] if shared.machine is None else list(shared.machine.deliveries(0, RECORDS))
            for one in held:
                if one.member_id == ben.name and not one.is_changing:
                    await ben.acknowledge({0: [(one.first_offset, one.last_offset, [REJECT])]})
            await ben.fetch(0)
            await asyncio.sleep(0)
    await letters_settle(scene)
    found = [(one.offset, one.value) for one in letters(scene)]
    scene.node.close()
    return found


def _lose_all(files: MemoryFileSystem, at: int) -> None:
    files.crash()


def _lose_some(files: MemoryFileSystem, at: int) -> None:
    files.crash(Random(at))


def _lose_nothing(files: MemoryFileSystem, at: int) -> None:
    files.kill()


@pytest.mark.parametrize("restart", [_lose_all, _lose_some, _lose_nothing])
def test_each_dead_letter_is_written_once_whenever_the_machine_restarts(restart: Restart) -> None:
    """At every change of the disk between the first rejection and the last archived record."""

    async def main() -> None:
        copies = await _life()
        assert len(copies) > 20
        for at, files in enumerate(copies):
            restart(files, at)
            found = await _go_on(files)
            assert sorted(found) == [(number, b"%d" % number) for number in range(RECORDS)], (at, found)

    asyncio.run(asyncio.wait_for(main(), 100))
