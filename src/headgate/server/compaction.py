"""Drives compactions beside the server's other work: a slice on the loop, a pause, the disk in a thread.

One compaction runs at a time. It takes the loop for a few milliseconds and leaves it for as long; whatever
blocks, reading ahead, writing and syncing copies, packing large batches, happens in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.log.compaction import CompactionCancelled, CompactionResult, Steps
from headgate.log.header import CorruptBatch
from headgate.records.run_completeness import RunCompleteness
from headgate.server.clock import Clock
from headgate.topics.compactor import NO_RULES, CompactionJob, CompactionRules, Compactor
from headgate.topics.partition import Partition
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

SLICE_SECONDS = 0.002
PAUSE_SECONDS = 0.002


class CompactionRunner:
    """Compacts what is due, as long as the node runs."""

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self._clock = clock
        self._backoff_seconds = topics.settings["log.cleaner.backoff.ms"] / 1000
        self._compactor = Compactor(topics, _rules_of)
        self._executor = ThreadPoolExecutor(1, "headgate-compaction")
        self._steps: Steps[CompactionResult] | None = None
        self._slice_end = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for something to compact."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Stop, in the midst of a compaction if there is one: what it began is as if it had not."""
        if self._task is not None:
            self._task.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._steps is not None:
            self._steps.close()

    def _is_slice_over(self) -> bool:
        return time.perf_counter() > self._slice_end

    async def _run(self) -> None:
        while True:
            job = self._compactor.next_job(self._clock.now(), self._is_slice_over)
            if job is None:
                await asyncio.sleep(self._backoff_seconds)
            else:
                await self._compact(job)

    async def _compact(self, job: CompactionJob) -> None:
        started = time.perf_counter()
        try:
            result = await self._drive(job.steps)
        except CompactionCancelled as reason:
            logger.info("compaction was cancelled", extra={"reason": str(reason)})
            await asyncio.sleep(self._backoff_seconds)
            return
        except (OSError, CorruptBatch) as failure:
            logger.error("compaction failed", extra={"partition": str(job.partition), "error": str(failure)})
            self._compactor.failed(job.partition, self._clock.now())
            return
        except Exception:  # nothing that goes wrong with one log may end the compaction of all
            logger.exception("compaction failed", extra={"partition": str(job.partition)})
            self._compactor.failed(job.partition, self._clock.now())
            return
        logger.info(
            "compacted",
            extra={
                "partition": str(job.partition),
                "compacted_to": result.end_offset,
                "records_dropped": result.records_dropped,
                "bytes_before": result.bytes_before,
                "bytes_after": result.bytes_after,
                "seconds": round(time.perf_counter() - started, 3),
            },
        )

    async def _drive(self, steps: Steps[CompactionResult]) -> CompactionResult:
        loop = asyncio.get_running_loop()
        self._steps = steps
        try:
            while True:
                self._slice_end = time.perf_counter() + SLICE_SECONDS
                work = next(steps)
                if work is None:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                try:
                    await loop.run_in_executor(self._executor, work)
                except Exception as problem:
                    steps.throw(problem)
        except StopIteration as stop:
            result: CompactionResult = stop.value
            return result
        finally:
            self._steps = None
            steps.close()


def _rules_of(partition: Partition) -> CompactionRules:
    return _GROUP_OFFSETS_RULES if partition.topic.name == GROUP_OFFSETS_TOPIC else NO_RULES


_GROUP_OFFSETS_RULES = CompactionRules(new_completeness=RunCompleteness)
