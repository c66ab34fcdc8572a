"""One partition of a topic: its log, the checks of appends, and the limit of reads.

Rules:

1. No file exists before the first append; until then the partition is empty at offset 0.
2. Readers see records below the high watermark. In a durable topic that is the durable end of the log, so
   records that were read cannot be lost. In a topic in page-cache mode it is the end of the log.
3. A failed write or sync refuses the append with KAFKA_STORAGE_ERROR and affects nothing else. Every later
   append first tries to recover the log, so the partition continues when the disk works again.
4. Producer state and leader epochs are derived from the log (`derived_state`).
"""

from __future__ import annotations

import errno
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.domain.setting import DAY_MS
from headgate.domain.settings import LONG_MAX
from headgate.log.batch import BatchHeader, CorruptBatch, place_batch, read_header, set_log_append_time
from headgate.log.log import LogFailed
from headgate.topics.admission import Admitted, AppendResult, Buffer, admit
from headgate.topics.derived_state import DerivedState
from headgate.topics.leader_epochs import UNDEFINED
from headgate.topics.log_opening import LogOpening, Opened
from headgate.topics.offset_search import FindSteps, FoundOffset, Visible, find_offset
from headgate.topics.partition_files import discard_producers_beyond, load_leader_epochs
from headgate.topics.partition_topic import PartitionTopic
from headgate.topics.trouble import PartitionTrouble

if TYPE_CHECKING:
    from headgate.log.log import Log, Recovery

logger = logging.getLogger(__name__)

_MEND_EVERY_SECONDS = 1.0
"""Minimum interval of recovery attempts while producers send: each attempt reads the log again."""


