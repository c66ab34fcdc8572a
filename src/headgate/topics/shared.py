"""State that all topics of a node share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.domain.ids import TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.filesystem import FileSystem
from headgate.log.log import Log
from headgate.topics.producers import ProducerCount
from headgate.topics.transactions import Transactions
from headgate.topics.waiters import Waiters

if TYPE_CHECKING:
    from headgate.log.compaction import Steps

RunAside = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
"""Runs a function, and then another one on the loop with the exception of the first, or None."""


def run_here(work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
    """Run both now: tools have no other thread."""
    try:
        work()
    except Exception as problem:
        on_done(problem)
    else:
        on_done(None)


@dataclass(slots=True)
class Shared:
    """State that all topics of a node share."""

    fs: FileSystem
    data_dir: Path
    settings: Settings
    waiters: Waiters
    leader_epoch: int
    committed_waiters: Waiters = field(default_factory=Waiters)
    """The readers that wait for committed records; `waiters` are those that wait for any."""
    unrecovered: set[tuple[TopicId, int]] = field(default_factory=set)
    """Partitions whose logs a crash may have torn, and which were not opened since."""
    seconds: Callable[[], float] = time.monotonic
    """Steady clock, for the retries of failed operations."""
    in_transaction: dict[tuple[TopicName, int], Transactions] = field(default_factory=dict)
    """The partitions with open transactions, as far as their logs were opened."""
    producers: ProducerCount = field(default_factory=ProducerCount)
    failing: dict[tuple[TopicId, int], Callable[[], Steps[bool]]] = field(default_factory=dict)
    """For partitions that could not be used: tries whether they can be, and returns whether that is so."""
    on_failing: Callable[[], None] = lambda: None
    """Called when a partition is added to `failing`."""
    run_aside: RunAside = run_here
    """Runs what may take a while, one after another: in another thread, once the node has one."""
    open_files_limit: int = 512
    """Maximum number of open files of logs: those of active segments, and one more of a log whose closed
    segments are read. Beyond it, the least recently used ones are closed.
    """
    _used: dict[int, Log] = field(default_factory=dict)
    """Logs whose active segments have open files, the least recently used one first."""
    _read: dict[int, Log] = field(default_factory=dict)
    """Logs that have open files of closed segments, the least recently used one first."""

    def used(self, log: Log) -> None:
        """Note that the log is about to read or write its active segment, and so opens its file."""
        key = id(log)
        if self._used.pop(key, None) is None:
            self._make_room()
        self._used[key] = log

    def reads_closed(self, log: Log) -> None:
        """Note that the log is about to read a closed segment, and so opens its file."""
        key = id(log)
        if self._read.pop(key, None) is None:
            self._make_room()
        self._read[key] = log

    def _make_room(self) -> None:
        """Close a file if there are as many as may be open: a reader of old records first."""
        if len(self._used) + len(self._read) < self.open_files_limit:
            return
        if self._read:
            self._read.pop(next(iter(self._read))).segments.close_read()
        else:
            self._used.pop(next(iter(self._used))).close_files()

    def misplaced(self) -> Path | None:
        """The directory of a log in use whose file somebody removed or replaced; None: all are there."""
        return next((log.directory for log in self._used.values() if not log.is_in_place), None)

    def closed(self, log: Log) -> None:
        """Note that the log has no open files any more."""
        self._used.pop(id(log), None)
        self._read.pop(id(log), None)
