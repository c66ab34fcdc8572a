"""Checkpoints: a start with one loads the same state as a start from the log alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.runtime.checkpointed import TOPIC, Found, begin, begin_with_a_checkpoint, next_life, run

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.domain.ids import GroupId, MemberId
from headgate.log import state_file

pytestmark = pytest.mark.usefixtures("small_parts")


def test_a_start_uses_the_checkpoint_and_what_the_log_holds_beyond_it() -> None:
    """Offsets committed before and after it, and offsets deleted after it, are as they were."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        await life.fill(first=6, count=9)
        await life.delete("g0", 0)
        life.crash()
        assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)

    run(scenario)


def test_commits_go_on_while_a_checkpoint_is_written() -> None:
    """Offsets are committed or deleted between any two parts, and none of these changes is lost."""

    async def scenario() -> None:
        life = await begin()
        await life.fill(count=30)
        number = 100

        async def busily(work: Callable[[], None]) -> None:
            nonlocal number
            work()
            number += 1
            await life.commit(f"g{number % 6}", number % 9, number)
            await life.delete(f"g{number % 4}", number % 7)

        await life.write(busily)
        assert number > 105
        life.crash()
        assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)

    run(scenario)


def test_a_checkpoint_reaches_no_further_than_the_log_is_durable() -> None:
    """Commits during the write are synced before the checkpoint is put in place."""

    async def scenario() -> None:
        life = await begin()
        await life.fill()
        seen: list[int] = []
        finish = state_file.StateFileWriter.finish

        def watch(writer: Any, bond: Any, contents: Any) -> None:
            seen.append(bond.end_offset)
            assert unsynced[0] <= bond.end_offset <= life.partition.log.durable_offset
            finish(writer, bond, contents)

        unsynced = [0]

        async def and_commit(work: Callable[[], None]) -> None:
            work()
            if not seen:
                wanted = [OffsetToCommit(1, 77, -1, "")]
                command = CommitOffsets(GroupId("g1"), [(TOPIC, wanted)], MemberId(""), -1)
                life.runtime.submit(command, lambda result: None)
                unsynced[0] = life.runtime.position

        with patch.object(state_file.StateFileWriter, "finish", watch):
            await life.write(and_commit)
        assert len(seen) == 1
        life.end()

    run(scenario)
