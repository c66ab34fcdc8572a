"""Log lines about a failing log: one when it begins to fail, one when it works again.

A log on a nearly full disk accepts small batches and refuses large ones. A limit of one beginning in ten
seconds prevents a line for each of these changes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from logging import Logger
    from pathlib import Path

QUIET_SECONDS = 10.0
"""Minimum time between two reported beginnings."""


class Trouble:
    """Reports the failures of one log."""

    __slots__ = ("_causes", "_log", "_logger", "_quiet_until", "is_failing")

    def __init__(self, logger: Logger, log: Path | str) -> None:
        self._logger = logger
        self._log = log
        self._causes: set[str] = set()
        """Causes reported since the log began to fail; empty if none was reported."""
        self._quiet_until = 0.0
        self.is_failing = False

    def failed(self, event: str, cause: Exception | None, then: str) -> None:
        """Report a failure, unless this one is reported already or the last report is too recent.

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
        self._logger.error(event, extra={"log": self._log, "error": text, "then": then})

    def persists(self, cause: Exception) -> None:
        """Report that a repair failed, once per cause."""
        text = str(cause)
        if self._causes and text not in self._causes:
            self._causes.add(text)
            self._logger.warning("log still fails", extra={"log": self._log, "error": text})

    def ended(self) -> None:
        """Report that the log works again, if its failure was reported."""
        self.is_failing = False
        if self._causes:
            self._causes.clear()
            self._logger.warning("log works again", extra={"log": self._log})


class Unread(NamedTuple):
    """What could not be read: the batch with an offset, or what the search for a timestamp looks at."""

    offset: int = -1
    timestamp: int | None = None
    """In ms, or one of the special timestamps of a search; None: the offset counts."""


class PartitionTrouble:
    """Reports the failures of a partition, writes and reads separately."""

    __slots__ = ("_is_written", "_reading", "_writing", "unread")

    def __init__(self, logger: Logger, directory: Path) -> None:
        self._writing = Trouble(logger, directory)
        self._reading = Trouble(logger, directory)
        self._is_written = False
        """Whether an append succeeded since the last failure: the next successful sync then ends it."""
        self.unread: Unread | None = None
        """What could not be read; None if everything could."""

    @property
    def is_failing(self) -> bool:
        """Whether the partition cannot be written or read."""
        return self._writing.is_failing or self._reading.is_failing

    @property
    def is_write_failing(self) -> bool:
        """Whether the partition cannot be written."""
        return self._writing.is_failing

    def can_be_written(self) -> None:
        """Note that a write and its sync can succeed again."""
        self._writing.ended()

    def append_failed(self, cause: Exception) -> None:
        """Report an append that a disk error refused."""
        self._write_failed("write failed", cause)

    def sync_failed(self, cause: Exception) -> None:
        """Report a failed sync."""
        self._write_failed("sync failed", cause)

    def _write_failed(self, event: str, cause: Exception) -> None:
        self._is_written = False
        self._writing.failed(event, cause, "producers get retriable errors until it can be written again")

    def appended(self, *, is_enough: bool) -> None:
        """Note a successful append; with `is_enough` it ends the failure without a sync."""
        if self._writing.is_failing:
            self._is_written = True
            if is_enough:
                self._writing.ended()

    def synced(self) -> None:
        """Note a successful sync."""
        if self._writing.is_failing and self._is_written:
            self._writing.ended()

    def read_failed(self, cause: Exception, unread: Unread) -> None:
        """Report a fetch or search that failed."""
        self.unread = unread
        self._reading.failed("read failed", cause, "consumers get retriable errors where it cannot be read")

    def was_read(self, offset: int) -> None:
        """Note a successful fetch from this offset on. It ends a failure only if that was what failed: a log
        with a damaged batch is read everywhere else.
        """
        if self.unread is not None and self.unread.offset == offset:
            self.can_be_read()

    def can_be_read(self) -> None:
        """Note that what could not be read can be read again, or is gone."""
        if self._reading.is_failing:
            self.unread = None
            self._reading.ended()
