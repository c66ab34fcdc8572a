"""The log of a partition, and what was derived from it: opened, recovered after a failure, closed.

Rules:

1. No file exists before the first append; until then the partition is empty at offset 0.
2. A log is opened once. If another thread opens it, its first user waits for that.
3. After a failed write or sync the log is recovered before the next append, but not more often than
   `_MEND_EVERY_SECONDS`.
"""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from headgate.log.batch import CorruptBatch
from headgate.log.log import LogFailed, do_nothing
from headgate.topics.announcements import Announcements
from headgate.topics.derived_state import DerivedState
from headgate.topics.log_opening import LogOpening, Opened
from headgate.topics.partition_files import (
    discard_snapshot_beyond,
    load_leader_epochs,
    load_producers,
    load_snapshot,
    save_derived,
)
from headgate.topics.partition_topic import PartitionTopic
from headgate.topics.producers import ProducerCount
from headgate.topics.transaction_loading import load_transactions
from headgate.topics.trouble import PartitionTrouble

if TYPE_CHECKING:
    from headgate.log.log import Log, Recovery
    from headgate.log.sync import SyncRequest

logger = logging.getLogger(__name__)

_MEND_EVERY_SECONDS = 1.0
"""Minimum interval of recovery attempts while producers send: each attempt reads the log again."""
_LONG_OPENING_SECONDS = 0.1
"""A failed attempt to open a log that took longer is repeated for requests after a pause."""
_PAUSE_FACTOR = 10.0
"""Pause after a failed attempt, which may have read all of a log, divided by its length."""
TRIED_BYTES = 1 << 20
"""Free space, in bytes, with which a log that could not be written counts as working: a large batch."""
_WORTH_A_SNAPSHOT_BYTES = 1 << 20
"""If a larger log was read because it had no usable snapshot, one is written at once."""


class OwningTopic(PartitionTopic, Protocol):
    """What a partition needs from its topic."""

    __slots__ = ()

    def keep(self, partition: PartitionLog) -> None:
        """Register this object as the only one of the partition."""
        ...

    def find_partition(self, index: int) -> PartitionLog | None:
        """Return the partition at `index`; None if the topic has no such partition."""
        ...

    def load_log(self, partition: PartitionLog, on_truncated: Callable[[Recovery], None]) -> Log:
        """Read the log of a partition from the disk. Raises OSError."""
        ...

    def log_opened(self, partition: PartitionLog, log: Log) -> None:
        """Note that the log of a partition is open."""
        ...

    def log_closed(self, partition: PartitionLog, log: Log) -> None:
        """Note that the log of a partition is closed."""
        ...


