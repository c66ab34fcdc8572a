"""The times of checkpoints: when the log has grown, at a clean stop, and after a compaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fetched import each_fetched
from tests.runtime.checkpointed import LATER_MS, STATE_FILE, TOPIC, begin, begin_with_a_checkpoint, run
from tests.server.disk import DATA_DIR, new_disk

from headgate.core.offsets.commands import CommitOffsets, FetchOffsets, OffsetToCommit
from headgate.domain.ids import GroupId, MemberId
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime import checkpoints
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode

pytestmark = pytest.mark.usefixtures("small_parts")


def _node(files: MemoryFileSystem, **given: str) -> BrokerNode:
    settings = Settings({name.replace("_", "."): value for name, value in given.items()})
    return BrokerNode(files, DATA_DIR, settings, Clock())


async def _commit_to(node: BrokerNode, count: int) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    for number in range(count):
        command = CommitOffsets(
            GroupId("g"), [(TOPIC, [OffsetToCommit(number, number, -1, "")])], MemberId(""), -1
        )
        last = number == count - 1
        node.coordinator.submit(GroupId("g"), command, done.set_result if last else lambda result: None)
    await asyncio.wait_for(done, 30)


async def _fetch_from(node: BrokerNode) -> int:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.coordinator.submit(GroupId("g"), FetchOffsets(GroupId("g"), None), done.set_result)
    fetched = await asyncio.wait_for(done, 30)
    return len(list(each_fetched(fetched)))


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_a_log_that_grew_gets_a_checkpoint_in_the_background(
    is_enabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint follows as many records as the setting says, and none if checkpoints are disabled."""
    monkeypatch.setattr(checkpoints, "LOOK_EVERY_SECONDS", 0.01)

    async def scenario() -> None:
        files = new_disk()
        given = {
            "headgate_checkpoint_interval_records": "50",
            "headgate_checkpoint_enable": is_enabled,
            "offsets_topic_num_partitions": "1",
        }
        node = _node(files, **given)
        await node.start()
        await _commit_to(node, 49)
        await asyncio.sleep(0.1)
        assert not files.exists(STATE_FILE)
        await _commit_to(node, 60)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if files.exists(STATE_FILE):
                break
        assert files.exists(STATE_FILE) == (is_enabled == "true")
        node.close()
        files.crash()
        again = _node(files, **given)
        await again.start()
        assert await _fetch_from(again) == 60
        again.close()

    run(scenario)


def test_a_clean_stop_leaves_a_checkpoint_if_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With enough records since the last checkpoint, the next start reads nothing of the log."""
    monkeypatch.setattr(checkpoints, "FEWEST_AT_STOP", 20)

    async def scenario() -> None:
        for count, durability in ((19, "sync"), (20, "sync"), (20, "page-cache")):
            files = new_disk()
            node = _node(files, headgate_durability=durability)
            await node.start()
            await _commit_to(node, count)
            node.close()
            assert files.exists(STATE_FILE) == (count == 20)
            files.crash()
            again = _node(files)
            await again.start()
            assert await _fetch_from(again) == count
            if count == 20:
                (runtime,) = again.coordinator.runtimes
                assert runtime.checkpoint_position == runtime.position == 20
            again.close()

    run(scenario)


def test_a_compaction_past_the_checkpoint_calls_for_a_new_one() -> None:
    """An unusable checkpoint counts as missing."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        for number in range(60):
            await life.commit("other", 0, number)
        assert not checkpoints._is_due(life.runtime, 70)
        life.compact(LATER_MS)
        assert life.partition.log.compacted_to > life.runtime.checkpoint_position
        assert checkpoints._is_due(life.runtime, 70)
        await life.write()
        assert not checkpoints._is_due(life.runtime, 70)
        life.end()

    run(scenario)


def test_a_checkpoint_of_a_log_that_starts_elsewhere_calls_for_a_new_one() -> None:
    """Also after the next start, which reads the whole log then."""

    async def scenario() -> None:
        life = await begin()
        for number in range(60):
            await life.commit("g", 0, number)
        await life.write()
        life.partition.log.delete_before(1)
        assert checkpoints._is_due(life.runtime, 59)
        await life.write()
        assert not checkpoints._is_due(life.runtime, 1)
        life.kill()
        again = await begin(life.files)
        assert again.runtime.checkpoint_position == 60
        assert not checkpoints._is_due(again.runtime, 1)
        again.partition.log.delete_before(2)
        assert checkpoints._is_due(again.runtime, 58)
        again.end()

    run(scenario)
