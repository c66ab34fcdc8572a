"""Checkpoints: a start with one loads the same state as a start from the log alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from tests.runtime.checkpointed import TOPIC, Found, begin, begin_with_a_checkpoint, next_life, run
from tests.runtime.shard_life import ShardLife
from tests.server.disk import new_disk

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.core.share.state.commands import InitializeState
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.core.transactions.commands import InitProducerId
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.domain.settings import Settings
from headgate.log import state_file
from headgate.records.share_state_model import ShareKey
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.shard_kind import ShardKind
from headgate.shards.share_state import share_state_shards
from headgate.shards.transactions import transaction_shards

pytestmark = pytest.mark.usefixtures("small_parts")

TOPIC_ID = TopicId(b"s" * 16)


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


def new_producers() -> Iterator[Any]:
    """Yield commands that create transactional ids, and one that changes the first of them."""
    for number, name in enumerate(("old", "new", "old")):
        yield InitProducerId(transactional_id=name, timeout_ms=1000, new_producer_id=number)


def new_states() -> Iterator[Any]:
    """Yield commands that create states of share-partitions, and one that changes the first of them."""
    for number, partition in enumerate((0, 1, 0)):
        key = ShareKey(GroupId("g"), TOPIC_ID, partition)
        yield InitializeState(key=key, state_epoch=number, start_offset=number)


def told_of_the_topic() -> list[Any]:
    return [TopicsChanged([TopicChange(TOPIC, KnownTopic(TOPIC_ID, 2))])]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (transaction_shards(Settings()), new_producers()),
        (share_state_shards(Settings(), told_of_the_topic), new_states()),
    ],
    ids=["transactions", "share states"],
)
def test_what_changes_before_the_first_part_is_in_the_checkpoint(
    kind: ShardKind[Any], changes: Iterator[Any]
) -> None:
    """The log is applied from the position that was reached when the first part was read."""

    async def scenario() -> None:
        files = new_disk()
        life = ShardLife(files, kind=kind)
        await life.runtime.load()
        await life.submit(next(changes))

        async def and_change(work: Callable[[], None]) -> None:
            work()
            for change in changes:  # all of them when the file begins
                await life.submit(change)

        await CheckpointWriter(life.runtime).write(and_change)
        expected = list(life.runtime.shard.image())
        life.end()
        files.crash()
        again = ShardLife(files, kind=kind)
        await again.runtime.load()
        assert again.runtime.checkpoint_position == again.runtime.position == 3
        assert list(again.runtime.shard.image()) == expected
        again.end()

    run(scenario)
