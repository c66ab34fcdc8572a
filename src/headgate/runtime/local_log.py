"""The state log in a partition of this node: a `headgate.runtime.state_log.StateLog` over local segments.

Its only other writer is a crash: `claim` recovers the log and makes durable what it holds. In a topic that
trusts the page cache what is written counts as durable.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable, Sequence
from time import perf_counter
from typing import Final

from headgate.log.batch import CorruptBatch
from headgate.log.log import Log
from headgate.log.walking import checked_batches
from headgate.runtime.checkpoint_store import CheckpointStore
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.log_slices import in_slices
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.state_log import Batches, Lost
from headgate.topics.partition import Partition

RECOVERY: Final = Job("shard recovery")


class LocalLog:
    """The log of one partition, for the runtime of one shard."""

    def __init__(
        self, partition: Partition, group_commit: GroupCommit, watch: LoopWatch | None = None
    ) -> None:
        """`watch` is told of recoveries."""
        self.name = str(partition.topic.directory_of(partition.index))
        self.partition = partition
        self.seconds: Callable[[], float] = perf_counter
        """For how long syncs take."""
        self.on_durable: Callable[[int], None] = lambda position: None
        self.on_others: Callable[[Batches], None] = lambda batches: None
        self.on_lost: Callable[[Lost, Exception | None], None] = lambda lost, failure: None
        self.checkpoints = CheckpointStore(partition, group_commit)
        self.compacts_itself = False
        self._group_commit = group_commit
        self._watch = watch or LoopWatch()
        self._claims = 0
        """How often the log was claimed: syncs of an earlier claim count for nothing."""
        self._end = 0
        """Where the next batch goes."""
        self._syncs_awaited = 0
        """How many syncs were asked for that have not ended."""
        self._sync_seconds = 0.0
        """How long the last one took."""

    @property
    def max_batch_bytes(self) -> int:
        """The topic's `max.message.bytes`."""
        return self.partition.topic.policy.max_message_bytes

    @property
    def durable_position(self) -> int:
        """Up to here the log is durable, or written where that is enough."""
        return self.partition.log.durable_offset if self._is_durable else self._end

    @property
    def _is_durable(self) -> bool:
        return self.partition.topic.policy.is_durable

    @property
    def log(self) -> Log | None:
        """The log; None as long as nothing was ever written. Raises OSError where it cannot be opened."""
        topic, index = self.partition.topic, self.partition.index
        return self.partition.log if topic.is_written(index) else None

    # --- from claim to claim ---

    async def claim(self) -> int:
        """Recover the log if it failed, and make durable what it holds. Raises OSError."""
        self._claims += 1
        self._syncs_awaited = 0
        self._sync_seconds = 0.0
        self._end = 0
        log = self.log
        if log is None:
            return 0
        if log.failure is not None:
            outer = self._watch.begin(RECOVERY)
            try:
                log.recover()
            finally:
                self._watch.end(outer)
        # After a start, and after `Log.recover`, nothing is left to sync.
        if log.needs_sync and self._is_durable and not await self.checkpoints.sync():
            raise OSError(errno.EIO, "the log could not be synced", str(log.directory))
        self._end = log.log_end_offset
        return self._end

    def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """The batches of the log, each found whole; see `StateLog`."""
        log = self.partition.log
        return in_slices(checked_batches(log.batches(max(start, log.log_start_offset), end)))

    def release(self) -> None:
        """The group commit is closed next, and makes durable what was appended."""

    # --- appending ---

    def append(self, batches: Sequence[bytearray]) -> int:
        """Write batches, and have the log synced at the end of this turn. Raises OSError, CorruptBatch."""
        partition, first = self.partition, self._end
        try:
            if partition.append_internal(batches) != first:
                raise AssertionError("the shard's log has another end than the shard's writes have")
        except (OSError, CorruptBatch):
            raise
        except Exception as fault:
            self._doubt(fault)
            raise
        self._end = end = partition.log.log_end_offset
        if self._is_durable:
            claim = self._claims
            asked_at = None if self._syncs_awaited else self.seconds()  # it begins at once, or behind another
            self._syncs_awaited += 1
            self._group_commit.when_durable(
                partition.log, lambda is_durable: self._on_sync(claim, is_durable, asked_at)
            )
        else:
            partition.advance()
        return end

    def _doubt(self, fault: Exception) -> None:
        """What the log holds is not sure: let it be recovered."""
        if self.partition.is_open:
            self.partition.log.fail(OSError(errno.EIO, f"a write failed: {fault!r}"))

    def _on_sync(self, claim: int, is_durable: bool, asked_at: float | None) -> None:
        if claim != self._claims:
            return
        self._syncs_awaited -= 1
        if asked_at is not None:
            self._sync_seconds = self.seconds() - asked_at
        log = self.partition.log
        if is_durable:
            self.on_durable(log.durable_offset)
            self.partition.advance()
        else:
            self.on_lost(Lost.FAILED, log.failure)

    def is_ready(self, within_seconds: float) -> bool:
        """Whether no sync is awaited, and the last one took less than this."""
        return self._is_durable and not self._syncs_awaited and self._sync_seconds < within_seconds

    def flush(self) -> None:
        """Begin the sync now that was asked for."""
        self._group_commit.begin(self.partition.log)

    def look(self) -> None:
        """Others work on the log as well: if it failed under their hands, the shard is to know now.

        What it would tell until the next write is true, but that write would be the one to be refused.
        """
        failure = self.partition.log.failure
        if failure is not None:
            self.on_lost(Lost.FAILED, failure)
