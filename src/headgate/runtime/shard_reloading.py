"""Loads a failed shard again, repeatedly until it succeeds, in the same way as at the start.

A failure may be temporary: a full disk, a file that an operator has to restore.
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

    def __init__(self, load: Callable[[], Awaitable[None]], trouble: Trouble) -> None:
        """`load` recovers the log and loads the shard. It is called again after an exception."""
        self._load = load
        self._trouble = trouble
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Load the shard after a delay."""
        self._later(RELOAD_DELAY_SECONDS)

    def close(self) -> None:
        """Stop trying."""
        self._is_closed = True
        for handle in (self._timer, self._task):
            if handle is not None:
                handle.cancel()

    def _later(self, seconds: float) -> None:
        if not self._is_closed:
            self._timer = self._loop.call_later(seconds, self._try)

    def _try(self) -> None:
        if not self._is_closed:
            self._task = self._loop.create_task(self._load_again())

    async def _load_again(self) -> None:
        try:
            await self._load()
        except Exception as failure:
            self._retry(failure)
        else:
            self._trouble.ended()

    def _retry(self, failure: Exception) -> None:
        if not isinstance(failure, (OSError, CorruptBatch)):
            unexpected(Where.SHARD, "a shard cannot be loaded again", failure)
        self._trouble.persists(failure)
        self._later(DAMAGED_DELAY_SECONDS if isinstance(failure, LogDamaged) else RELOAD_DELAY_SECONDS)
