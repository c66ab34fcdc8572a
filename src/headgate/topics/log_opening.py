"""Opening a partition's log in another thread, until the log is first used."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from headgate.log.log import Log
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.producers import Producers
from headgate.topics.transactions import Transactions


class Opened(NamedTuple):
    """A log as it was read from the disk, its leader epochs, its transactions and its producers, which are
    not counted together with others yet.
    """

    log: Log
    epochs: LeaderEpochs
    transactions: Transactions
    producers: Producers


class LogOpening:
    """One opening: the work, to be run once in another thread, and its result."""

    __slots__ = ("_clock", "_load", "future", "seconds")

    def __init__(self, load: Callable[[], Opened], clock: Callable[[], float]) -> None:
        """`clock`: a monotonic time in seconds."""
        self._load = load
        self._clock = clock
        self.seconds = 0.0
        """How long an attempt in the other thread took that failed."""
        self.future: Future[Opened] = Future()
        """Completes when the log is opened, and also on failure."""

    def open_log(self) -> None:
        """Read the log. An error is raised by the user of the log, not here."""
        if not self.future.set_running_or_notify_cancel():
            return  # the log was needed before this began
        began = self._clock()
        try:
            self.future.set_result(self._load())
        except BaseException as problem:
            self.seconds = self._clock() - began
            self.future.set_exception(problem)
            if not isinstance(problem, Exception):
                raise

    def result(self) -> Opened:
        """Return the log; wait for it if the opening has begun, else open it here. Raises OSError."""
        return self._load() if self.future.cancel() else self.future.result()

    def give_up(self) -> None:
        """Close the files of the log, when it is opened: nobody uses it."""
        self.future.cancel()
        self.future.add_done_callback(_close_unused)


def _close_unused(opening: Future[Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().log.close_files()
