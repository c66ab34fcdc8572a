"""Producers' batches on their way into partitions: each checked, in its order, without holding up the loop.

A batch is checked on the loop while a request costs little (`Budget`): an ordinary batch takes some
microseconds there and a hundred in another thread. Many records, records that unpack to much, and records
that have to be compressed anew are checked in another thread. Rules:

1. Batches enter a partition in the order of their arrival: what comes behind a batch that is still being
   checked waits for it. Batches of different partitions do not wait for each other, but share the one
   thread.
2. Nothing but the check runs beside the loop: it sees the bytes, the topic's policy and the time, no
   partition.
3. A topic that is deleted meanwhile takes nothing (UNKNOWN_TOPIC_OR_PARTITION).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.compression import UnpacksToMore
from headgate.topics.admission import Admitted, AppendResult, Buffer, admit, weight_of
from headgate.topics.partition import Partition
from headgate.topics.policy import TopicPolicy
from headgate.topics.waiters import PartitionKey

BUDGET = 8192
"""What the batches of one request may cost on the loop, as `weight_of` counts: about half a millisecond
compiled.
"""
_BYTES_A_UNIT = 128
"""How many unpacked bytes are a unit of the budget."""
_LARGEST_ON_LOOP = 1 << 20
"""Above this size even a checksum takes too long."""


_FAILED = AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR, message="An unexpected failure of the broker")

logger = logging.getLogger(__name__)


OnFailed = Callable[[str, BaseException], None]
"""Called with what failed, and the exception."""


def _log_failure(event: str, failure: BaseException) -> None:
    logger.error(event, exc_info=failure)


class RunAside(Protocol):
    """Runs `work` in another thread and then `on_done` on the loop, one after another in the order of the
    calls.

    `on_done` is called with the exception that `work` raised, or None.
    """

    def __call__(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None: ...


class Budget:
    """What is left for one request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET


class Appends:
    """The batches of all partitions that are on their way."""

    __slots__ = ("_run_aside", "_waiting", "on_failed")

    def __init__(self, run_aside: RunAside) -> None:
        self._run_aside = run_aside
        self.on_failed: OnFailed = _log_failure
        """Told of exceptions that nothing provides for."""
        self._waiting: dict[PartitionKey, deque[_Pending]] = {}

    def append(
        self,
        partition: Partition,
        data: Buffer,
        now: Millis,
        budget: Budget,
        on_done: Callable[[Partition, AppendResult], None],
    ) -> AppendResult | None:
        """Append the batch in `data`: what became of it, or None, and `on_done` is called with that later."""
        policy = partition.topic.policy
        weight = weight_of(data, policy)
        if weight <= budget.left and len(data) <= _LARGEST_ON_LOOP and partition.key not in self._waiting:
            budget.left -= weight
            try:
                admitted = admit(data, policy, now, unpacked_bytes=budget.left * _BYTES_A_UNIT)
            except UnpacksToMore:
                budget.left = 0  # It was unpacked this far.
            else:
                return partition.append_admitted(admitted, now)
        self._check_aside(_Pending(partition, data, policy, now, on_done))
        return None

    def _check_aside(self, pending: _Pending) -> None:
        self._waiting.setdefault(pending.partition.key, deque()).append(pending)
        self._run_aside(pending.check, lambda failure: self._checked(pending, failure))

    def _checked(self, pending: _Pending, failure: BaseException | None) -> None:
        if failure is not None:
            self.on_failed(f"the check of a batch for {pending.partition} failed", failure)
            pending.admitted = _FAILED
        queue = self._waiting[pending.partition.key]
        while queue and (admitted := queue[0].admitted) is not None:
            queue.popleft().append(admitted, self.on_failed)
        if not queue:
            del self._waiting[pending.partition.key]


class _Pending:
    """One batch that is checked in another thread."""

    __slots__ = ("_data", "_now", "_on_done", "_policy", "admitted", "partition")

    def __init__(
        self,
        partition: Partition,
        data: Buffer,
        policy: TopicPolicy,
        now: Millis,
        on_done: Callable[[Partition, AppendResult], None],
    ) -> None:
        self.partition = partition
        self.admitted: Admitted | AppendResult | None = None
        """What came of the check."""
        self._data = data
        self._policy = policy
        self._now = now
        self._on_done = on_done

    def check(self) -> None:
        """Check the batch, in any thread, letting others have their turn."""
        self.admitted = admit(self._data, self._policy, self._now, pause=_pause)

    def append(self, admitted: Admitted | AppendResult, on_failed: OnFailed) -> None:
        """Append the batch, on the loop."""
        topic = self.partition.topic
        # Another object may stand for the partition by now.
        partition = None if topic.is_deleted else topic.find_partition(self.partition.index)
        if partition is None:
            result = AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            try:
                result = partition.append_admitted(admitted, self._now)
            except Exception as failure:  # of this batch alone: others wait behind it
                on_failed(f"an append to {partition} failed", failure)
                result = _FAILED
        self._on_done(partition or self.partition, result)


def _pause() -> None:
    """Let the loop have its turn: compiled code does not by itself."""
    time.sleep(0)
