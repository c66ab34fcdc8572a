"""The port between the runtime of a shard and the log of the shard's state.

A log has one writer at a time. Rules for its implementations:

1. Positions are offsets. They grow. Gaps are normal: a log may hold markers and batches of other writers.
2. `claim` makes the caller the writer and fences the previous one, durably. The log's contents are then
   durable.
3. `append` never blocks and keeps the order. After a failure the log holds a prefix of the batches.
4. A loss is reported once: by an OSError of `append` or by `on_lost`. After that the log accepts nothing
   until it is claimed again.
5. Callbacks run on the event loop, and never inside `append`.

A batch of a client's transaction, and a marker, hold the producer in their header. A log that has to send
them differently reads it there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from headgate.log.header import BatchHeader

if TYPE_CHECKING:
    from headgate.runtime.checkpoint_store import CheckpointStore

Batches = Sequence[tuple[BatchHeader, bytes]]
"""Consecutive batches of a log, each with its header."""


class Lost(Enum):
    """Reason why a log accepts nothing."""

    FAILED = auto()
    """A write or a sync failed. Which of the last batches the log holds is unknown: claim it again."""
    FENCED = auto()
    """Another writer has claimed the log: drop the shard."""


class StateLog(Protocol):
    """The log of one shard."""

    name: str
    """Name for messages: a directory, or a topic and a partition."""
    on_durable: Callable[[int], None]
    """Called when all batches with an end at or below this position, as `append` returned it, are durable."""
    on_others: Callable[[Batches], None]
    """Called with durable batches of other writers, including markers, before `on_durable` passes them."""
    on_lost: Callable[[Lost, Exception | None], None]
    """Called when a write or a sync failed after an `append`, or when another writer claimed the log."""

    @property
    def max_batch_bytes(self) -> int:
        """Size of the largest batch that the log accepts now."""
        ...

    @property
    def compacts_itself(self) -> bool:
        """Whether others compact the log, who keep the last record of each key.

        A commit must then be one batch: such a compaction would remove parts of a run.
        """
        ...

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Storage of the shard's checkpoints; None if there is none, and each start reads the whole log."""
        ...

    @property
    def durable_position(self) -> int:
        """Position up to which batches count as durable, as `append` returned their ends."""
        ...

    async def claim(self) -> int:
        """Become the log's writer. Return the end of the log, up to which the shard must be loaded.

        Raises OSError. Earlier appends of unknown outcome are durable afterwards, or removed.
        """
        ...

    def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """Return the batches from the one that holds `start` up to `end`, in slices of some milliseconds.

        Begin at the start of the log if that is later. Raises OSError, CorruptBatch.
        """
        ...

    def append(self, batches: Sequence[bytearray]) -> int:
        """Append batches. Return the expected position after them.

        It is at least the current end plus the number of records. Raises OSError: the log may hold some of
        the batches.
        """
        ...

    def try_append(self) -> None:
        """Raise OSError if an append would fail now, as far as that can be known without one."""
        ...

    def is_ready(self, within_seconds: float) -> bool:
        """Return whether the log is idle and can make an append durable in about this time."""
        ...

    def flush(self) -> None:
        """Start to make appended batches durable now, not at the end of this loop iteration."""
        ...

    def release(self) -> None:
        """Accept no more batches: the shard is closed. Appended batches are still reported when durable."""
        ...
