"""The history of offsets: its topic, its contents, and its queries.

`__consumer_offsets_history` has one partition for each partition of `__consumer_offsets`. Rules:

1. Records that compaction removes from the latter are in the former, durably, before they are removed.
2. This module sets the topic's settings: its retention is `offsets.history.retention.ms`.
3. A history that was switched off and on again starts empty: its old records would leave a gap.
4. One query at a time is answered, in slices beside other work. Other queries wait.
5. Compaction removes authors of changes that are older than the retention (`old_authors`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from headgate.core.offsets.expiry import MINUTE_MS
from headgate.core.offsets.history import FIRST_TIME, GroupHistory, HistoryCollector, HistoryQuery, TopicLife
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC, Millis, TopicId, TopicName
from headgate.domain.partitioning import partition_for
from headgate.history.old_authors import OldAuthors
from headgate.history.outcomes import undecided
from headgate.history.scan import ScanCancelled, ScanOrder, known_since, scan
from headgate.history.writer import (
    HistoryWriter,
    append_mark,
    latest_time,
    open_aside,
    sync_aside,
    time_of_move,
)
from headgate.log.compaction import Steps
from headgate.log.header import CorruptBatch
from headgate.log.log import Log
from headgate.records.history import SINCE_EVER
from headgate.records.run_completeness import RunCompleteness
from headgate.runtime.asking import guarded
from headgate.runtime.clock import Clock
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.loop_watch import LoopWatch
from headgate.runtime.slices import SliceRunner
from headgate.topics.compactor import NO_RULES, CompactionRules
from headgate.topics.names import is_internal
from headgate.topics.partition import Partition
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

logger = logging.getLogger(__name__)

RETENTION_SETTING: Final = "offsets.history.retention.ms"
SEGMENT_BYTES: Final = 64 << 20
"""Not larger, because a crash has the last segment read again; not smaller, because many open slowly."""
SEGMENTS_A_RETENTION: Final = 7
LONGEST_LINE: Final = 100
"""Limit of waiting queries."""
ATTEMPTS: Final = 5

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def _no_collection() -> AsyncIterator[None]:
    """Disable the collection of cyclic garbage meanwhile.

    An answer may consist of a million objects, none of them in a cycle. Collections, which recur as their
    number grows, blocked the loop for 0.4 s at a time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class OffsetHistory:
    """The history of the offsets of one node."""

    def __init__(self, topics: Topics, clock: Clock, watch: LoopWatch | None = None) -> None:
        self._topics = topics
        self._clock = clock
        self._retention_ms: int = topics.settings[RETENTION_SETTING]
        self._offsets: Topic | None = None
        self._topic: Topic | None = None
        """The history's topic; None while no history is kept."""
        self._slices = SliceRunner("history", watch=watch)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_kept(self) -> bool:
        """Whether a history is kept."""
        return self._retention_ms != 0

    # --- the topic ---

    def open(self, offsets: Topic) -> None:
        """Create the topic or apply the current settings, before compactions start. Raises OSError."""
        self._offsets = offsets
        topic = self._topics.by_name(OFFSETS_HISTORY_TOPIC)
        if topic is None and not self.is_kept:
            return
        if topic is None:
            topic = self._create(offsets.partition_count)
            self._begin_anew(offsets, topic)
        elif topic.overrides != self._overrides():
            self._change_retention(offsets, topic)
        self._topic = topic if self.is_kept else None

    def _create(self, partition_count: int) -> Topic:
        topic_id = TopicId(uuid.uuid4().bytes)
        new = NewTopic(OFFSETS_HISTORY_TOPIC, topic_id, partition_count, self._overrides())
        created = self._topics.create(new, self._clock.system_time())
        if isinstance(created, Refusal):
            raise OSError(f"{OFFSETS_HISTORY_TOPIC} cannot be created: {created.message}")
        return created

    def _overrides(self) -> dict[str, str]:
        overrides = {
            "cleanup.policy": "delete",
            "retention.bytes": "-1",
            "retention.ms": str(self._retention_ms),
            "segment.bytes": str(SEGMENT_BYTES),
        }
        if self._retention_ms > 0:
            overrides["segment.ms"] = str(max(1, self._retention_ms // SEGMENTS_A_RETENTION))
        return overrides

    def _change_retention(self, offsets: Topic, topic: Topic) -> None:
        before_ms = topic.policy.retention_ms
        if self.is_kept and before_ms == 0:
            self._begin_anew(offsets, topic)
        elif before_ms > 0:
            self._keep_limits(topic, before_ms)
        refusal = self._topics.set_overrides(topic, self._overrides(), self._clock.system_time())
        if refusal is not None:
            raise OSError(f"{OFFSETS_HISTORY_TOPIC} cannot be configured: {refusal.message}")

    def _begin_anew(self, offsets: Topic, topic: Topic) -> None:
        """Empty all histories and mark them as complete from now on, because compactions are missing."""
        for index in offsets.written_partitions():
            log = offsets.partition(index).log
            if log.compacted_to or topic.is_written(index):
                history = topic.partition(index)
                now = time_of_move(self._clock.system_time(), log, history.log)
                history.log.delete_before(history.log.log_end_offset)
                self._mark(history, now)

    def _keep_limits(self, topic: Topic, before_ms: int) -> None:
        """Mark empty histories with the start of their retention before the retention changes."""
        for index in topic.written_partitions():
            history = topic.partition(index)
            if _was_emptied(history.log):
                self._mark(history, Millis(self._clock.system_time() - before_ms))

    def mark_emptied(self) -> Steps[None]:
        """Mark histories that retention has emptied, because the clock may be wrong. Raises OSError.

        Run after each round of retention.
        """
        topic = self._topic
        if topic is None or self._retention_ms < 0:
            return
        for history in list(topic.open_partitions()):
            if history.log.failure is None and _was_emptied(history.log):
                now = self._clock.system_time()
                append_mark(history, Millis(now - self._retention_ms), now)
                yield from sync_aside(history.log)

    def _mark(self, history: Partition, known_since: Millis) -> None:
        append_mark(history, known_since, self._clock.system_time())
        request = history.log.begin_sync()
        with suppress(OSError):
            request.run()
        history.log.complete_sync(request)

    # --- the contents ---

    def rules_of(self, partition: Partition) -> CompactionRules:
        """Return the rules for the compaction of a partition."""
        if not is_internal(partition.topic.name):
            return NO_RULES
        if partition.topic.name != GROUP_OFFSETS_TOPIC:
            return CompactionRules(new_completeness=RunCompleteness)
        if self._topic is None:
            return CompactionRules(new_completeness=RunCompleteness, expired=self._old_authors())
        history = self._topic.partition(partition.index)
        is_first = not partition.log.compacted_to
        writer = HistoryWriter(history, self._clock, is_first=is_first, moved_from=partition.log)
        return CompactionRules(RunCompleteness, writer, self._old_authors())

    def _old_authors(self) -> OldAuthors | None:
        if self._retention_ms < 0:
            return None
        return OldAuthors(Millis(self._clock.system_time() - self._retention_ms))

    # --- the queries ---

    def describe(
        self,
        query: HistoryQuery,
        max_wait_ms: int,
        render: Callable[[GroupHistory], ResultT],
        on_reply: Callable[[ResultT | ErrorCode], None],
    ) -> None:
        """Answer a query; see `headgate.api.contract.OffsetHistory`."""
        if len(self._tasks) >= LONGEST_LINE:
            on_reply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        answering = self._answer(query, max_wait_ms, render, guarded(on_reply))
        task = asyncio.get_running_loop().create_task(answering)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self,
        query: HistoryQuery,
        max_wait_ms: int,
        render: Callable[[GroupHistory], ResultT],
        on_reply: Callable[[ResultT | ErrorCode], None],
    ) -> None:
        async with self._turn, _no_collection():
            result: ResultT | ErrorCode
            try:
                result = await self._scan(query, max_wait_ms, render)
            except (OSError, CorruptBatch) as failure:
                logger.error("history unreadable", extra={"group": query.group_id, "error": str(failure)})
                result = ErrorCode.KAFKA_STORAGE_ERROR
            except Exception as failure:  # the client waits for an answer
                unexpected(Where.HISTORY, "history failed", failure, group=query.group_id)
                result = ErrorCode.UNKNOWN_SERVER_ERROR
        on_reply(result)

    async def _scan(
        self, query: HistoryQuery, max_wait_ms: int, render: Callable[[GroupHistory], ResultT]
    ) -> ResultT | ErrorCode:
        deadline = time.monotonic() + max_wait_ms / 1000
        if self._topic is not None:
            history = self._topic.partition(partition_for(query.group_id, self._topic.partition_count))
            await self._slices.run(open_aside(history))
        for _ in range(ATTEMPTS):
            order = self._order(query, lambda: time.monotonic() > deadline, render)
            if order is None:
                collector = HistoryCollector(query)
                lives = {name: self._life_of(0, name) for name in collector.topics()}
                return render(collector.answer(SINCE_EVER, lives))
            try:
                return await self._slices.run(scan(order))
            except ScanCancelled:
                await asyncio.sleep(0)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _order(
        self,
        query: HistoryQuery,
        is_time_up: Callable[[], bool],
        render: Callable[[GroupHistory], ResultT],
    ) -> ScanOrder[ResultT] | None:
        """Return what to read for a query; None if nothing was ever written. Raises OSError, CorruptBatch."""
        offsets, now = self._offsets, self._clock.system_time()
        assert offsets is not None, "not opened"
        index = partition_for(query.group_id, offsets.partition_count)
        if not offsets.is_written(index):
            return None
        partition, history = offsets.partition(index), None
        since: Millis | None = None if partition.log.compacted_to else SINCE_EVER
        if self._topic is not None and self._topic.is_written(index):
            history = self._topic.partition(index).log
            if history.log_end_offset:
                since = known_since(history, now, self._retention_ms)
        kept_ms: int = self._topics.settings["offsets.retention.minutes"] * MINUTE_MS
        return ScanOrder(
            query=replace(query, retention_ms=kept_ms) if query.is_last_change else query,
            log=partition.log,
            visible_end=partition.high_watermark,
            undecided=undecided(partition),
            history=history,
            known_since=max(now, latest_time(partition.log)) if since is None else since,
            life_of=partial(self._life_of, index),
            is_time_up=is_time_up,
            render=render,
        )

    def _life_of(self, index: int, name: TopicName) -> TopicLife:
        """Return the topic that has this name, as a partition of `__consumer_offsets` knows it."""
        topic = self._topics.by_name(name)
        if topic is None:
            return TopicLife()
        if topic.offsets_from is not None:
            return TopicLife(topic.topic_id, topic.created_at, offsets_from=topic.offsets_from[index])
        after = topic.created_at if self._topics.has_former_topic(topic) else FIRST_TIME
        return TopicLife(topic.topic_id, topic.created_at, offsets_after=after)

    def close(self) -> None:
        """Stop answering queries."""
        for task in self._tasks:
            task.cancel()
        self._slices.close()


def _was_emptied(history: Log) -> bool:
    """Return whether a history was written and is now empty, without even its first mark."""
    return 0 < history.log_start_offset == history.log_end_offset
