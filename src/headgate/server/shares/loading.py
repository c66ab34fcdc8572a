"""The load of a share-partition: from the share coordinator's state, before the first delivery.

If the state has no start offset yet, `share.auto.offset.reset` chooses one (F3). A state of a million ranges
is loaded in slices, one in each turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headgate.core.share.partition.loading import InvalidState
from headgate.core.share.partition.model import DeliveryLimits
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.state.commands import UNKNOWN_START, ReadState, ReadStateResult
from headgate.domain.errors import ErrorCode
from headgate.domain.offset_reset import ResetStrategy
from headgate.log.batch import CorruptBatch
from headgate.records.share_state_model import ShareKey
from headgate.server.shares.source_log import SourceLog
from headgate.server.shares.surroundings import Surroundings

logger = logging.getLogger(__name__)


class LoadedState(NamedTuple):
    """A share-partition that was loaded."""

    machine: SharePartition
    state: ReadStateResult
    leader_epoch: int
    """The epoch of the leader that read the state."""

    @property
    def is_new(self) -> bool:
        """Whether it begins at an offset that was just chosen, and is not persisted."""
        return self.state.start_offset == UNKNOWN_START


class LoadPlan(NamedTuple):
    """How a share-partition is loaded."""

    limits: Callable[[], DeliveryLimits]
    strategy: ResetStrategy
    start_by_time: int
    """Start offset if the group begins by time; negative: there is no record since then."""


class Loading:
    """One load, until it is done, failed or stopped."""

    def __init__(
        self,
        node: Surroundings,
        key: ShareKey,
        log: SourceLog,
        on_done: Callable[[LoadedState | ErrorCode], None],
    ) -> None:
        """`on_done` gets the loaded share-partition, or the error for which it cannot be loaded."""
        self._node = node
        self._key = key
        self._log = log
        self._on_done = on_done
        self._is_stopped = False
        self.began = node.steady_time()
        self.has_read_state = False
        """Whether the share coordinator has answered."""

    def stop(self) -> None:
        """Give the load up: `on_done` is not called any more."""
        self._is_stopped = True

    def begin(self, plan: LoadPlan) -> None:
        """Ask the share coordinator for the state."""
        partition = self._log.partition()
        if isinstance(partition, ErrorCode):
            self._on_done(partition)
            return
        epoch = partition.leader_epoch
        self._node.share_state.submit(
            self._key.name,
            ReadState(key=self._key, leader_epoch=epoch),
            lambda result: self._was_read(result, epoch, plan),
        )

    def _was_read(self, result: ReadStateResult | ErrorCode, leader_epoch: int, plan: LoadPlan) -> None:
        self.has_read_state = True
        if self._is_stopped:
            return
        error = result if isinstance(result, ErrorCode) else result.error
        if error == ErrorCode.INVALID_REQUEST:  # the group has not initialized it
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if isinstance(result, ErrorCode) or error:
            self._on_done(error)
            return
        start = result.start_offset
        if start == UNKNOWN_START:
            start = self._first_start(plan)
        if start < 0:
            self._on_done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        machine = SharePartition(start, plan.limits())
        loaded = LoadedState(machine, result, leader_epoch)
        self._go_on(loaded, machine.load(result.batches))

    def _go_on(self, loaded: LoadedState, steps: Iterator[None]) -> None:
        """Load one slice of the state, and the next one in a later iteration of the loop."""
        if self._is_stopped:
            return
        try:
            next(steps)
        except StopIteration:
            self._on_done(loaded)
        except InvalidState as problem:
            logger.error(
                "state of a share-partition is invalid", extra={"key": self._key.name, "why": str(problem)}
            )
            self._on_done(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._node.soon(lambda: self._go_on(loaded, steps))

    def _first_start(self, plan: LoadPlan) -> int:
        """Return where a share-partition begins that was never read (F3); -1 if its log cannot be read."""
        partition = self._log.partition()
        if isinstance(partition, ErrorCode):
            return -1
        try:
            match plan.strategy:
                case ResetStrategy.EARLIEST:
                    return partition.log_start_offset
                case ResetStrategy.LATEST:
                    return self._log.visible_end(partition)
                case ResetStrategy.BY_DURATION:
                    by_time = plan.start_by_time
                    return by_time if by_time >= 0 else self._log.visible_end(partition)
        except (OSError, CorruptBatch) as problem:
            logger.error("log cannot be opened", extra={"key": self._key.name, "error": str(problem)})
            return -1
