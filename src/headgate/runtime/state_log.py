"""The port between the runtime of a shard and the log that the shard's state is in.

A log has one writer at a time. Rules for whoever implements it:

1. Positions are offsets. They grow; gaps are normal, for a log may hold markers and batches of others.
2. `claim` makes the caller the writer and fences the one before, durably. What is in the log then is durable.
3. `append` never blocks and keeps the order. After a failure a prefix of the batches is in the log.
4. What is lost is told once: by an OSError of `append` or by `on_lost`. After that the log takes nothing
   before it is claimed again.
5. Callbacks come on the event loop, and none from within `append`.

A batch of a client's transaction, and a marker, bear the producer in their header: a log that has to send
them in another way reads it there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from headgate.log.header import BatchHeader

if TYPE_CHECKING:
    from headgate.runtime.checkpoint_store import CheckpointStore

Batches = Sequence[tuple[BatchHeader, bytes]]
"""Some batches of a log in its order, each with its header."""


class Lost(Enum):
    """Why a log takes nothing any more."""

    FAILED = auto()
    """A write or a sync failed. It is not known which of the last batches are in the log: claim it again."""
    FENCED = auto()
    """Another writer has claimed the log: give the shard up."""


class StateLog(Protocol):
    """One shard's log."""

    name: str
    """For people: a directory, or a topic and a partition."""
    on_durable: Callable[[int], None]
    """Called when the log can no longer lose what `append` said would end at or below this position."""
    on_others: Callable[[Batches], None]
    """Called with durable batches of other writers, markers among them, before `on_durable` passes them."""
    on_lost: Callable[[Lost, Exception | None], None]
    """Called when a write or a sync failed behind an `append`, or when another writer came."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that the log takes, at this time."""
        ...

    @property
    def compacts_itself(self) -> bool:
        """Whether the log is compacted by others, who keep the last record of each key whatever they know.

        A commit must be one batch then: they would take the runs of larger ones apart.
        """
        ...

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Where checkpoints of the shard are kept; None: nowhere, the whole log is read at each start."""
        ...

    @property
    def durable_position(self) -> int:
        """What `append` said would end at or below this position counts as durable."""
        ...

    async def claim(self) -> int:
        """Become the log's writer; returns the log's end: a shard must be loaded up to it.

        Raises OSError. What was appended before and is not known to be durable is durable then, or gone.
        """
        ...

    def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """The batches from the one that holds `start` up to `end`, in slices of some milliseconds' worth.

        Where the log starts later, from there. Raises OSError, CorruptBatch.
        """
        ...

    def append(self, batches: Sequence[bytearray]) -> int:
        """Append batches; returns the position that is expected after them.

        That is at least as far on as they have records. Raises OSError: some of them may be in the log.
        """
        ...

    def is_ready(self, within_seconds: float) -> bool:
        """Whether the log has nothing to do, and would make an append durable in about this time."""
        ...

    def flush(self) -> None:
        """Begin now to make durable what was appended, not at the end of this turn of the loop."""
        ...

    def release(self) -> None:
        """Take nothing more: the shard is closed. What becomes durable of what was appended is still told."""
        ...
