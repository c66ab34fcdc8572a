"""A machine, disk or shard that fails during the write of a checkpoint loses no data."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest
from tests.runtime.checkpointed import PARTITION_DIR, TOPIC, Found, begin_with_a_checkpoint, next_life, run

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.domain.ids import GroupId, MemberId
from headgate.log.memory_filesystem import Fault, PowerCut
from headgate.log.state_file import STATE_NAME
from headgate.runtime.checkpoints import CheckpointGivenUp

pytestmark = [
    pytest.mark.usefixtures("small_parts"),
    # A power failure ends the syncing thread with an exception.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.mark.parametrize("kind", ["plain", "random", "killed"])
def test_a_crash_at_any_change_of_a_checkpoint_leaves_what_was_acknowledged(kind: str) -> None:
    """The first checkpoint and the second, with commits in between: all data is there in every case."""

    async def scenario() -> None:
        cuts = 0
        for changes in range(200):
            life = await begin_with_a_checkpoint()
            await life.fill(first=3, count=5)
            await life.delete("g1", 1)
            life.files.cut_power_after(changes, torn_bytes=changes * 7 % 50)
            is_cut = False
            try:
                await life.write()
            except (PowerCut, CheckpointGivenUp):
                is_cut = True
            if kind == "killed":
                life.kill()
            else:
                life.crash(Random(changes) if kind == "random" else None)
            assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)
            if not is_cut:
                break
            cuts += 1
        else:
            pytest.fail("the checkpoint never came to its end")
        assert cuts > 8

    run(scenario)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_refuses_a_checkpoint_costs_nothing_else(error: int) -> None:
    """At any change: commits continue, the old checkpoint remains, and the next one succeeds."""

    async def scenario() -> None:
        refusals = 0
        for changes in range(200):
            life = await begin_with_a_checkpoint()
            await life.fill(first=3, count=5)
            life.files.inject(Fault(error, after=changes, written=11))
            try:
                await life.write()
            except OSError:
                refusals += 1
                life.files.heal()
                assert life.runtime.is_active
                await life.fill(first=8, count=3)
                names = life.files.listdir(PARTITION_DIR)
                assert STATE_NAME in names
                await life.write()
            else:
                break
            life.crash()
            assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)
        assert refusals > 8

    run(scenario)


def test_a_shard_that_fails_meanwhile_gets_no_checkpoint() -> None:
    """A write of the log fails meanwhile: the new checkpoint is dropped, the old one remains."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        before = life.checkpoint
        await life.fill(first=3)

        async def fail(work: Callable[[], None]) -> None:
            work()
            if life.runtime.is_active:
                life.files.inject(Fault(errno.EIO, "pwrite", path_ends=".log"))
                command = CommitOffsets(
                    GroupId("g"), [(TOPIC, [OffsetToCommit(0, 1, -1, "")])], MemberId(""), -1
                )
                life.runtime.submit(command, lambda result: None)
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        with pytest.raises(CheckpointGivenUp):
            await life.write(fail)
        assert life.checkpoint == before
        life.end()

    run(scenario)
