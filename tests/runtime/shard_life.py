"""One run of a coordinator's shard, of groups by default: the real one, over a log on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.log.compacting import drive
from tests.server.disk import DATA_DIR

from headgate.core.shard import GroupShard
from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.log.compaction import CompactionOrder, compact
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.records.run_completeness import RunCompleteness
from headgate.runtime.clock import Clock
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.runtime.syncing import Syncer
from headgate.shards.groups import group_shards
from headgate.topics.topics import NewTopic, Topics


class ShardLife:
    """A run of a shard. The first one on a disk creates the topic, with two partitions."""

    def __init__(
        self,
        files: MemoryFileSystem,
        overrides: Mapping[str, str] | None = None,
        syncer: Syncer | None = None,
        kind: ShardKind[Any] | None = None,
    ) -> None:
        kind = kind or group_shards(Settings(), lambda: GroupShard(Settings()))
        clock = Clock()
        self.files = files
        self.topics = Topics.open(files, DATA_DIR, Settings(), clock.system_time())
        topic = self.topics.by_name(kind.topic)
        if topic is None:
            wanted = NewTopic(kind.topic, TopicId(b"t" * 16), 2, overrides or {})
            self.topics.create(wanted, clock.system_time())
            topic = self.topics.by_name(kind.topic)
        assert topic is not None
        self.partition = topic.partition(0)
        self.group_commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None, syncer)
        self.runtime = ShardRuntime(kind, LocalLog(self.partition, self.group_commit), clock)

    async def submit(self, command: Any, timeout_s: float = 30) -> Any:
        """Submit a command and wait for its reply."""
        reply = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, lambda result: None if reply.done() else reply.set_result(result))
        return await asyncio.wait_for(reply, timeout_s)

    def compact(self, now_ms: int) -> None:
        """Compact all closed segments at that time; remove tombstones as early as allowed."""
        log = self.partition.log
        end = log.segments.closed[-1].next_offset
        order = CompactionOrder(
            now_ms=now_ms, delete_retention_ms=0, not_beyond=end, new_completeness=RunCompleteness
        )
        drive(compact(log, order))

    def end(self) -> None:
        """Stop like a power failure: data that was not synced is lost."""
        with suppress(PowerCut, OSError):
            self.group_commit.close()
