"""The writes of one share-partition to the share coordinator.

1. An acknowledgement is answered when its change is durable. Changes nobody waits for are persisted likewise;
   those that could not be written are written again.
2. A start that moved because there is nothing to deliver (markers, aborted transactions, compaction, a moved
   log start) is persisted when the window is empty: nobody will acknowledge anything that persists it.
3. A write that another leader or a newer state fences shows that the share-partition is out of date: it is
   discarded, and the next fetch loads it again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from headgate.core.share.partition.model import StateChange
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.state.commands import ReadStateResult, ReopenState, StateResult, WriteState
from headgate.domain.errors import ErrorCode
from headgate.domain.setting import INT_MAX
from headgate.records.share_batches import StateBatch
from headgate.records.share_state_model import DeadLetterMark, ShareKey
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.surroundings import Surroundings

logger = logging.getLogger(__name__)

_RETRY_MS: Final = 1_000
_MOST_UNWRITTEN: Final = 2_000
"""Ranges of records that are kept to be written again; a restart forgets what happened to earlier ones."""
AGAIN_AT_ONCE: Final = 100
"""Of these, ranges of one write: each may change another block of the state."""
_FINISHED_AT_ONCE: Final = 8
"""Batches of a write that is finished at once: one sync may complete hundreds of writes."""

_FENCED: Final = frozenset(
    {ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST}
)
"""Errors of a write that another state or leader, or a removed state, explains."""

OnDone = Callable[[ErrorCode], None]


def _nobody_waits(error: ErrorCode) -> None:
    """Do nothing with the result of a write."""


class Written(Protocol):
    """The share-partition, as its writer sees it."""

    error: ErrorCode
    """Why it was discarded."""

    @property
    def machine(self) -> SharePartition | None: ...

    def discard(self, error: ErrorCode) -> None:
        """Give the share-partition up."""
        ...

    def finished(self, change: StateChange | None, *, is_undone: bool) -> None:
        """Persist what the end of a write changed; look at the locks of records that members have again."""
        ...

    def was_written(self) -> None:
        """Look at what a write made possible."""
        ...


class StateWriter:
    """Writes the changes of one share-partition, after its state was read."""

    def __init__(self, node: Surroundings, key: ShareKey, partition: Written, counts: ShareCounts) -> None:
        self._node = node
        self._key = key
        self._partition = partition
        self._counts = counts
        self._state_epoch = 0
        self._leader_epoch = 0
        self._open = 0
        """Number of writes that are not finished."""
        self._complete_before = 0
        """The offset before which, by the last write, as many records are complete as there are."""
        self._unwritten: deque[StateBatch] = deque(maxlen=_MOST_UNWRITTEN)
        """What nobody waits for, and could not be written: it is written again."""
        self._is_writing_again = False

    def begin(self, state: ReadStateResult, leader_epoch: int) -> None:
        """Begin with the state that was read by a leader."""
        self._state_epoch = state.state_epoch
        self._leader_epoch = leader_epoch
        self._complete_before = state.start_offset + max(0, state.delivery_complete_count)

    @property
    def is_done(self) -> bool:
        """Return whether all changes are written."""
        return not self._open and not self._unwritten

    # --- changes ---

    def persist(
        self, change: StateChange, on_done: OnDone = _nobody_waits, mark: DeadLetterMark | None = None
    ) -> None:
        """Write a change to the share coordinator, and finish it when that is durable."""
        command = WriteState(
            key=self._key,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=min(change.delivery_complete_count, INT_MAX),
            batches=change.batches,
            dead_letters=mark,
        )
        self._open += 1
        self._complete_before = change.start_offset + change.delivery_complete_count

        def done(result: StateResult | ErrorCode) -> None:
            if len(change.batches) <= _FINISHED_AT_ONCE:
                self._written(change, on_done, result)
            else:
                self._node.soon(lambda: self._written(change, on_done, result))

        self._node.share_state.submit(self._key.name, command, done)

    def persist_start(self, machine: SharePartition, on_done: OnDone = _nobody_waits) -> None:
        """Persist the start of an empty window; `on_done` gets the result when it is durable."""
        start = StateChange(start_offset=machine.start_offset, delivery_complete_count=0, batches=())
        self.persist(start, on_done)

    def persist_what_nobody_acknowledges(self, machine: SharePartition) -> None:
        """Persist the start of an empty window, unless what was persisted last says that all is complete."""
        if machine.start_offset == machine.end_offset > self._complete_before and not self._open:
            self.persist_start(machine)

    def reopen(self, machine: SharePartition, offsets: Sequence[tuple[int, int]], on_done: OnDone) -> None:
        """Let complete records be delivered again; `on_done` gets the result when it is durable."""
        change = machine.reopen(offsets)
        self._complete_before = change.start_offset + change.delivery_complete_count
        self._forget_unwritten(offsets)
        command = ReopenState(
            key=self._key,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            delivery_complete_count=min(change.delivery_complete_count, INT_MAX),
            offsets=offsets,
        )

        def done(result: StateResult | ErrorCode) -> None:
            error = result if isinstance(result, ErrorCode) else result.error
            machine.reopened(offsets, is_durable=not error)
            self._written(change, on_done, result)

        self._open += 1
        self._node.share_state.submit(self._key.name, command, done)

    # --- results ---

    def _written(self, change: StateChange, on_done: OnDone, result: StateResult | ErrorCode) -> None:
        self._open -= 1
        partition = self._partition
        error = result if isinstance(result, ErrorCode) else result.error
        machine = partition.machine
        if change.write and machine is not None:
            is_durable = error == ErrorCode.NONE
            undone = machine.finish_write(change.write, is_durable=is_durable, now=self._node.steady_time())
            partition.finished(undone, is_undone=not is_durable)
        if error:
            self._tell(error)
        if error in _FENCED:
            error = ErrorCode.FENCED_STATE_EPOCH if error == ErrorCode.INVALID_REQUEST else error
            partition.discard(error)
        elif error:
            self._was_not_written(change, is_awaited=bool(change.write) or on_done is not _nobody_waits)
        elif machine is not None and not partition.error:
            self.persist_what_nobody_acknowledges(machine)
        on_done(error)
        partition.was_written()

    def _tell(self, error: ErrorCode) -> None:
        told = self._counts.failed_writes
        if told.is_time():
            logger.warning(
                "state of a share-partition was not written",
                extra={"key": self._key.name, "error": error.name, "not_logged": told.take_skipped()},
            )

    def _was_not_written(self, change: StateChange, *, is_awaited: bool) -> None:
        """Write again later what nobody waits for: who waits is told, and has the records as before."""
        self._complete_before = 0  # the next fetch writes the start again
        if is_awaited:
            return
        self._unwritten += change.batches
        if self._unwritten and not self._is_writing_again and not self._partition.error:
            self._is_writing_again = True
            self._node.call_later(_RETRY_MS, lambda: self._write_again(len(self._unwritten)))

    def _write_again(self, count: int) -> None:
        """Write so many ranges that could not be written, some in each iteration of the loop.

        Later changes win: they have a higher delivery count or state.
        """
        self._is_writing_again = False
        machine = self._partition.machine
        if machine is None or self._partition.error or not self._unwritten:
            return
        some = min(count, len(self._unwritten), AGAIN_AT_ONCE)
        batches = tuple(self._unwritten.popleft() for _ in range(some))
        if self._unwritten:
            self._is_writing_again = True
            if count > some:
                self._node.soon(lambda: self._write_again(count - some))
            else:  # these failed meanwhile
                self._node.call_later(_RETRY_MS, lambda: self._write_again(len(self._unwritten)))
        complete, start = machine.delivery_complete_count, machine.start_offset
        self.persist(StateChange(start_offset=start, delivery_complete_count=complete, batches=batches))

    def _forget_unwritten(self, offsets: Sequence[tuple[int, int]]) -> None:
        """Write no earlier completion of these offsets again."""
        kept = [
            batch
            for batch in self._unwritten
            if not any(first <= batch.last_offset and batch.first_offset <= last for first, last in offsets)
        ]
        self._unwritten.clear()
        self._unwritten += kept