class PartitionLog:
    """The log of one partition of a topic, with the state derived from it."""

    __slots__ = (
        "_announcements",
        "_derived",
        "_failure_to_open",
        "_log",
        "_mend_at",
        "_open_at",
        "_opening",
        "_trouble",
        "index",
        "key",
        "topic",
    )

    def __init__(self, topic: OwningTopic, index: int) -> None:
        self.topic = topic
        self.index = index
        self.key = (topic.topic_id, index)
        self._log: Log | None = None
        self._opening: LogOpening | None = None
        """The opening of the log in another thread, until the log is first used."""
        self._open_at = -math.inf
        self._failure_to_open: OSError | CorruptBatch | None = None
        """Why the log could not be opened at the last attempt."""
        self._mend_at = -math.inf
        self._derived = DerivedState(topic, index)
        self._announcements = Announcements(topic.shared, self.key)
        self._trouble: PartitionTrouble | None = None
        """The failures and their log messages; None before the first failure."""

    @property
    def log(self) -> Log:
        """Return the log; open it if necessary. The first append creates its directory. Raises OSError."""
        return self._log or self._open()

    @property
    def _existing_log(self) -> Log | None:
        """Return the log if it exists. Raises OSError if it cannot be opened."""
        if self._log is None and self.topic.is_written(self.index):
            return self._open()
        return self._log

    @property
    def is_open(self) -> bool:
        """Return whether the log is open."""
        return self._log is not None

    @property
    def is_opening(self) -> bool:
        """Return whether the log is being opened, or was opened and not used yet."""
        return self._opening is not None

    @property
    def needs_opening(self) -> bool:
        """Return whether the log must be read from the disk, or waited for, before use."""
        if self._log is not None or not self.topic.is_written(self.index):
            return False
        if self._opening is None:
            return self._recent_failure_to_open is None
        return not self._opening.future.done()

    @property
    def _recent_failure_to_open(self) -> OSError | CorruptBatch | None:
        """Why the log could not be opened a moment ago, if it is not tried again yet."""
        failure = self._failure_to_open
        return None if failure is None or self.topic.shared.seconds() >= self._open_at else failure

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    def close(self) -> None:
        """Close the log, and write a snapshot for the next start."""
        request = self.begin_close()
        if request is not None:
            request.run_quietly()
        self.end_close(request)

    def begin_close(self) -> SyncRequest | None:
        """Do what `close` does before its sync, and return that: see `Log.begin_close`. Raises OSError."""
        if self._log is None:
            return None
        self._derived.save_snapshot(self._log)
        return self._log.begin_close()

    def end_close(self, request: SyncRequest | None) -> None:
        """Finish what was begun, after the sync. Raises its OSError."""
        if self._log is not None:
            self._log.end_close(request)
            self._release(self._log)

    def save_snapshot(self) -> None:
        """Write a snapshot of the derived state, which saves reading the log at the next start."""
        if self._log is not None and self._log.failure is None:
            self._derived.save_snapshot_aside(self._log)

    def put_back(self) -> None:
        """Close a log that was opened only for reading; its files are unchanged."""
        if self._log is not None and not self._derived.appended_bytes:
            self._log.close_files()
            self._release(self._log)
            self._derived.forget_producers()

    @property
    def is_being_read(self) -> bool:
        """Return whether another thread uses the directory to open the log; do not move it meanwhile."""
        return self._opening is not None and not self._opening.future.done()

    def give_up(self) -> None:
        """Refuse all further requests: the topic is deleted, and its owner removes the directory.

        An opening that has begun continues in its thread, see `is_being_read`.
        """
        if self._opening is not None:
            self._opening.give_up()
        if self._log is not None:
            self._log.give_up()
            self._release(self._log)
        self._derived.given_up()

    def _release(self, log: Log) -> None:
        """Forget a log that was closed."""
        self.topic.log_closed(self, log)
        log.on_failed = do_nothing
        self._log = None

    def opening(self) -> Callable[[], None] | None:
        """Return the work that reads the log from the disk, to be run once in another thread; None if not
        needed.

        A user of the log waits for work that has begun and gets its error; the work itself raises nothing.
        Opening a log takes about 0.1 ms for each of its segments.
        """
        if self._log is not None or self._opening is not None or not self.topic.is_written(self.index):
            return None
        self.topic.keep(self)
        self._opening = self._new_opening()
        return self._opening.open_log

    def _new_opening(self) -> LogOpening:
        return LogOpening(self._load, self.topic.shared.seconds)

    @property
    def when_opened(self) -> Future[Opened] | None:
        """Return a future for the log that is opened in another thread; it also completes on failure."""
        return None if self._opening is None else self._opening.future

    def _open(self) -> Log:
        """Open the log. Raises OSError and CorruptBatch, also if that failed a moment ago."""
        if self._opening is None and (failure := self._recent_failure_to_open) is not None:
            raise failure.with_traceback(None)
        opening, self._opening = self._opening or self._new_opening(), None
        try:
            opened = opening.result()
        except (OSError, CorruptBatch) as problem:
            self._failure_to_open = problem
            if opening.seconds > _LONG_OPENING_SECONDS:
                self._open_at = self.topic.shared.seconds() + _PAUSE_FACTOR * opening.seconds
            raise
        self._failure_to_open = None
        log = opened.log
        if self.topic.is_deleted:
            log.close_files()
            raise FileNotFoundError(f"{self} is deleted")
        log.settings = self.topic.log_settings()
        self.topic.log_opened(self, log)
        self._derived.opened(opened)
        self._announcements.begin(self._high_watermark(log), self._last_stable_offset(log))
        self._log = log
        return log

    def _load(self) -> Opened:
        """Read the log and its leader epochs from the disk."""
        if self.topic.is_deleted:
            raise FileNotFoundError(f"{self} is deleted")
        shared = self.topic.shared
        directory = self.topic.directory_of(self.index)
        log = self.topic.load_log(self, self._truncated)
        try:
            discard_snapshot_beyond(shared.fs, directory, log.log_end_offset)
            epochs = load_leader_epochs(shared.fs, directory, log)
            snapshot = load_snapshot(shared.fs, directory, log)
            transactions, is_restored = load_transactions(log, snapshot)
            producers = load_producers(log, snapshot, ProducerCount(), transactions)
            if not is_restored and log.size_bytes >= _WORTH_A_SNAPSHOT_BYTES:
                save_derived(shared.fs, directory, log, transactions, producers)
            return Opened(log, epochs, transactions, producers)
        except OSError:
            log.close_files()
            raise

    def _truncated(self, recovery: Recovery) -> None:
        """Discard the state derived from the truncated part of the log."""
        end_offset = recovery.end_offset
        fields = {
            "partition": self,
            "bytes": recovery.dropped_bytes,
            "segments": recovery.dropped_segments,
            "end_offset": end_offset,
            "reason": recovery.reason,
        }
        logger.warning("end of a log dropped in recovery", extra=fields)
        if self._log is None:
            return  # The log is being opened: no state is derived yet.
        self._announcements.truncated(end_offset)
        self._derived.truncated(end_offset)

    def _mend(self, log: Log) -> None:
        """Recover a failed log. Raises OSError if that fails, or if it was tried a moment ago."""
        seconds = self.topic.shared.seconds()
        if seconds < self._mend_at:
            raise LogFailed(errno.EIO, f"the log failed and is tried again soon: {log.failure}")
        try:
            log.recover()
        except BaseException:
            failed_at = self.topic.shared.seconds()
            self._mend_at = failed_at + max(_MEND_EVERY_SECONDS, _PAUSE_FACTOR * (failed_at - seconds))
            raise
        self._mend_at = -math.inf

    def _writable_log(self) -> Log:
        """Return the log, recovered if it had failed. Raises OSError."""
        log = self._log or self._open()
        if log.failure is not None:
            self._mend(log)
        return log

    def _is_writable_again(self, log: Log) -> bool:
        """Recover the log if it failed, and reserve and release space. Return whether that succeeds."""
        trouble = self._trouble
        if log.failure is not None:  # perhaps outside of an append, such as in a compaction
            trouble = self._known_trouble()
            trouble.append_failed(log.failure)
        elif trouble is None or not trouble.is_write_failing:
            return True
        try:
            self._writable_log().try_space(TRIED_BYTES)
        except (OSError, CorruptBatch):
            return False
        trouble.can_be_written()
        return True

    def _known_trouble(self) -> PartitionTrouble:
        """Return the failures; keep this object, which alone knows of them: the log may not even be open."""
        if not self.topic.is_deleted:
            self.topic.keep(self)
        if self._trouble is None:
            self._trouble = PartitionTrouble(logger, self.topic.directory_of(self.index))
        return self._trouble

    def _high_watermark(self, log: Log) -> int:
        return log.durable_offset if self.topic.policy.is_durable else log.log_end_offset

    def _undecided_from(self, log: Log) -> int:
        """Return the last stable offset without regard to damaged batches: retention deletes those, too."""
        undecided = self._derived.transactions(log).undecided_from(self._high_watermark(log))
        return max(undecided, log.log_start_offset)

    def _last_stable_offset(self, log: Log) -> int:
        """Return the last stable offset of the open log."""
        return max(
            self._derived.transactions(log).last_stable_offset(self._high_watermark(log)),
            log.log_start_offset,
        )