class ReadResult(NamedTuple):
    """Result of a fetch: whole batches, and the watermarks at that moment (-1 with an error)."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""


class OwningTopic(PartitionTopic, Protocol):
    """What a partition needs from its topic."""

    __slots__ = ()

    def keep(self, partition: Partition) -> None:
        """Register this object as the only one of the partition."""
        ...

    def find_partition(self, index: int) -> Partition | None:
        """Return the partition at `index`; None if the topic has no such partition."""
        ...

    def load_log(self, partition: Partition, on_truncated: Callable[[Recovery], None]) -> Log:
        """Read the log of a partition from the disk. Raises OSError."""
        ...

    def log_opened(self, partition: Partition, log: Log) -> None:
        """Note that the log of a partition is open."""
        ...


class Partition:
    """One partition of a topic; created by the topic. Its state on disk is its log."""

    __slots__ = (
        "_announced_offset",
        "_derived",
        "_is_flush_planned",
        "_log",
        "_mend_at",
        "_opening",
        "_trouble",
        "_unannounced",
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
        self._mend_at = -math.inf
        self._derived = DerivedState(topic, index)
        self._is_flush_planned = False
        self._announced_offset = 0
        """The high watermark that readers were last notified of."""
        self._unannounced: deque[tuple[int, int]] = deque()
        """The appends after that watermark: end offset and size in bytes of each write."""
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
        return self._opening is None or not self._opening.future.done()

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that may be read. Raises OSError."""
        log = self._existing_log
        return log.log_start_offset if log else 0

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record. Raises OSError."""
        log = self._existing_log
        return log.log_end_offset if log else 0

    @property
    def high_watermark(self) -> int:
        """Return the high watermark: readers see the records below it. Raises OSError."""
        log = self._existing_log
        return self._high_watermark(log) if log else 0

    @property
    def size_bytes(self) -> int:
        """Return the size of the log's segments in bytes. Raises OSError."""
        log = self._existing_log
        return log.size_bytes if log else 0

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of new batches."""
        return self.topic.leader_epoch

    def append(self, data: Buffer, now: Millis) -> AppendResult:
        """Append one batch of a producer, after all checks.

        The records are written, but not yet durable; in a durable topic readers see them after `advance`.
        """
        return self.append_admitted(admit(data, self.topic.policy, now), now)

    def append_admitted(self, admitted: Admitted | AppendResult, now: Millis) -> AppendResult:
        """Append the batch that `admit` accepted, or complete its refusal."""
        if isinstance(admitted, AppendResult):
            return self._refused(admitted)
        batch, header = admitted
        try:
            log = self._log or self._open()
            if log.failure is not None:
                self._mend(log)
            if header.producer_id >= 0:
                verdict = self._derived.producers(log).check(header)
                if isinstance(verdict, tuple):
                    return self._repeated(log, verdict.first_offset, verdict.timestamp)
                if verdict != ErrorCode.NONE:
                    return self._refused(_out_of_step(verdict, header))
            append_time = -1
            if self.topic.policy.uses_log_append_time:
                append_time = now
                set_log_append_time(batch, 0, now)
            base_offset = self._write(log, (batch,))
        except (OSError, CorruptBatch) as problem:
            self._known_trouble().append_failed(problem)
            return AppendResult(
                ErrorCode.KAFKA_STORAGE_ERROR, message="The partition's log cannot be written"
            )
        if self._trouble is not None:
            self._trouble.appended(is_enough=not self.topic.policy.is_durable)
        return AppendResult(ErrorCode.NONE, base_offset, append_time, log.log_start_offset)

    def _refused(self, refusal: AppendResult) -> AppendResult:
        """Return the refusal with the log start offset, where Kafka sets it."""
        if not refusal.has_log_start:
            return refusal
        try:
            return refusal._replace(log_start_offset=self.log_start_offset)
        except (OSError, CorruptBatch) as problem:
            logger.error("cannot open %s: %s", self, problem)
            return refusal

    def append_internal(self, batches: Sequence[bytearray]) -> int:
        """Append a coordinator's own batches in one write and return the first one's base offset.

        Raises OSError. A failed log remains failed: its owner calls `log.recover` and loads it again.
        """
        return self._write(self._log or self._open(), batches)

    def advance(self) -> None:
        """Notify waiting readers of newly visible records; called when more of the log is durable."""
        log = self._log
        if log is None:
            return
        visible = self._high_watermark(log)
        if visible > self._announced_offset:
            self._announced_offset = visible
            new_bytes = 0
            unannounced = self._unannounced
            while unannounced and unannounced[0][0] <= visible:
                new_bytes += unannounced.popleft()[1]
            self.topic.shared.waiters.notify(self.key, max(new_bytes, 1))

    @property
    def is_flush_due(self) -> bool:
        """Return whether the writes since the last sync reach the topic's `flush.messages` or `flush.ms`."""
        log, policy = self._log, self.topic.policy
        if log is None:
            return False
        return policy.flush_ms == 0 or log.log_end_offset - log.durable_offset >= policy.flush_messages

    def plan_flush(self) -> int | None:
        """Return the delay in ms until the next sync of the log; None if one is planned, or disabled.

        The caller syncs at that time, and calls `flush_begins` before.
        """
        if self._is_flush_planned or self.topic.policy.flush_ms >= LONG_MAX:
            return None
        self._is_flush_planned = True
        return min(self.topic.policy.flush_ms, DAY_MS)

    def flush_begins(self) -> bool:
        """Note that the planned sync begins; return whether there is something to sync."""
        self._is_flush_planned = False
        return self._log is not None and self._log.failure is None and self._log.needs_sync

    def synced(self, is_durable: bool) -> None:
        """Note the result of a sync of the log."""
        if is_durable:
            if self._trouble is not None:
                self._trouble.synced()
            self.advance()
        elif self._log is not None and self._log.failure is not None:
            self._known_trouble().sync_failed(self._log.failure)

    def read(self, offset: int, max_bytes: int, *, minimum_one: bool) -> ReadResult:
        """Return batches from the one with `offset` on, below the high watermark; never part of a batch.

        With `minimum_one` the first batch is returned whatever its size.
        """
        result = self.read_unless(offset, max_bytes, minimum_one=minimum_one, unless_bytes=max_bytes)
        assert result is not None
        return result

    def read_unless(
        self, offset: int, max_bytes: int, *, minimum_one: bool, unless_bytes: int
    ) -> ReadResult | None:
        """As `read`; but return None and read nothing if the result would exceed `unless_bytes`."""
        try:
            log = self._existing_log
            if log is None:
                return (
                    ReadResult(ErrorCode.NONE, 0, 0)
                    if offset == 0
                    else ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
                )
            start = log.log_start_offset
            if not start <= offset <= log.log_end_offset:
                return ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
            watermark = self._high_watermark(log)
            records = b""
            if offset < watermark and (max_bytes > 0 or minimum_one):
                self.topic.shared.used(log)
                found = log.read_unless(
                    offset, max_bytes, minimum_one=minimum_one, up_to=watermark, unless_bytes=unless_bytes
                )
                if found is None:
                    return None
                records = found
                if self._trouble is not None:
                    self._trouble.was_read()
        except CorruptBatch as problem:
            self._known_trouble().read_failed(problem)
            return ReadResult(ErrorCode.CORRUPT_MESSAGE)
        except OSError as failure:
            self._known_trouble().read_failed(failure)
            return ReadResult(ErrorCode.KAFKA_STORAGE_ERROR)
        return ReadResult(ErrorCode.NONE, watermark, start, records)

    def find_offset(self, timestamp: int) -> FindSteps:
        """Find the first visible record at or after `timestamp`, or of a special timestamp, in steps."""
        try:
            log = self._existing_log
            watermark = self._high_watermark(log) if log else 0
            visible = Visible(watermark, self.leader_epoch, self._derived.epochs)
            return (yield from find_offset(log, visible, timestamp))
        except (OSError, CorruptBatch) as problem:
            self._known_trouble().read_failed(problem)
            return FoundOffset(ErrorCode.KAFKA_STORAGE_ERROR)

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """Check the leader epoch that a client expects; -1 accepts any."""
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_offset_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to `epoch` and its end offset; (-1, -1) if unknown. Raises OSError."""
        log = self._existing_log
        if log is None:
            return UNDEFINED if epoch == -1 or epoch > self.leader_epoch else (epoch, 0)
        return self._derived.epochs.end_offset_of(epoch, self._high_watermark(log))

    def delete_records(self, before: int) -> tuple[ErrorCode, int]:
        """Delete the records below `before` (-1: the high watermark); return the new log start offset."""
        try:
            log = self._existing_log
            watermark = self._high_watermark(log) if log else 0
            offset = watermark if before == -1 else before
            if not 0 <= offset <= watermark:
                return ErrorCode.OFFSET_OUT_OF_RANGE, -1
            if log is None:
                return ErrorCode.NONE, 0
            if offset > log.log_start_offset:
                log.delete_before(offset)
                self.topic.shared.waiters.wake_all(self.key)
            return ErrorCode.NONE, log.log_start_offset
        except OSError as problem:
            logger.error("cannot delete records of %s: %s", self, problem)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1

    def apply_retention(self, now: Millis) -> int:
        """Delete the segments that exceed the retention time or size; return their number."""
        policy = self.topic.policy
        if not policy.may_expire:
            return 0
        try:
            log = self._existing_log
            if log is None or log.failure is not None:
                return 0
            return log.apply_retention(
                now, policy.retention_ms, policy.retention_bytes, up_to=self._high_watermark(log)
            )
        except (OSError, CorruptBatch) as problem:
            logger.error("cannot delete old records of %s: %s", self, problem)
            return 0

    def expires_at(self) -> Millis:
        """Return when the oldest records expire if nothing is appended until then; 0 if unknown."""
        retention_ms = self.topic.policy.retention_ms
        if self._log is None:
            return Millis(0)
        oldest = self._log.oldest_segment_timestamp()
        return Millis(oldest + retention_ms + 1 if retention_ms >= 0 and oldest >= 0 else LONG_MAX)

    def expire_producers(self, before: Millis) -> None:
        """Remove the state of idempotent producers without an append since `before`."""
        self._derived.expire_producers(before)

    def close(self) -> None:
        """Close the log, and write a snapshot for the next start."""
        if self._log is None:
            return
        self._derived.save_producers(self._log)
        self._log.close()
        self.topic.shared.closed(self._log)
        self._log = None

    def put_back(self) -> None:
        """Close a log that was opened only for reading; its files are unchanged."""
        if self._log is not None and not self._derived.appended_bytes:
            self._log.close_files()
            self.topic.shared.closed(self._log)
            self._log = None

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
            self.topic.shared.closed(self._log)
            self._log = None
        self._derived.forget_producers()

    def settings_changed(self) -> None:
        """Apply the topic's new policy."""
        if self._log is not None:
            self._log.settings = self.topic.log_settings()
            self.advance()

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    def _high_watermark(self, log: Log) -> int:
        return log.durable_offset if self.topic.policy.is_durable else log.log_end_offset

    def opening(self) -> Callable[[], None] | None:
        """Return the work that reads the log from the disk, to be run once in another thread; None if not
        needed.

        A user of the log waits for work that has begun and gets its error; the work itself raises nothing.
        Opening a log takes about 0.1 ms for each of its segments.
        """
        if self._log is not None or self._opening is not None or not self.topic.is_written(self.index):
            return None
        self.topic.keep(self)
        self._opening = LogOpening(self._load)
        return self._opening.open_log

    @property
    def when_opened(self) -> Future[Opened] | None:
        """Return a future for the log that is opened in another thread; it also completes on failure."""
        return None if self._opening is None else self._opening.future

    def _open(self) -> Log:
        opening, self._opening = self._opening, None
        log, epochs = self._load() if opening is None else opening.result()
        if self.topic.is_deleted:
            log.close_files()
            raise FileNotFoundError(f"{self} is deleted")
        log.settings = self.topic.log_settings()
        self.topic.log_opened(self, log)
        self._derived.opened(log, epochs)
        self._announced_offset = self._high_watermark(log)
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
            discard_producers_beyond(shared.fs, directory, log.log_end_offset)
            return log, load_leader_epochs(shared.fs, directory, log)
        except OSError:
            log.close_files()
            raise

    def _truncated(self, recovery: Recovery) -> None:
        """Discard the state derived from the truncated part of the log."""
        end_offset = recovery.end_offset
        logger.warning(
            "%s: %d bytes and %d segments were dropped in recovery, the log ends at %d: %s",
            self,
            recovery.dropped_bytes,
            recovery.dropped_segments,
            end_offset,
            recovery.reason,
        )
        if self._log is None:
            return  # The log is being opened: no state is derived yet.
        self._announced_offset = min(self._announced_offset, end_offset)
        self._unannounced.clear()
        self._derived.truncated(end_offset)

    def _mend(self, log: Log) -> None:
        """Recover a failed log. Raises OSError if that fails, or if it was tried a moment ago."""
        seconds = self.topic.shared.seconds()
        if seconds < self._mend_at:
            raise LogFailed(errno.EIO, f"the log failed and is tried again soon: {log.failure}")
        self._mend_at = seconds + _MEND_EVERY_SECONDS
        log.recover()
        self._mend_at = -math.inf

    def _known_trouble(self) -> PartitionTrouble:
        if self._trouble is None:
            self._trouble = PartitionTrouble(logger, self.topic.directory_of(self.index))
        return self._trouble

    def _write(self, log: Log, batches: Sequence[bytearray]) -> int:
        self.topic.shared.used(log)
        self._derived.append_begins()
        base_offset = next_offset = log.log_end_offset
        headers = []
        for batch in batches:
            place_batch(batch, 0, next_offset, self.topic.leader_epoch)
            header = read_header(batch)
            headers.append(header)
            next_offset = header.next_offset
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        log.append(data, headers)
        derived = self._derived
        derived.appended(headers, len(data))
        self._unannounced.append((next_offset, len(data)))
        if not self.topic.policy.is_durable:
            self.advance()
        if derived.appended_bytes >= derived.snapshot_at_bytes:
            derived.save_producers(log)
        return base_offset

    def _repeated(self, log: Log, first_offset: int, timestamp: int) -> AppendResult:
        append_time = timestamp if self.topic.policy.uses_log_append_time else -1
        return AppendResult(ErrorCode.NONE, first_offset, append_time, log.log_start_offset)


def _out_of_step(error: ErrorCode, header: BatchHeader) -> AppendResult:
    return AppendResult(
        error,
        message=f"Producer {header.producer_id} at epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence}",
        has_log_start=True,
    )
