"""The timer of a share-partition's locks.

1. One timer serves all locks. It is set to a time before which none of them ends.
2. The timers of a thousand share-partitions may fire in one iteration of the loop. So a timer only asks for a
   turn, and each turn ends a bounded number of locks of one share-partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.runtime.failures import Where, unexpected
from headgate.server.shares.surroundings import Surroundings

_RETRY_MS: Final = 1_000


class LockTimer:
    """Has the locks of one share-partition ended when they are due."""

    def __init__(self, node: Surroundings, name: str, end_locks: Callable[[], int | None]) -> None:
        """`end_locks` ends some of the locks that are due, and returns the time to call it again, in ms."""
        self._node = node
        self._name = name
        self._end_locks = end_locks
        self._cancel: Callable[[], None] | None = None
        self._due_at = 0
        self._has_fired = False
        """Whether locks are ended in one of the next iterations of the loop."""

    @property
    def is_set(self) -> bool:
        """Return whether the timer will fire."""
        return self._cancel is not None

    def set(self, deadline: int) -> None:
        """Let the timer fire at `deadline`, in ms, or before."""
        if self._has_fired or (self._cancel is not None and self._due_at <= deadline):
            return
        self.stop()
        self._due_at = deadline
        delay_ms = max(0, deadline - self._node.steady_time()) + 1
        self._cancel = self._node.call_later(delay_ms, self._fire)

    def stop(self) -> None:
        """Let the timer not fire."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _fire(self) -> None:
        self._cancel = None
        self._has_fired = True
        self._node.soon(self._take_turn)

    def _take_turn(self) -> None:
        self._has_fired = False
        try:
            deadline = self._end_locks()
        except Exception as failure:
            unexpected(Where.HOUSEKEEPING, f"locks of {self._name} cannot be ended", failure)
            deadline = self._node.steady_time() + _RETRY_MS
        if deadline is not None:
            self.set(deadline)
