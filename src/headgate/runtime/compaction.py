"""Runs compactions beside the server's other work, in slices (`headgate.runtime.slices`).

One compaction runs at a time. A separate thread does the blocking work: reading ahead, writing and syncing
copies, packing large batches. While requests keep the loop busy, they get nine tenths of it, or less under
pressure (`headgate.runtime.compaction_share`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from headgate.log.compaction import CompactionCancelled
from headgate.log.header import CorruptBatch
from headgate.runtime.clock import Clock
from headgate.runtime.compaction_share import LEAST_SHARE, share_under
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.loop_watch import LoopWatch
from headgate.runtime.slices import SliceRunner
from headgate.topics.compactor import CompactionJob, CompactionRules, Compactor
from headgate.topics.partition import Partition
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 0.05
"""Interval at which the pressure is computed."""


class CompactionRunner:
    """Compacts logs that are due, until the node stops."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        rules_of: Callable[[Partition], CompactionRules],
        watch: LoopWatch | None = None,
    ) -> None:
        self._clock = clock
        self._settings = topics.settings
        self._compactor = Compactor(topics, rules_of)
        self._slices = SliceRunner("compaction", self._busy_share, watch)
        self._share = LEAST_SHARE
        self._looked_at_seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self.on_failed: Callable[[Partition], None] = lambda partition: None
        """Called with a partition whose compaction failed: its log may have failed, too."""

    def start(self) -> None:
        """Start to look for logs that are due."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Stop, also during a compaction, which then has no effect."""
        if self._task is not None:
            self._task.cancel()
        self._slices.close()

    def _busy_share(self) -> float:
        now_seconds = self._slices.seconds()
        if now_seconds - self._looked_at_seconds > _LOOK_EVERY_SECONDS:
            self._looked_at_seconds = now_seconds
            self._share = share_under(self._compactor.pressure(self._clock.system_time()))
        return self._share

    async def _run(self) -> None:
        while True:
            try:
                now = self._clock.system_time()
                job = await self._slices.run(self._compactor.next_job(now, self._slices.is_slice_over))
                if job is None:
                    await asyncio.sleep(self._settings["log.cleaner.backoff.ms"] / 1000)
                else:
                    await self._compact(job)
            except Exception as failure:
                unexpected(Where.COMPACTION, "the search for something to compact failed", failure)
                await asyncio.sleep(RETRY_SECONDS)

    async def _compact(self, job: CompactionJob) -> None:
        started = time.perf_counter()
        try:
            result = await self._slices.run(job.steps)
        except CompactionCancelled as reason:
            logger.info("compaction was cancelled", extra={"reason": str(reason)})
            await asyncio.sleep(self._settings["log.cleaner.backoff.ms"] / 1000)
            return
        except (OSError, CorruptBatch) as failure:
            logger.error("compaction failed", extra={"partition": str(job.partition), "error": str(failure)})
            self._failed(job.partition)
            return
        except Exception as failure:  # a failure of one log must not end the compaction of the others
            unexpected(Where.COMPACTION, "compaction failed", failure, partition=str(job.partition))
            self._failed(job.partition)
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

    def _failed(self, partition: Partition) -> None:
        self._compactor.failed(partition)
        self.on_failed(partition)
