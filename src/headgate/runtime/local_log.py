"""The state log in a partition of this node: a `headgate.runtime.state_log.StateLog` over local segments.

It has no other writer: `claim` recovers the log after a crash and makes its contents durable. In a topic that
relies on the page cache, written data counts as durable.
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
from headgate.topics.partition_log import TRIED_BYTES

RECOVERY: Final = Job("shard recovery")
LARGEST_BATCH_BYTES: Final = 64 << 20
"""Clients have no influence on the topic's setting, and cannot make the records of a group smaller."""


class LocalLog:
    """The log of one partition, for the runtime of one shard."""

    def __init__(
        self, partition: Partition, group_commit: GroupCommit, watch: LoopWatch | None = None
    ) -> None:
        """`watch` measures recoveries."""
        self.name = str(partition.topic.directory_of(partition.index))
        self.partition = partition
        self.seconds: Callable[[], float] = perf_counter
        """Monotonic clock, in seconds."""
        self.on_durable: Callable[[int], None] = lambda position: None
        self.on_others: Callable[[Batches], None] = lambda batches: None
        self.on_lost: Callable[[Lost, Exception | None], None] = lambda lost, failure: None
        self.checkpoints = CheckpointStore(partition, group_commit)
        self.compacts_itself = False
        self._group_commit = group_commit
        self._watch = watch or LoopWatch()
        self._claims = 0
        """Number of claims; outcomes of syncs from before the last claim are ignored."""
        self._end = 0
        """Offset of the next batch."""
        self._syncs_awaited = 0
        """Number of requested syncs that have not ended."""
        self._sync_seconds = 0.0
        """Duration of the last sync."""

    @property
    def max_batch_bytes(self) -> int:
        """`max.message.bytes` of the topic, but at least what the largest record of a coordinator needs."""
        return max(self.partition.topic.policy.max_message_bytes, LARGEST_BATCH_BYTES)

    @property
    def durable_position(self) -> int:
        """Offset below which the log is durable, or written if that is sufficient."""
        return self.partition.log.durable_offset if self._is_durable else self._end

    @property
    def _is_durable(self) -> bool:
        return self.partition.topic.policy.is_durable

    @property
    def log(self) -> Log | None:
        """The log, or None if nothing was ever written. Raises OSError when it cannot be opened."""
        topic, index = self.partition.topic, self.partition.index
        return self.partition.log if topic.is_written(index) else None

    # --- claim, read, release ---

    async def claim(self) -> int:
        """Recover the log if it failed, and make its contents durable. Return its end. Raises OSError."""
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
        # After a start and after `Log.recover` there is nothing to sync.
        if log.needs_sync and self._is_durable and not await self.checkpoints.sync():
            raise OSError(errno.EIO, "the log could not be synced", str(log.directory))
        self._end = log.log_end_offset
        return self._end

    def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """Return the validated batches of the log; see `StateLog`."""
        log = self.partition.log
        return in_slices(checked_batches(log.batches(max(start, log.log_start_offset), end)))

    def release(self) -> None:
        """Do nothing: the group commit is closed next, and makes the appended batches durable."""

    # --- appending ---

    def append(self, batches: Sequence[bytearray]) -> int:
        """Write batches; sync at the end of this loop iteration. Raises OSError, CorruptBatch."""
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
            asked_at = None if self._syncs_awaited else self.seconds()  # None: another sync is first
            self._syncs_awaited += 1
            self._group_commit.when_durable(
                partition.log, lambda is_durable: self._on_sync(claim, is_durable, asked_at)
            )
        else:
            partition.advance()
        return end

    def _doubt(self, fault: Exception) -> None:
        """Mark the log for recovery: its contents are uncertain."""
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

    def try_append(self) -> None:
        """Raise OSError if there is no space for an append. A log that failed meanwhile is reported, too."""
        log = self.partition.log
        if log.failure is not None:
            self.on_lost(Lost.FAILED, log.failure)
        log.try_space(TRIED_BYTES)

    def is_ready(self, within_seconds: float) -> bool:
        """Return whether no sync is awaited and the last one took less than `within_seconds`."""
        return self._is_durable and not self._syncs_awaited and self._sync_seconds < within_seconds

    def flush(self) -> None:
        """Begin the requested sync now."""
        self._group_commit.begin(self.partition.log)

    def look(self) -> None:
        """Report a failure of the log to the shard now, after other users of the log made it fail.

        Until the next write all answers of the shard are still correct, but that write would fail.
        """
        failure = self.partition.log.failure
        if failure is not None:
            self.on_lost(Lost.FAILED, failure)
