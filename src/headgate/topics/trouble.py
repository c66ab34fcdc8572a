"""Log lines about a log that fails: one when it begins to fail, one when it works again, none in between.

A log on a nearly full disk takes small batches and refuses large ones. So that it does not fill the log
lines with its changes, it has one beginning a minute at most.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger
    from pathlib import Path

QUIET_SECONDS = 60.0
"""How long after one beginning was told the next one is."""


class Trouble:
    """What is told of the failures of one log."""

    __slots__ = ("_causes", "_directory", "_logger", "_quiet_until", "is_failing")

    def __init__(self, logger: Logger, directory: Path) -> None:
        self._logger = logger
        self._directory = directory
        self._causes: set[str] = set()
        """What was told since the log works no more; empty while nothing was."""
        self._quiet_until = 0.0
        self.is_failing = False

    def failed(self, event: str, cause: Exception | None, then: str) -> None:
        """The log failed: tell it, unless it was told already or was told of the last time just now.

        `then` says what the failure means to clients.
        """
        self.is_failing = True
        if self._causes:
            return
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + QUIET_SECONDS
        text = str(cause or "unknown")
        self._causes.add(text)
        self._logger.error(event, extra={"log": self._directory, "error": text, "then": then})

    def persists(self, cause: Exception) -> None:
        """The log cannot be mended: tell it once for each cause there is."""
        text = str(cause)
        if self._causes and text not in self._causes:
            self._causes.add(text)
            self._logger.warning("log still fails", extra={"log": self._directory, "error": text})

    def ended(self) -> None:
        """The log works: tell it, where it was told that it failed."""
        self.is_failing = False
        if self._causes:
            self._causes.clear()
            self._logger.warning("log works again", extra={"log": self._directory})


class PartitionTrouble:
    """The same of a partition that clients write and read, each for itself."""

    __slots__ = ("_is_written", "_reading", "_writing")

    def __init__(self, logger: Logger, directory: Path) -> None:
        self._writing = Trouble(logger, directory)
        self._reading = Trouble(logger, directory)
        self._is_written = False
        """Whether an append succeeded since the last failure: a sync tells then that the log works."""

    def append_failed(self, cause: Exception) -> None:
        """An append was refused for what is wrong with the disk."""
        self._write_failed("write failed", cause)

    def sync_failed(self, cause: Exception) -> None:
        """What was appended could not be made durable."""
        self._write_failed("sync failed", cause)

    def _write_failed(self, event: str, cause: Exception) -> None:
        self._is_written = False
        self._writing.failed(event, cause, "producers get retriable errors until it can be written again")

    def appended(self, *, is_enough: bool) -> None:
        """An append succeeded; `is_enough` where nobody waits for its sync."""
        if self._writing.is_failing:
            self._is_written = True
            if is_enough:
                self._writing.ended()

    def synced(self) -> None:
        """A sync succeeded."""
        if self._writing.is_failing and self._is_written:
            self._writing.ended()

    def read_failed(self, cause: Exception) -> None:
        """A fetch or a search was refused."""
        self._reading.failed("read failed", cause, "consumers get retriable errors where it cannot be read")

    def was_read(self) -> None:
        """A fetch found records."""
        if self._reading.is_failing:
            self._reading.ended()
