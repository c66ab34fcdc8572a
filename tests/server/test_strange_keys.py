"""A log with records of keys that belong to other partitions: that is noticed whenever it is loaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.disk import DATA_DIR, new_disk

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.core.shard import GroupShard
from headgate.core.share.state.commands import InitializeState
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.core.transactions.commands import InitProducerId
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.domain.partitioning import partition_for
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records.share_state_model import ShareKey
from headgate.runtime.clock import Clock
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.server.coordinator import Coordinator
from headgate.shards.groups import group_shards
from headgate.shards.share_state import share_state_shards
from headgate.shards.transactions import transaction_shards
from headgate.topics.topics import NewTopic, Topics

TOPIC, TOPIC_ID = TopicName("t"), TopicId(b"t" * 16)
SHARDS = 2


def commit(name: str) -> tuple[str, Any]:
    """Return a key and a command that makes a record of it."""
    return name, CommitOffsets(GroupId(name), [(TOPIC, [OffsetToCommit(0, 1, -1, "")])])


def init(name: str) -> tuple[str, Any]:
    """The same for transactional ids."""
    return name, InitProducerId(name, 1000, None, 7)


def initialize(name: str) -> tuple[str, Any]:
    """The same for share-partitions."""
    key = ShareKey(GroupId(name), TOPIC_ID, 0)
    return key.name, InitializeState(key=key, state_epoch=1)


KINDS: dict[str, tuple[Callable[[], ShardKind[Any]], Callable[[str], tuple[str, Any]]]] = {
    "groups": (lambda: group_shards(Settings(), lambda: GroupShard(Settings())), commit),
    "transactions": (lambda: transaction_shards(Settings()), init),
    "share states": (
        lambda: share_state_shards(
            Settings(), lambda: [TopicsChanged([TopicChange(TOPIC, KnownTopic(TOPIC_ID, 1))])]
        ),
        initialize,
    ),
}


async def life(
    files: MemoryFileSystem,
    kind: ShardKind[Any],
    misplaced: bool | None,
    command_of: Callable[[str], tuple[str, Any]],
) -> None:
    """Load two shards, and give commands of nine keys to the right or the wrong one; None: no commands."""
    clock = Clock()
    topics = Topics.open(files, DATA_DIR, Settings(), clock.system_time())
    if topics.by_name(kind.topic) is None:
        topics.create(NewTopic(kind.topic, TopicId(b"s" * 16), SHARDS, {}), clock.system_time())
    topic = topics.by_name(kind.topic)
    assert topic is not None
    group_commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None)
    runtimes = [
        ShardRuntime(kind, LocalLog(topic.partition(index), group_commit), clock) for index in range(SHARDS)
    ]
    coordinator = Coordinator(kind, runtimes)
    await coordinator.load()
    for number in range(9) if misplaced is not None else ():
        key, command = command_of(f"key-{number}")
        reply = asyncio.get_running_loop().create_future()
        shard = coordinator.partition_of(key)
        coordinator.submit_to(1 - shard if misplaced and number == 4 else shard, command, reply.set_result)
        await asyncio.wait_for(reply, 30)
    coordinator.close()
    group_commit.close()
    topics.close()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("misplaced", [False, True])
def test_a_key_of_another_shard_is_reported_when_its_log_is_loaded(
    name: str, misplaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the log, the key, and where it belongs; and a log in order is not."""
    make_kind, command_of = KINDS[name]
    files = new_disk()
    asyncio.run(life(files, make_kind(), misplaced, command_of))
    assert not caplog.records
    with caplog.at_level(logging.ERROR):
        asyncio.run(life(files, make_kind(), None, command_of))
    found = [vars(record) for record in caplog.records if record.levelno == logging.ERROR]
    if not misplaced:
        assert not found
        return
    key, _ = command_of("key-4")
    right = partition_for(key, SHARDS)
    (line,) = found
    assert (Path(line["log"]).name, line["keys"], line["first"], line["belongs_to"]) == (
        f"{make_kind().topic}-{1 - right}",
        1,
        key,
        right,
    )
