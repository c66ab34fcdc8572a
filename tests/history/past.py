"""A coordinator's log with its history on a disk in memory, and a model of all records ever written to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.log.compacting import drive
from tests.server.disk import DATA_DIR

from headgate.core.offsets.history import GroupHistory, HistoryEntry, HistoryQuery
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    GroupId,
    Millis,
    TopicId,
    TopicName,
)
from headgate.domain.settings import Settings
from headgate.history.offset_history import OffsetHistory
from headgate.log.filesystem import FileSystem
from headgate.records import OffsetCommit, OffsetTombstone, Record
from headgate.runtime.clock import Clock
from headgate.shards.group_batches import TurnBatches
from headgate.topics.compactor import Compactor
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

START = Millis(1_750_000_000_000)
GROUP, TOPIC = GroupId("group"), TopicName("t")
SETTINGS = {"log.cleaner.delete.retention.ms": "1000"}


class SetClock(Clock):
    """A system clock that a test sets."""

    def __init__(self) -> None:
        self.time = START

    def system_time(self) -> Millis:
        """Return the time that the test set."""
        return self.time


@dataclass
class Past:
    """All durable records ever written, by partition, the oldest first."""

    entries: dict[int, list[HistoryEntry]] = field(default_factory=dict)

    def took(self, record: Record, log_offset: int, written: Millis) -> None:
        """Add a record that the log holds durably."""
        if isinstance(record, OffsetCommit | OffsetTombstone) and record.group_id == GROUP:
            value = record if isinstance(record, OffsetCommit) else None
            entry = HistoryEntry(log_offset, written, value)
            self.entries.setdefault(record.partition, []).append(entry)


class Life:
    """One run of a node, reduced to the history and what it needs."""

    def __init__(
        self,
        files: FileSystem,
        clock: SetClock,
        segment_bytes: int = 1024,
        data_dir: Path = DATA_DIR,
        **own: str,
    ) -> None:
        self.clock = clock
        self.settings = Settings(SETTINGS | {name.replace("_", "."): value for name, value in own.items()})
        self.topics = Topics.open(files, data_dir, self.settings, clock.system_time())
        offsets = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        if offsets is None:
            overrides = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
            new = NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"offsets-offsets-"), 1, overrides)
            created = self.topics.create(new, clock.system_time())
            assert isinstance(created, Topic)
            offsets = created
        self.partition = offsets.partition(0)
        self.history = OffsetHistory(self.topics, clock)
        self.history.open(offsets)

    @property
    def moved(self) -> Partition:
        """The history's partition."""
        topic = self.topics.by_name(OFFSETS_HISTORY_TOPIC)
        assert topic is not None
        return topic.partition(0)

    def write(self, commands: Sequence[Sequence[Record]], past: Past | None = None) -> None:
        """Append the records of one loop iteration, durably."""
        log = self.partition.log
        offset, now = log.log_end_offset, self.clock.system_time()
        self.partition.append_internal(TurnBatches().of(commands, offset, now))
        request = log.begin_sync()
        request.run()
        log.complete_sync(request)
        for record in (record for command in commands for record in command):
            if past is not None:
                past.took(record, offset, now)
            offset += 1

    def commit(self, offset: int, partitions: Sequence[int], past: Past, group: GroupId = GROUP) -> None:
        """Run one command that commits this offset in some partitions."""
        self.write([[self.record(offset, partition, group) for partition in partitions]], past)

    def record(self, offset: int, partition: int, group: GroupId = GROUP) -> OffsetCommit:
        """Make a record of an offset committed now."""
        return OffsetCommit(group, TOPIC, partition, offset, 0, f"at {offset}", self.clock.system_time())

    def compact(self) -> bool:
        """Compact the log if it is due. Return whether it was."""
        job = drive(
            Compactor(self.topics, self.history.rules_of).next_job(self.clock.system_time(), lambda: True)
        )
        if job is None:
            return False
        drive(job.steps)
        return True

    def ask(self, query: HistoryQuery, max_wait_ms: int = 60_000) -> GroupHistory:
        """Return the answer to a query, and close the history."""

        async def asking() -> GroupHistory | ErrorCode:
            answer: asyncio.Future[GroupHistory | ErrorCode] = asyncio.get_running_loop().create_future()
            self.history.describe(query, max_wait_ms, lambda history: history, answer.set_result)
            return await asyncio.wait_for(answer, 30)

        answer = asyncio.run(asking())
        assert isinstance(answer, GroupHistory), answer
        return answer

    def all_entries(self) -> dict[int, list[HistoryEntry]]:
        """Return all entries of the group, by partition, the oldest first."""
        history = self.ask(HistoryQuery(GROUP, None, limit=10_000))
        return {one.partition: list(reversed(one.entries)) for one in history.partitions}

    def end(self) -> None:
        """Stop the threads, without a sync."""
        self.history.close()
