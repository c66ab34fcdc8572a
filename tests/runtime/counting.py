"""A shard that counts, with committed offsets as records.

The runtime, topics and log around it are the real ones. The disk is in memory and fails on demand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Effects, Producer, Reply, Token
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.filesystem import FileSystem
from headgate.log.memory_filesystem import MemoryFile, PowerCut
from headgate.records import OffsetCommit, Record
from headgate.runtime.clock import Clock
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.shards.groups import GROUP_RECORDS
from headgate.topics.partition import Partition
from headgate.topics.topics import NewTopic, Topics

DATA_DIR = Path("/data")


@dataclass
class Add:
    """Add one; the reply is the new count."""


@dataclass
class Ask:
    """Return the count as the reply."""


@dataclass
class AnswerLater:
    """Reply at the next Tick."""


class Counter:
    """A shard that stores one number as a committed offset."""

    def __init__(self) -> None:
        self.count = 0
        self.parked: list[Token] = []
        self.deadline: Millis | None = None
        self.is_loaded = False
        self.ahead_ms = 0

    def handle(self, command: object, now: Millis, token: Token = 0) -> Effects[Record]:
        match command:
            case Add():
                record = OffsetCommit(GroupId("g"), TopicName("t"), 0, self.count + 1, -1, "", now)
                return Effects([record], [Reply(token, self.count + 1)])
            case AnswerLater():
                self.parked.append(token)
                self.deadline = Millis(now + 20)
                return Effects()
            case SystemTimeMoved(ahead_ms):
                self.ahead_ms = ahead_ms
                return Effects()
            case Tick():
                parked, self.parked, self.deadline = self.parked, [], None
                return Effects(replies=[Reply(waiting, "late") for waiting in parked])
        return Effects(replies=[Reply(token, self.count)])

    def apply(self, record: Record, position: int, producer: Producer | None = None) -> None:
        assert isinstance(record, OffsetCommit)
        assert record.offset == position + 1
        self.count = record.offset

    def current_record(self, record: Record) -> Record | None:
        return None

    def loaded(self, now: Millis) -> None:
        self.is_loaded = True

    def next_deadline(self) -> Millis | None:
        return self.deadline


def counters(
    new_shard: Callable[[], Counter] = Counter, first_commands: Callable[[], Iterable[Any]] = tuple
) -> ShardKind[Counter]:
    """Return the registration of the kind."""
    return ShardKind(
        topic=GROUP_OFFSETS_TOPIC,
        partition_count=1,
        records=GROUP_RECORDS,
        new_shard=new_shard,
        first_commands=first_commands,
    )


@dataclass
class Setup:
    """A runtime on a new data directory."""

    runtime: ShardRuntime[Counter]
    log: LocalLog
    group_commit: GroupCommit
    partition: Partition
    files: FileSystem
    sync_seconds: list[float]

    async def ask(self, command: object) -> Any:
        """Submit a command and wait for the reply."""
        reply = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, reply.set_result)
        return await asyncio.wait_for(reply, 10)


@asynccontextmanager
async def setup(
    files: FileSystem,
    data_dir: Path = DATA_DIR,
    new_shard: Callable[[], Counter] = Counter,
    **given: str,
) -> AsyncIterator[Setup]:
    settings = Settings({name.replace("_", "."): value for name, value in given.items()})
    clock = Clock()
    files.make_directory(data_dir)
    files.sync_directory(data_dir.parent)
    topics = Topics.open(files, data_dir, settings, clock.system_time())
    topic = topics.by_name(GROUP_OFFSETS_TOPIC)
    if topic is None:
        created = topics.create(NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"t" * 16), 1), clock.system_time())
        topic = topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is created
    sync_seconds: list[float] = []
    group_commit = GroupCommit(asyncio.get_running_loop(), sync_seconds.append)
    partition = topic.partition(0)
    log = LocalLog(partition, group_commit)
    runtime = ShardRuntime(counters(new_shard), log, clock)
    await runtime.load()
    yield Setup(runtime, log, group_commit, partition, files, sync_seconds)
    group_commit.close()
    with suppress(PowerCut):
        runtime.close()
        topics.close()


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def hold_syncs(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every sync of files in memory wait for `gate`."""
    datasync = MemoryFile.datasync

    def held(file: MemoryFile) -> None:
        assert gate.wait(10)
        datasync(file)

    monkeypatch.setattr(MemoryFile, "datasync", held)
