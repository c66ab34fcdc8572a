"""Loads the shard of one log, at the start and after a failure. Recovery reuses the start-up path.

The log is claimed first, so that the shard is loaded only from data that cannot be lost. Then its checkpoint
is applied, if it is usable, and the rest of the log. The loop runs other work between slices.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from headgate.core.contract import Shard
from headgate.log.batch import CorruptBatch
from headgate.log.damage import LogDamaged
from headgate.records.errors import MalformedRecord
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.shard_kind import RecordFormat
from headgate.runtime.shard_loading import CheckpointLoading, CheckpointUnusable, LogLoading
from headgate.runtime.state_log import StateLog

logger = logging.getLogger(__name__)

LOAD_SLICE_SECONDS = 0.005
LOADING = Job("shard loading")

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class ShardStart(Generic[ShardT]):
    """One load of a shard. Its attributes hold the result after `run`."""

    def __init__(
        self,
        shard: ShardT,
        new_shard: Callable[[], ShardT],
        records: RecordFormat,
        log: StateLog,
        watch: LoopWatch,
        check: Callable[[ShardT], Iterator[None]],
    ) -> None:
        """`shard` is empty. `new_shard` makes another one if a checkpoint is not usable. `check` looks at
        what was loaded, in steps.
        """
        self._check = check
        self.shard = shard
        self.position = 0
        """End of the log."""
        self.checkpoint_position = 0
        """Offset at which reading of the log began; 0 without a checkpoint."""
        self.torn: list[Any] = []
        """Records of an incomplete commit at the end of the log, cut short by a crash."""
        self._new_shard = new_shard
        self._records = records
        self._log = log
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._slice_end = 0.0
        """Loop time at which the current slice ends."""

    async def run(self) -> None:
        """Claim the log, apply checkpoint and log. Raises OSError, and LogDamaged for unreadable data."""
        self.position = await self._log.claim()
        if not self.position:
            return
        self._slice_end = self._loop.time() + LOAD_SLICE_SECONDS
        try:
            await self._restore_checkpoint()
            await self._apply_log()
            await self._take_turns(self._check(self.shard))
        except (CorruptBatch, MalformedRecord) as problem:
            raise LogDamaged(
                errno.EIO, f"{problem}; `headgate log verify` tells more", self._log.name
            ) from problem

    async def _restore_checkpoint(self) -> None:
        """Restore the shard from its checkpoint, if there is a usable one."""
        loading = CheckpointLoading(self.shard, self._log.checkpoints)
        try:
            await self._take_turns(loading.steps())
        except CheckpointUnusable as reason:
            logger.warning(
                "a checkpoint cannot be used, the whole log is read",
                extra={"log": self._log.name, "reason": str(reason)},
            )
            self.shard = self._new_shard()
        self.checkpoint_position = loading.position or 0

    async def _apply_log(self) -> None:
        loading = LogLoading(self.shard, self._records)
        async with aclosing(self._log.read(self.checkpoint_position, self.position)) as slices:
            async for batches in slices:
                await self._take_turns(loading.steps(batches))
        self.torn = loading.torn()

    async def _take_turns(self, steps: Iterator[None]) -> None:
        """Run the steps in slices, with other work of the loop between them."""
        while True:
            outer = self._watch.begin(LOADING)
            try:
                for _ in steps:
                    if self._loop.time() > self._slice_end:
                        break
                else:
                    return
            finally:
                self._watch.end(outer)
            await asyncio.sleep(0)
            self._slice_end = self._loop.time() + LOAD_SLICE_SECONDS
