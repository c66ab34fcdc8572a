"""Applies a plan's sizes to the server, and observes the server while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tests.simulation.journal import Journal
from tests.simulation.plan import Plan

from headgate.core.offsets import removal
from headgate.history import offset_history, scan, writer
from headgate.log import durability
from headgate.log.memory_filesystem import PowerCut
from headgate.runtime import checkpoints, record_batches, shard_runtime, shard_start
from headgate.runtime.compaction import CompactionRunner
from headgate.runtime.slices import SliceRunner
from headgate.server.request_work import RequestWork
from headgate.topics import topic


@contextmanager
def fitted(
    plan: Plan, random: Random, journal: Journal, on_failed_compaction: Callable[[int], None]
) -> Iterator[None]:
    """Apply the plan's small sizes, and check that the server's log has no unexpected entries."""
    handler = _Listener(journal)
    logger = logging.getLogger("headgate")
    sizes: list[tuple[Any, str, Any]] = [
        (record_batches, "BATCH_BYTES", plan.batch_bytes),
        (removal, "SLICE_BYTES", plan.slice_bytes),
        (shard_start, "LOAD_SLICE_SECONDS", plan.load_slice_seconds),
        (shard_runtime, "EARLY_RECORDS", 25),
        (durability, "SYNC_MARK_EVERY_BYTES", plan.sync_mark_bytes),
        (topic, "ROOM_AFTER_BYTES", plan.room_after_bytes),
        (offset_history, "SEGMENT_BYTES", plan.segment_bytes),
        (scan, "SLICE_SECONDS", 1e9),
        (writer, "BATCH_BYTES", min(plan.batch_bytes, writer.BATCH_BYTES)),
        (writer, "FLUSH_BYTES", min(plan.slice_bytes, writer.FLUSH_BYTES)),
        (SliceRunner, "is_slice_over", lambda runner: random.random() < 0.2),
        (SliceRunner, "processor_seconds", lambda runner: 0.0),
        (RequestWork, "seconds", lambda work: random.random()),
        (CompactionRunner, "_compact", _counting_compactions(journal, on_failed_compaction)),
        (checkpoints, "FEWEST_AT_STOP", plan.checkpoint_records),
        (checkpoints, "RETRY_AFTER_SECONDS", -1.0),
        (checkpoints, "_tell_written", lambda *given: journal.counts.update(["checkpoints"])),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in sizes]
    level, propagates = logger.level, logger.propagate
    for module, name, value in sizes:
        setattr(module, name, value)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        for module, name, old in before:
            setattr(module, name, old)
        logger.setLevel(level)
        logger.propagate = propagates
        logger.removeHandler(handler)


def _counting_compactions(journal: Journal, on_failed: Callable[[int], None]) -> Any:
    compact = CompactionRunner._compact

    async def counting(runner: CompactionRunner, job: Any) -> None:
        journal.counts["compactions begun"] += 1
        before = job.partition.log.compacted_to
        await compact(runner, job)
        journal.counts["compactions"] += job.partition.log.compacted_to > before
        if job.partition.log.failure is not None:
            on_failed(job.partition.index)

    return counting


class _Listener(logging.Handler):
    """Reports entries of the server's log with a traceback, all of which are unexpected."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and not isinstance(record.exc_info[1], PowerCut):
            self._journal.report(f"{record.getMessage()}: {record.exc_info[1]!r}")
