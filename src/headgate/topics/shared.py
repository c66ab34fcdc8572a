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
    """Maximum number of logs with open files; beyond it, the least recently used one closes its files."""
    _used: dict[int, Log] = field(default_factory=dict)

    def used(self, log: Log) -> None:
        """Note that the log is about to read or write, and so opens files."""
        key = id(log)
        if self._used.pop(key, None) is None and len(self._used) >= self.open_files_limit:
            idle = next(iter(self._used))
            self._used.pop(idle).close_files()
        self._used[key] = log

    def misplaced(self) -> Path | None:
        """The directory of a log in use whose file somebody removed or replaced; None: all are there."""
        return next((log.directory for log in self._used.values() if not log.is_in_place), None)

    def closed(self, log: Log) -> None:
        """Note that the log has no open files any more."""
        self._used.pop(id(log), None)
