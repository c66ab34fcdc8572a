"""The node: connects topics, coordinators, clock and disk; implements `headgate.api.contract`."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.metrics_core import Metric

from headgate.api.contract import RequestSteps, Router
from headgate.api.router import Here
from headgate.core.contract import Shard
from headgate.domain.ids import Millis
from headgate.domain.settings import Settings
from headgate.history.offset_history import OffsetHistory
from headgate.log.batch import CorruptBatch
from headgate.log.filesystem import FileSystem
from headgate.runtime.aside import AsideThread
from headgate.runtime.checkpoints import CheckpointRunner
from headgate.runtime.clock import Clock
from headgate.runtime.compaction import CompactionRunner
from headgate.runtime.compaction_share import LEAST_SHARE
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.gauges import counter, gauge
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_shards import local_runtimes, open_topic
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.slices import SliceRunner
from headgate.server.backlog import Backlog
from headgate.server.coordinator import Coordinator
from headgate.server.descriptors import most_open_logs
from headgate.server.erasure import OffsetErasure
from headgate.server.event_log import EventLog
from headgate.server.expiry_gauges import expiry_gauges
from headgate.server.group_gauges import GroupGauges
from headgate.server.group_surroundings import GroupSurroundings
from headgate.server.identity import check_identity, cluster_id, random_id
from headgate.server.lag_gauges import LagGauges
from headgate.server.log_gauges import log_gauges
from headgate.server.pause_gauges import pause_gauges
from headgate.server.request_work import RequestWork
from headgate.server.share_state import ShareStates
from headgate.server.shares.delivery import ShareDelivery
from headgate.server.shares.group_gauges import share_group_gauges
from headgate.server.topic_log import log_changes_of
from headgate.server.transaction_gauges import coordinator_gauges, hanging_gauge, transaction_gauges
from headgate.server.transactions import MarkerWriter
from headgate.shards.groups import group_shards
from headgate.shards.share_state import share_state_shards
from headgate.shards.transactions import transaction_shards
from headgate.topics.appends import Appends
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])

REMOVE_EVERY_MS = 20
"""Pause between slices of removing files of deleted topics, in ms."""
RETRY_MS = 10_000
TIDY_EVERY_MS = 50
"""Pause between slices of tidying the catalogue, in ms."""
TRY_DISK_MS = 1000
MOST_TRY_DISK_MS = 30_000
"""Shortest and longest pause between tries of logs that could not be written, in ms: it doubles while they
fail, because a try may read much of a log.
"""
MOST_NAMED = 3
"""Failing logs that /readyz names."""


class BrokerNode:
    """One node on one data directory."""

    def __init__(self, files: FileSystem, data_dir: Path, settings: Settings, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self.settings = settings
        self.node_id: int = settings["node.id"]
        self.advertised_host = ""
        self.advertised_port = 0
        self.watch = LoopWatch()
        """Measures what blocks the event loop, and for how long."""
        self.request_work = RequestWork(self.watch)
        self.backlog = Backlog(self._loop)
        self.observe_sync: Callable[[float], None] = lambda seconds: None
        self.send_responses: Callable[[], None] = lambda: None
        """Sends at once the responses that would be sent at the end of the loop iteration."""
        self.topics = Topics.open(
            files, data_dir, settings, clock.system_time(), partial(check_identity, files, data_dir)
        )
        self.cluster_id = cluster_id(files, self.topics, clock.system_time())
        self.durability = GroupCommit(self._loop, lambda seconds: self.observe_sync(seconds))
        self._batch_checks = AsideThread(self._loop, "headgate-batch-check")
        self.topics.use_thread(self._batch_checks)
        self.topics.limit_open_logs(most_open_logs())
        self.appends = Appends(self._batch_checks)
        self.appends.on_failed = partial(unexpected, Where.REQUEST)
        self._coordinators: list[Coordinator[Any]] = []
        self._events = EventLog(clock.steady_time)
        self._surroundings = GroupSurroundings(self.topics, self._events.take)
        self._groups = group_shards(
            settings, lambda: self._surroundings.new_shard(self.steady_time()), self._surroundings.commands
        )
        self.coordinator = Coordinator(self._groups, [])
        self._share_states = ShareStates(self.topics, self.call_later)
        self._share_state_kind = share_state_shards(settings, self._share_states.commands)
        self.share_state = Coordinator(self._share_state_kind, [])
        self.shares = ShareDelivery(self)
        self._transaction_kind = transaction_shards(settings, self._events.take)
        self.transactions = Coordinator(self._transaction_kind, [])
        self._markers = MarkerWriter(self, self.transactions, self.request_work)
        self._checkpoints = CheckpointRunner([], settings)
        self.router: Router = Here(self)
        self.history = OffsetHistory(self.topics, clock, self.watch)
        self._compaction = CompactionRunner(self.topics, clock, self.history.rules_of, self.watch)
        self.housekeeping = Housekeeping(self.topics)
        self._group_gauges = GroupGauges()
        self._lags = LagGauges(self.topics, settings, self._open_soon)
        self._is_started = False
        self._slices = SliceRunner("housekeeping", lambda: LEAST_SHARE, self.watch)
        self._disk_slices = SliceRunner("failing-logs", watch=self.watch)
        self._looking_after: asyncio.Task[None] | None = None
        self._trying_disk: asyncio.Task[None] | None = None
        self._is_removing = False
        """Whether the next files of deleted topics are due to be removed."""
        self._compaction.on_failed = self._look_at_log

    async def start(self) -> None:
        """Load the coordinators from their logs, and start the periodic work on topics."""
        self.coordinator = await self._open(self._groups)
        self.share_state = await self._open(self._share_state_kind)
        self.transactions = await self._open(self._transaction_kind)
        self.router = Here(self)
        self._checkpoints = CheckpointRunner(
            [runtime for one in self._coordinators for runtime in one.runtimes], self.settings
        )
        self._checkpoints.start()
        self.history.open(open_topic(self._groups, self.topics, self.system_time()))
        self._surroundings.keep_telling(self.coordinator)
        self._share_states.start(self.share_state)
        for shard in self.share_state.shards():
            self.shares.resume(shard.states)
        self._markers = MarkerWriter(self, self.transactions, self.request_work)
        await self._markers.start()
        OffsetErasure(self.topics, self.coordinator, self.call_later).start()
        self.topics.on_deleted.append(lambda topic: self._remove_deleted())
        self._remove_deleted()
        self._looking_after = self._loop.create_task(self._look_after_topics())
        self.topics.call_when_failing(self._disk_fails)
        if self.settings["log.cleaner.enable"]:
            self._compaction.start()
        log_changes_of(self.topics)
        self._is_started = True

    async def _open(self, kind: ShardKind[ShardT]) -> Coordinator[ShardT]:
        """Load the shards of a kind from their logs. Raises OSError when its topic cannot be created."""
        topic = open_topic(kind, self.topics, self.system_time())
        runtimes = local_runtimes(kind, topic, self.durability, self._clock, self.watch)
        for runtime in runtimes:
            runtime.on_released = lambda: self.send_responses()
        coordinator = Coordinator(kind, runtimes)
        self._coordinators.append(coordinator)
        await coordinator.load()
        return coordinator

    def _look_at_log(self, partition: Partition) -> None:
        for coordinator in self._coordinators:
            coordinator.look_at_log(partition)

    def close(self) -> None:
        """Write and sync what is left, and mark the stop as clean, so that the next start skips recovery."""
        self.topics.call_when_failing(lambda: None)
        for task in (self._looking_after, self._trying_disk):
            if task is not None:
                task.cancel()
        self._markers.close()
        self.request_work.close()
        self._batch_checks.close()
        self._slices.close()
        self._disk_slices.close()
        self._compaction.close()
        self.history.close()
        for coordinator in self._coordinators:
            coordinator.close()
        self._checkpoints.stop()
        self.durability.close()
        self._checkpoints.write_at_stop()
        self.topics.close(self.system_time())

    def system_time(self) -> Millis:
        """Return the system clock's time in milliseconds since the epoch, for timestamps."""
        return self._clock.system_time()

    def steady_time(self) -> Millis:
        """Return the monotonic clock's time in milliseconds, for deadlines."""
        return self._clock.steady_time()

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Run `action` after `delay_ms`. Return a function that cancels it."""
        return self._loop.call_later(delay_ms / 1000, action).cancel

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` in a later iteration of the loop, after the work queued before it."""
        self.backlog.add(action)

    def run_in_background(self, name: str, steps: RequestSteps[Any]) -> None:
        """Run steps that no request waits for, in slices; `name` is logged if they fail."""
        failed = partial(unexpected, Where.HOUSEKEEPING, f"{name} failed")
        self.request_work.run(steps, Job(name), lambda done: None, failed)

    def new_member_id(self, client_id: str | None) -> str:
        """Return a new id for a member of a classic group, in Kafka's format."""
        return f"{client_id or ''}-{uuid.uuid4()}"

    def new_consumer_member_id(self) -> str:
        """Return a new id for a member of a consumer group, in Kafka's format."""
        return random_id()

    def gauges(self) -> Iterator[Metric | None]:
        """Yield the gauges of this node for the metrics, and None where a slice may end."""
        shards = self.coordinator.shards()
        yield from self._group_gauges.gauges(shards, self.steady_time())
        yield gauge(
            "headgate_offsets", "Committed offsets held.", [((), sum(shard.offset_count for shard in shards))]
        )
        commits: Counter[tuple[str, str]] = Counter()
        for shard in shards:
            commits.update(shard.commit_counts.by_way())
        yield counter(
            "headgate_offset_commits",
            "Commits of offsets, by how they are recorded and whether their shape was known.",
            sorted(commits.items()),
            ("way", "shape"),
        )
        yield from self._events.gauges()
        yield from expiry_gauges(shards, self.system_time())
        yield from pause_gauges([shard.paused for shard in shards], self.system_time())
        yield from self.shares.gauges()
        yield from share_group_gauges(shards)
        yield from self._transaction_gauges()
        yield from log_gauges(
            self.topics.all(), self._failing_shards(), self.settings["headgate.metrics.topics"]
        )
        yield from self._checkpoints.gauges()
        yield from self._lags.gauges(shards, self.steady_time())

    def _transaction_gauges(self) -> Iterator[Metric | None]:
        shards = self.transactions.shards()
        if len(shards) == self.transactions.shard_count:
            yield from coordinator_gauges(shards, self._markers.ended)
            yield from hanging_gauge(self.topics.in_transaction, shards)
        yield from transaction_gauges(self.topics.in_transaction, self.system_time())

    def not_ready(self) -> Iterator[str]:
        """Yield why this node cannot serve every request now."""
        if not self._is_started:
            yield "the node is starting"
        for coordinator in self._coordinators:
            loading = sum(not runtime.is_active for runtime in coordinator.runtimes)
            if loading:
                name = coordinator.runtimes[0].log.name.rpartition("-")[0]
                yield f"{loading} of {len(coordinator.runtimes)} partitions of {name} are not loaded"
        failing = {
            str(partition)
            for topic in self.topics.all()
            for partition in topic.used_partitions()
            if partition.is_failing
        }
        failing |= self._failing_shards()
        if failing:
            some = _some(sorted(failing))
            yield f"a disk error keeps {some} from being written or read; the log tells the cause"

    def _failing_shards(self) -> set[str]:
        """Return the logs of coordinators that cannot be read or written, named like partitions."""
        return {
            Path(runtime.log.name).name
            for coordinator in self._coordinators
            for runtime in coordinator.runtimes
            if runtime.is_failing
        }

    def _open_soon(self, partitions: list[Partition]) -> None:
        """Open logs in a thread, one after another."""
        if partitions:
            self.request_work.run(
                _open_each(partitions), Job("opening of logs"), lambda done: None, _on_opening_failed
            )

    def _remove_deleted(self) -> None:
        """Remove the files of deleted topics, some at a time, unless that is under way."""
        if not self._is_removing:
            self._is_removing = True
            self._remove_some()

    def _remove_some(self) -> None:
        pause_ms = REMOVE_EVERY_MS
        try:
            with self.watch.step("deletion"):
                self._is_removing = self.topics.remove_deleted()
        except Exception as failure:
            unexpected(Where.HOUSEKEEPING, "files of deleted topics cannot be removed", failure)
            pause_ms = RETRY_MS
        if self._is_removing:
            self.call_later(pause_ms, self._remove_some)

    async def _look_after_topics(self) -> None:
        while True:
            try:
                slices = self._slices
                await slices.run(self.housekeeping.round(self.system_time(), slices.is_slice_over))
                await slices.run(self.history.mark_emptied())
            except OSError as failure:
                logger.error("retention failed", extra={"error": str(failure)})
            except Exception as failure:  # the next round may succeed
                unexpected(Where.HOUSEKEEPING, "retention failed", failure)
            self._remove_deleted()  # an error has ended it perhaps
            self._tidy_catalogue()
            await asyncio.sleep(self.settings["log.retention.check.interval.ms"] / 1000)

    def _disk_fails(self) -> None:
        if self._trying_disk is None or self._trying_disk.done():
            self._trying_disk = self._loop.create_task(self._try_disk())

    async def _try_disk(self) -> None:
        """Try failing logs until all work."""
        pause_ms = TRY_DISK_MS
        slices = self._disk_slices
        while self.topics.failing:
            await asyncio.sleep(pause_ms / 1000)
            try:
                results = await slices.run(self.housekeeping.try_failing(slices.is_slice_over))
            except Exception as failure:
                unexpected(Where.HOUSEKEEPING, "failing logs cannot be tried again", failure)
                results = [False]
            still_fails = bool(results) and not any(results)
            pause_ms = min(2 * pause_ms, MOST_TRY_DISK_MS) if still_fails else TRY_DISK_MS

    def _tidy_catalogue(self) -> None:
        try:
            with self.watch.step("catalogue"):
                has_more = self.topics.tidy_catalogue(self.system_time())
            if has_more:
                self.call_later(TIDY_EVERY_MS, self._tidy_catalogue)
        except OSError as failure:
            logger.error("the catalogue cannot be tidied up", extra={"error": str(failure)})
        except Exception as failure:
            unexpected(Where.HOUSEKEEPING, "the catalogue cannot be tidied up", failure)


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more logs" if rest > 0 else "")


def _open_each(partitions: list[Partition]) -> RequestSteps[None]:
    """Open the logs that are not open yet. A log that cannot be opened reports it to its next user."""
    for partition in partitions:
        yield from opened_aside(partition)
        with suppress(OSError, CorruptBatch):
            partition.high_watermark  # noqa: B018  the first use takes what the thread has read
        yield None


def _on_opening_failed(failure: Exception) -> None:
    unexpected(Where.METRICS, "logs cannot be opened for their ends", failure)
