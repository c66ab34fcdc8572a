"""Check producers' batches and append them in order, without blocking the loop.

A batch is checked on the loop as long as the request stays within its `Budget`: an ordinary batch takes some
microseconds there, and about a hundred in another thread. Batches with many records, with records that
decompress to many bytes, or that must be recompressed are checked in another thread. Rules:

1. Batches are appended to a partition in the order of their arrival: a batch waits for those that are still
   being checked before it. Batches of different partitions do not wait for each other, but share one thread.
2. Only the check runs in the other thread. It gets the bytes, the topic's policy and the time, but no
   partition.
3. If the topic is deleted meanwhile, the answer is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.header import UnpacksToMore
from headgate.topics.admission import Admitted, AppendResult, Buffer, admit, weight_of
from headgate.topics.partition import Partition
from headgate.topics.policy import TopicPolicy
from headgate.topics.transactions import Verification
from headgate.topics.waiters import PartitionKey

BUDGET = 8192
"""Cost of the batches of one request that may be checked on the loop, in units of `weight_of`: about half a
millisecond of compiled code.
"""
_BYTES_A_UNIT = 128
"""Unpacked bytes in a unit of the budget."""
_LARGEST_ON_LOOP = 1 << 20
"""Bytes. The checksum of a larger batch takes too long on the loop."""


_FAILED = AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR, message="An unexpected failure of the broker")

logger = logging.getLogger(__name__)


OnFailed = Callable[[str, BaseException], None]
"""Called with what failed, as a text, and the exception."""


def _log_failure(event: str, failure: BaseException) -> None:
    logger.error(event, exc_info=failure)


class RunAside(Protocol):
    """Run `work` in another thread and then `on_done` on the loop, one pair after another, in the order of
    the calls.

    `on_done` is called with the exception that `work` raised, or None.
    """

    def __call__(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None: ...


class Budget:
    """The part of `BUDGET` that one request has left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET


class Appends:
    """The batches of all partitions that are being checked or wait for it."""

    __slots__ = ("_run_aside", "_waiting", "on_failed")

    def __init__(self, run_aside: RunAside) -> None:
        self._run_aside = run_aside
        self.on_failed: OnFailed = _log_failure
        """Called for unexpected exceptions."""
        self._waiting: dict[PartitionKey, deque[_Pending]] = {}

    def append(
        self,
        partition: Partition,
        data: Buffer,
        now: Millis,
        budget: Budget,
        on_done: Callable[[Partition, AppendResult], None],
        verification: Verification = Verification.NONE,
        verified_at: int | None = None,
    ) -> AppendResult | None:
        """Append the batch in `data`. Return the result, or None if `on_done` is called with it later.

        `verification` and `verified_at`: see `Partition.append`.
        """
        policy = partition.topic.policy
        weight = weight_of(data, policy)
        if weight <= budget.left and len(data) <= _LARGEST_ON_LOOP and partition.key not in self._waiting:
            budget.left -= weight
            try:
                admitted = admit(data, policy, now, unpacked_bytes=budget.left * _BYTES_A_UNIT)
            except UnpacksToMore:
                budget.left = 0  # Unpacking it used up the budget.
            else:
                return partition.append_admitted(admitted, now, verification, verified_at)
        self._check_aside(_Pending(partition, data, policy, now, verification, verified_at, on_done))
        return None

    def _check_aside(self, pending: _Pending) -> None:
        self._waiting.setdefault(pending.partition.key, deque()).append(pending)
        self._run_aside(pending.check, lambda failure: self._checked(pending, failure))

    def _checked(self, pending: _Pending, failure: BaseException | None) -> None:
        if failure is not None:
            self.on_failed(f"the check of a batch for {pending.partition} failed", failure)
            pending.admitted = _FAILED
        queue = self._waiting.get(pending.partition.key)
        if queue is None:  # its check had ended before an earlier report came, which appended it
            return
        while queue and (admitted := queue[0].admitted) is not None:
            first = queue.popleft()
            try:
                first.append(admitted, self.on_failed)
            except Exception as problem:  # of its producer's answer: the next ones are answered all the same
                self.on_failed(f"the answer for a batch of {first.partition} failed", problem)
        if not queue:
            self._waiting.pop(pending.partition.key, None)


class _Pending:
    """One batch that is checked in another thread."""

    __slots__ = (
        "_data",
        "_now",
        "_on_done",
        "_policy",
        "_verification",
        "_verified_at",
        "admitted",
        "partition",
    )

    def __init__(
        self,
        partition: Partition,
        data: Buffer,
        policy: TopicPolicy,
        now: Millis,
        verification: Verification,
        verified_at: int | None,
        on_done: Callable[[Partition, AppendResult], None],
    ) -> None:
        self.partition = partition
        self.admitted: Admitted | AppendResult | None = None
        """The result of the check; None until it ends. The other thread sets it, before its report."""
        self._data = data
        self._policy = policy
        self._now = now
        self._verification = verification
        self._verified_at = verified_at
        self._on_done = on_done

    def check(self) -> None:
        """Check the batch, in any thread, with pauses for the loop."""
        self.admitted = admit(self._data, self._policy, self._now, pause=_pause)

    def append(self, admitted: Admitted | AppendResult, on_failed: OnFailed) -> None:
        """Append the batch, on the loop."""
        # The partition may have been closed and represented by a new object since.
        partition = self.partition.current
        if partition is None:
            result = AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            try:
                result = partition.append_admitted(admitted, self._now, self._verification, self._verified_at)
            except Exception as failure:  # of this batch alone: others wait behind it
                on_failed(f"an append to {partition} failed", failure)
                result = _FAILED
        self._on_done(partition or self.partition, result)


def _pause() -> None:
    """Give the loop's thread a chance to run: compiled code does not release the interpreter by itself."""
    time.sleep(0)
