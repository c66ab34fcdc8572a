"""Load a partition of the coordinator's log into the coordinator's state machine, by its own loader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from headgate.core.commands import SystemTimeMoved
from headgate.core.contract import Shard
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, Millis
from headgate.domain.settings import Settings
from headgate.fleet.watching import TOLERANT_RECORDS, WatchedShard
from headgate.log.batch import BatchHeader
from headgate.log.batch_scan import CorruptLog, Scan
from headgate.log.header import CorruptBatch, read_header
from headgate.runtime.shard_loading import LogLoading
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.options import Options
from headgate.spark.plan import Task
from headgate.spark.source import plan

ATTEMPTS = 5
"""Maximum number of reads of a partition that compaction rewrites during the read."""
_ONE_TASK_BYTES = 1 << 62


def replay(options: Options, partition: int, settings: Settings, now: Millis) -> WatchedShard:
    """Read the log of a partition and return its state at system time `now`.

    Raises CompactedWhileRead, CorruptLog, MissingData, ClientError, OSError.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _replay(options, partition, settings, now)
        except CompactedWhileRead:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError


def _replay(options: Options, partition: int, settings: Settings, now: Millis) -> WatchedShard:
    shard = GroupShard(settings)
    watched = WatchedShard(shard)
    # A loader calls nothing of a shard but what `WatchedShard` has.
    loading = LogLoading(cast(Shard[Any, Any], watched), TOLERANT_RECORDS)
    topics = replace(options.topics, names=(), partitions={GROUP_OFFSETS_TOPIC: (partition,)})
    whole = replace(options, topics=topics, min_partitions=1, max_bytes_per_task=_ONE_TASK_BYTES)
    for task in plan(whole):
        for batches in _batches(task):
            try:
                for _ in loading.steps(batches):
                    pass
            except CorruptBatch as problem:
                raise CorruptLog(f"{GROUP_OFFSETS_TOPIC}-{partition}: {problem}") from problem
    shard.handle(SystemTimeMoved(0), now)
    shard.loaded(now)
    return watched


def _batches(task: Task) -> Iterator[list[tuple[BatchHeader, bytes]]]:
    """Yield the checked batches of a task, as many at a time as were read. Raises CorruptLog."""
    for where, scan in task.scans():
        if found := [corruption for corruption in scan.corruptions if not corruption.is_tail]:
            raise CorruptLog(f"{where}: {found[0]}")
        yield _batches_of(scan)


def _batches_of(scan: Scan) -> list[tuple[BatchHeader, bytes]]:
    view = memoryview(scan.chunk.data)
    places = zip(scan.batches.at.tolist(), scan.batches.size.tolist(), strict=True)
    return [(read_header(view, at), bytes(view[at : at + size])) for at, size in places]
