"""Storage of the checkpoints of one shard: a file beside its local log (`log/state_file.py`)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from headgate.log.log import Log
from headgate.log.state_file import (
    Bond,
    StateFile,
    StateFileUnusable,
    StateFileWriter,
    bind,
    open_state_file,
    why_not,
)
from headgate.runtime.group_commit import GroupCommit
from headgate.topics.partition import Partition


class CheckpointStore:
    """The checkpoints of the shard in one partition."""

    def __init__(self, partition: Partition, group_commit: GroupCommit) -> None:
        self._partition = partition
        self._group_commit = group_commit
        self.log_start_offset = 0
        """Log start offset of the last checkpoint: it is of no use after the log start has moved."""

    @property
    def _log(self) -> Log:
        return self._partition.log

    def open(self) -> StateFile | None:
        """Open the last checkpoint; None without one. Raises StateFileUnusable, OSError, CorruptBatch."""
        log = self._log
        file = open_state_file(log.files, log.directory)
        if file is None:
            return None
        try:
            reason = why_not(file.bond, log, self._partition.topic.topic_id, self._partition.index)
            if reason is not None:
                raise StateFileUnusable(reason)
        except BaseException:
            file.close()
            raise
        self.log_start_offset = file.bond.log_start_offset
        return file

    def new_file(self) -> StateFileWriter:
        """Return the writer of the next checkpoint."""
        return StateFileWriter(self._log.files, self._log.directory)

    def bond(self, position: int) -> Bond:
        """Return the bond of a checkpoint of everything below `position` to the log as it is durable now.

        Raises StateFileUnusable, OSError, CorruptBatch.
        """
        log = self._log
        return bind(log, self._partition.topic.topic_id, self._partition.index, position, log.durable_offset)

    def records_after(self, position: int) -> int:
        """Return how many records a start reads after a checkpoint at `position`; 0 while the log fails."""
        if not self._partition.topic.is_written(self._partition.index):
            return 0
        log = self._log
        if log.failure is not None:
            return 0
        start = log.log_start_offset
        is_of_use = log.compacted_to <= position and start == self.log_start_offset
        return log.log_end_offset - (max(position, start) if is_of_use else start)

    @property
    def durable_offset(self) -> int:
        """Offset below which the whole log is durable."""
        return self._log.durable_offset

    async def sync(self) -> bool:
        """Wait until the current contents of the log are durable. Return False if the sync failed."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def on_done(is_durable: bool) -> None:
            if not done.done():
                done.set_result(is_durable)

        self._group_commit.when_durable(self._log, on_done)
        return await done

    def sync_now(self) -> None:
        """Sync the log, blocking. Raises OSError."""
        log = self._log
        if log.needs_sync:
            request = log.begin_sync()
            with suppress(OSError):  # the request keeps the error, and complete_sync raises it
                request.run()
            log.complete_sync(request)
