"""Brings the shard of one log up: at the start, and after a failure. The way back up is the way up.

What the log held before is made durable first, so that nothing the shard is loaded from can be lost. Then its
checkpoint is applied, if there is one of use, and the log behind it. The loop goes on with other work between
slices of that.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from headgate.core.contract import Shard
from headgate.log.batch import CorruptBatch
from headgate.log.log import Log
from headgate.log.recovery import LogDamaged
from headgate.log.walking import checked_batches
from headgate.records import MalformedRecord
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.shard_loading import CheckpointLoading, CheckpointUnusable, LogLoading
from headgate.topics.partition import Partition

logger = logging.getLogger(__name__)

LOAD_SLICE_SECONDS = 0.005
LOADING = Job("shard loading")

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class ShardStart(Generic[ShardT]):
    """One loading of a shard. When `run` has returned, it tells what there is."""

    def __init__(
        self,
        shard: ShardT,
        new_shard: Callable[[], ShardT],
        partition: Partition,
        group_commit: GroupCommit,
        watch: LoopWatch,
    ) -> None:
        """`shard` is empty; so is what `new_shard` makes, where a checkpoint turns out to be of no use."""
        self.shard = shard
        self.position = 0
        """The log's end."""
        self.checkpoint_position = 0
        """From where on the log had to be read; 0 without a checkpoint."""
        self.torn: list[Any] = []
        """Records at the log's end that belong to a commit which a crash cut short."""
        self._new_shard = new_shard
        self._partition = partition
        self._group_commit = group_commit
        self._watch = watch
        self._loop = asyncio.get_running_loop()

    async def run(self, log: Log) -> None:
        """Apply checkpoint and log. Raises OSError, and LogDamaged for a log that does not read."""
        await self._make_durable(log)
        try:
            await self._apply_log(log, await self._restore_checkpoint())
        except (CorruptBatch, MalformedRecord) as problem:
            raise LogDamaged(
                errno.EIO, f"{problem}; `headgate log verify` tells more", str(log.directory)
            ) from problem

    async def _make_durable(self, log: Log) -> None:
        """Wait for the syncs of the life before.

        After a start, and after `Log.recover`, nothing is left to sync. Raises OSError.
        """
        if not log.needs_sync or not self._partition.topic.policy.is_durable:
            return
        durable: asyncio.Future[bool] = self._loop.create_future()
        self._group_commit.when_durable(
            log, lambda is_durable: None if durable.done() else durable.set_result(is_durable)
        )
        if not await durable:
            raise OSError(errno.EIO, "the log could not be synced", str(log.directory))

    async def _restore_checkpoint(self) -> int | None:
        """Take the shard to where its checkpoint stands; None without one that can be used."""
        loading = CheckpointLoading(self.shard, self._partition)
        try:
            await self._take_turns(loading.steps())
        except CheckpointUnusable as reason:
            logger.warning(
                "a checkpoint cannot be used, the whole log is read",
                extra={"partition": str(self._partition), "reason": str(reason)},
            )
            self.shard = self._new_shard()
        self.checkpoint_position = loading.position or 0
        return loading.position

    async def _apply_log(self, log: Log, from_offset: int | None) -> None:
        loading = LogLoading(self.shard)
        await self._take_turns(
            loading.steps(
                checked_batches(log.batches(log.log_start_offset if from_offset is None else from_offset))
            )
        )
        self.position = log.log_end_offset
        self.torn = loading.torn()

    async def _take_turns(self, steps: Iterator[None]) -> None:
        """Go through the steps, and let others have their turn now and then."""
        while True:
            outer = self._watch.begin(LOADING)
            try:
                slice_end = self._loop.time() + LOAD_SLICE_SECONDS
                for _ in steps:
                    if self._loop.time() > slice_end:
                        break
                else:
                    return
            finally:
                self._watch.end(outer)
            await asyncio.sleep(0)
