"""Loads a failed shard again, repeatedly until it succeeds, in the same way as at the start.

A failure may be temporary: a full disk, a file that an operator has to restore. A shard can be loaded from a
full disk, and then answers what needs no write. The failure is over when a write succeeds or would succeed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headgate.log.batch import CorruptBatch
from headgate.log.damage import LogDamaged
from headgate.runtime.failures import Where, unexpected
from headgate.topics.trouble import Trouble

RELOAD_DELAY_SECONDS = 1.0
DAMAGED_DELAY_SECONDS = 5.0
"""Delay if an operator has to restore files first."""


class Reloading:
    """Repeated loading of one failed shard."""

    def __init__(
        self, load: Callable[[], Awaitable[None]], try_append: Callable[[], None], trouble: Trouble
    ) -> None:
        """`load` recovers the log and loads the shard. It is called again after an exception.

        `try_append` raises OSError if the log cannot be written.
        """
        self._load = load
        self._try_append = try_append
        self._trouble = trouble
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Load the shard after a delay."""
        self._later(RELOAD_DELAY_SECONDS, self._try)

    def close(self) -> None:
        """Stop trying."""
        self._is_closed = True
        for handle in (self._timer, self._task):
            if handle is not None:
                handle.cancel()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._loop.call_later(seconds, action)

    def _try(self) -> None:
        if not self._is_closed:
            self._task = self._loop.create_task(self._load_again())

    async def _load_again(self) -> None:
        try:
            await self._load()
        except Exception as failure:
            self._retry(failure)
        else:
            self._look()

    def _look(self) -> None:
        """End the failure if the log of the loaded shard can be written; else look again later.

        A write that succeeds ends it, too. One that fails has the shard loaded again.
        """
        if not self._trouble.is_failing:
            return
        timer = self._timer
        try:
            self._try_append()
        except (OSError, CorruptBatch) as failure:
            self._trouble.persists(failure)
            if self._timer is timer:  # otherwise the shard failed again, and is loaded soon
                self._later(RELOAD_DELAY_SECONDS, self._look)
        else:
            self._trouble.ended()

    def _retry(self, failure: Exception) -> None:
        if not isinstance(failure, (OSError, CorruptBatch)):
            unexpected(Where.SHARD, "a shard cannot be loaded again", failure)
        self._trouble.persists(failure)
        is_damaged = isinstance(failure, LogDamaged)
        self._later(DAMAGED_DELAY_SECONDS if is_damaged else RELOAD_DELAY_SECONDS, self._try)
