"""One partition of a topic: its appends, its reads and their limits, its shortening.

Rules:

1. Readers see records below the high watermark. In a durable topic that is the durable end of the log, so
   records that were read cannot be lost. In a topic in page-cache mode it is the end of the log. Readers of
   committed records see those below the last stable offset (`transactions.py`).
2. A failed write or sync refuses the append with KAFKA_STORAGE_ERROR and affects nothing else. Every later
   append first tries to recover the log, so the partition continues when the disk works again. Without
   requests `try_disk` finds that out, also for a log that cannot be opened or read.
3. Transactions, the state of producers and leader epochs are derived from the log (`derived_state.py`).
4. Retention does not delete the records of an undecided transaction.
5. A request that found the partition before its topic was deleted is answered UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.domain.setting import DAY_MS
from headgate.domain.settings import LONG_MAX
from headgate.log.batch import BatchHeader, CorruptBatch, place_batch, read_header, set_log_append_time
from headgate.log.markers import EndMarker, encode_marker
from headgate.log.transaction_index import NO_TRANSACTIONS, ListedTransactions
from headgate.topics.admission import Admitted, AppendResult, Buffer, admit
from headgate.topics.leader_epochs import UNDEFINED
from headgate.topics.offset_search import FindSteps, FoundOffset, Visible, find_offset
from headgate.topics.partition_log import OwningTopic, PartitionLog
from headgate.topics.producers import ProducerState
from headgate.topics.transactions import OpenTransaction, TransactionMarker, Verification
from headgate.topics.trouble import Unread

if TYPE_CHECKING:
    from headgate.log.compaction import Steps
    from headgate.log.log import Log

logger = logging.getLogger(__name__)


class ReadResult(NamedTuple):
    """Result of a fetch: whole batches, and the watermarks at that moment (-1 with an error)."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    last_stable_offset: int = -1
    aborted: ListedTransactions = NO_TRANSACTIONS
    """Producer id and first offset of each aborted transaction with records in the batches, for readers of
    committed records; some after the batches may be included.
    """


class Partition(PartitionLog):
    """One partition of a topic; created by the topic. Its state on disk is its log."""

    __slots__ = ("_flush_at",)

    def __init__(self, topic: OwningTopic, index: int) -> None:
        super().__init__(topic, index)
        self._flush_at = math.inf
        """When the next planned sync begins, in seconds of the steady clock."""

    @property
    def current(self) -> Partition | None:
        """Return the object that represents the partition now; None if it was deleted."""
        found = None if self.topic.is_deleted else self.topic.find_partition(self.index)
        return found if isinstance(found, Partition) else None

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
    def last_stable_offset(self) -> int:
        """Return the last stable offset: readers of committed records see those below it. Raises OSError."""
        log = self._existing_log
        return self._last_stable_offset(log) if log else 0

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Return the open transactions, in the order of their first offsets. Raises OSError."""
        log = self._existing_log
        return self._derived.transactions(log).all_open() if log else []

    def open_transaction_of(self, producer_id: int) -> OpenTransaction | None:
        """Return the producer's open transaction in this partition; None without one. Raises OSError."""
        log = self._existing_log
        return self._derived.transactions(log).open_of(producer_id) if log else None

    def active_producers(self) -> list[tuple[int, ProducerState, int]]:
        """Return id and state of each producer, with the first offset of its open transaction; -1 without
        one. Raises OSError, CorruptBatch.
        """
        log = self._existing_log
        return [] if log is None else self._derived.active_producers(log)

    @property
    def size_bytes(self) -> int:
        """Return the size of the log's segments in bytes. Raises OSError."""
        log = self._existing_log
        return log.size_bytes if log else 0

    @property
    def is_failing(self) -> bool:
        """Return whether a disk error keeps the log from being written or read."""
        log, trouble = self._log, self._trouble
        return (log is not None and log.failure is not None) or (trouble is not None and trouble.is_failing)

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of new batches."""
        return self.topic.leader_epoch

    def append(
        self,
        data: Buffer,
        now: Millis,
        verification: Verification = Verification.NONE,
        verified_at: int | None = None,
    ) -> AppendResult:
        """Append one batch of a producer, after all checks.

        The records are written, but not yet durable; in a durable topic readers see them after `advance`.
        `verification` tells what the transaction coordinator said of a transactional batch, and `verified_at`
        the end of the log before it was asked; None: it was asked just now.
        """
        return self.append_admitted(admit(data, self.topic.policy, now), now, verification, verified_at)

    def append_admitted(
        self,
        admitted: Admitted | AppendResult,
        now: Millis,
        verification: Verification = Verification.NONE,
        verified_at: int | None = None,
    ) -> AppendResult:
        """Append the batch that `admit` accepted, or complete its refusal."""
        if self.topic.is_deleted:
            return AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if isinstance(admitted, AppendResult):
            return self._refused(admitted)
        batch, header = admitted
        try:
            log = self._writable_log()
            if header.producer_id >= 0:
                verdict = self._derived.check(log, header, verification, verified_at)
                if isinstance(verdict, tuple):
                    return self._repeated(log, verdict.first_offset, verdict.timestamp)
                if verdict != ErrorCode.NONE:
                    return self._refused(_out_of_step(verdict, header))
            result = self._append(log, batch, now)
            self.topic.traffic.produced_bytes += len(batch)
            return result
        except (OSError, CorruptBatch) as problem:
            self._await(header)
            return self._append_failed(problem)

    def _open(self) -> Log:
        log = super()._open()
        log.on_failed = self._try_disk_later
        if self._trouble is not None and self._trouble.is_failing:
            self._try_disk_later()
        return log

    def _try_disk_later(self) -> None:
        """Have the log tried again without requests."""
        self.topic.shared.failing[self.key] = self.try_disk
        self.topic.shared.on_failing()

    def try_disk(self) -> Steps[bool]:
        """Try, in steps, whether the log can be opened, written and read again, without a record. Return
        False to be called again.

        Without that a log that no client uses would count as failing for ever, and its clients may be those
        that wait until no log fails. The log of a coordinator is only read: its coordinator recovers it.
        """
        opening = self.opening()
        if opening is not None:
            yield opening
        if self.is_being_read:
            return False  # another caller opens it
        try:
            log = None if self.topic.is_deleted else self._existing_log
        except (OSError, CorruptBatch):
            return False
        if log is None:
            return True
        if not self.topic.has_shard and self._is_writable_again(log):
            self.advance()  # a recovery makes durable what was written before the failure
        yield from self._read_again(log)
        return not self.is_failing

    def refused_before_append(self, data: Buffer) -> None:
        """Note that a producer's batch was refused before it came here: it may be sent again, and what
        follows it must not take its place.
        """
        with suppress(CorruptBatch):
            self._await(read_header(data))

    def _await(self, header: BatchHeader) -> None:
        """Note a batch that may be sent again, and keep this object, which alone knows of it."""
        if header.producer_id >= 0 and not self.topic.is_deleted:
            self.topic.keep(self)
            self._derived.awaited.refused(header)

    def end_transaction(self, marker: TransactionMarker, now: Millis) -> AppendResult:
        """Append the marker that ends a producer's transaction, whether one is open here or not.

        It is durable like any append. An older epoch than the producer's is INVALID_PRODUCER_EPOCH; an older
        epoch of another node's coordinator than that of the last marker is TRANSACTION_COORDINATOR_FENCED.
        """
        try:
            log = self._writable_log()
            error = self._derived.check_marker(log, marker)
            if error != ErrorCode.NONE:
                return AppendResult(error)
            end = EndMarker(marker.is_committed, self._derived.coordinator_epoch(log, marker))
            return self._append(log, encode_marker(end, marker.producer_id, marker.epoch, now), now)
        except (OSError, CorruptBatch) as problem:
            return self._append_failed(problem)

    def recover_if_failed(self) -> None:
        """Recover the log if a write or sync failed, as the next append does. Raises OSError."""
        self._writable_log()

    def _append(self, log: Log, batch: bytearray, now: Millis) -> AppendResult:
        """Append a batch after all checks. Raises OSError."""
        append_time = -1
        if self.topic.policy.uses_log_append_time:
            append_time = now
            set_log_append_time(batch, 0, now)
        base_offset = self._write(log, (batch,), now)
        if self._trouble is not None:
            self._trouble.appended(is_enough=not self.topic.policy.is_durable)
        return AppendResult(ErrorCode.NONE, base_offset, append_time, log.log_start_offset)

    def _read_again(self, log: Log) -> Steps[None]:
        """Try, in steps, to read what could not be read."""
        trouble = self._trouble
        if trouble is None or trouble.unread is None:
            return
        offset, timestamp = trouble.unread
        if timestamp is not None:
            found = yield from self.find_offset(timestamp)
            if found.error != ErrorCode.NONE:
                return
        elif log.log_start_offset <= offset < log.log_end_offset:
            try:
                log.read(offset, 1)
            except (OSError, CorruptBatch):
                return
        trouble.can_be_read()

    def _append_failed(self, problem: OSError | CorruptBatch) -> AppendResult:
        self._known_trouble().append_failed(problem)
        self._try_disk_later()
        return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR, message="The partition's log cannot be written")

    def _refused(self, refusal: AppendResult) -> AppendResult:
        """Return the refusal with the log start offset, where Kafka sets it."""
        if not refusal.has_log_start:
            return refusal
        try:
            return refusal._replace(log_start_offset=self.log_start_offset)
        except (OSError, CorruptBatch) as problem:
            self._log_problem("a log cannot be opened", problem)
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
        try:
            stable = self._last_stable_offset(log)
        except OSError:
            stable = -1  # after a recovery: the next reader gets the error
        self._announcements.advance(visible, stable)

    @property
    def is_flush_due(self) -> bool:
        """Return whether the writes since the last sync reach the topic's `flush.messages` or `flush.ms`."""
        log, policy = self._log, self.topic.policy
        if log is None:
            return False
        return policy.flush_ms == 0 or log.log_end_offset - log.durable_offset >= policy.flush_messages

    def plan_flush(self) -> int | None:
        """Return the delay in ms until the next sync; None if one is planned until then, or disabled.

        The caller syncs at that time, and calls `flush_begins` before.
        """
        flush_ms = self.topic.policy.flush_ms
        if flush_ms >= LONG_MAX:
            return None
        delay_ms = min(flush_ms, DAY_MS)
        flush_at = self.topic.shared.seconds() + delay_ms / 1000
        if self._flush_at <= flush_at:
            return None
        self._flush_at = flush_at
        return delay_ms

    def flush_begins(self) -> bool:
        """Note that the planned sync begins; return whether there is something to sync."""
        self._flush_at = math.inf
        return self._log is not None and self._log.failure is None and self._log.needs_sync

    def synced(self, is_durable: bool) -> None:
        """Note the result of a sync of the log."""
        if is_durable:
            if self._trouble is not None:
                self._trouble.synced()
            self.advance()
        elif self._log is not None and self._log.failure is not None:
            self._known_trouble().sync_failed(self._log.failure)
            self._try_disk_later()

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool, is_committed: bool = False
    ) -> ReadResult:
        """Return batches from the one with `offset` on, below the high watermark; never part of a batch.

        With `minimum_one` the first batch is returned whatever its size. With `is_committed` only batches
        below the last stable offset are returned, and the aborted transactions among them listed.
        """
        result = self.read_unless(
            offset, max_bytes, minimum_one=minimum_one, unless_bytes=max_bytes, is_committed=is_committed
        )
        assert result is not None
        return result

    def read_unless(
        self,
        offset: int,
        max_bytes: int,
        *,
        minimum_one: bool,
        unless_bytes: int,
        is_committed: bool = False,
    ) -> ReadResult | None:
        """As `read`; but return None and read nothing if the result would exceed `unless_bytes`."""
        if self.topic.is_deleted:
            return ReadResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            log = self._existing_log
            if log is None:
                return (
                    ReadResult(ErrorCode.NONE, 0, 0, last_stable_offset=0)
                    if offset == 0
                    else ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
                )
            start = log.log_start_offset
            if not start <= offset <= log.log_end_offset:
                return ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE)
            watermark, stable = self._high_watermark(log), self._last_stable_offset(log)
            limit = stable if is_committed else watermark
            records = b""
            aborted = NO_TRANSACTIONS
            if offset < limit and (max_bytes > 0 or minimum_one):
                if log.is_in_closed_segment(offset):
                    self.topic.shared.reads_closed(log)
                self.topic.shared.used(log)
                found = log.read_unless(
                    offset, max_bytes, minimum_one=minimum_one, up_to=limit, unless_bytes=unless_bytes
                )
                if found is None:
                    return None
                records = found
                if is_committed and log.segments.has_aborted:
                    aborted = log.segments.aborted(offset, len(records), limit)
                self.topic.traffic.fetched_bytes += len(found)
                if self._trouble is not None:
                    self._trouble.was_read(offset)
        except CorruptBatch as problem:
            self._read_failed(problem, Unread(offset))
            return ReadResult(ErrorCode.CORRUPT_MESSAGE)
        except OSError as failure:
            self._read_failed(failure, Unread(offset))
            return ReadResult(ErrorCode.KAFKA_STORAGE_ERROR)
        return ReadResult(ErrorCode.NONE, watermark, start, records, stable, aborted)

    def find_offset(self, timestamp: int, *, is_committed: bool = False) -> FindSteps:
        """Find the first visible record at or after `timestamp`, or of a special timestamp, in steps.

        With `is_committed` only the records below the last stable offset are visible.
        """
        try:
            log = self._existing_log
            watermark = end = 0
            if log is not None:
                watermark = self._high_watermark(log)
                end = self._last_stable_offset(log) if is_committed else watermark
                self.topic.shared.used(log)
            visible = Visible(end, watermark, self.leader_epoch, self._derived.epochs)
            found = yield from find_offset(log, visible, timestamp)
        except (OSError, CorruptBatch) as problem:
            if not self.topic.is_deleted:
                self._read_failed(problem, Unread(timestamp=timestamp))
            found = FoundOffset(ErrorCode.KAFKA_STORAGE_ERROR)
        return FoundOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if self.topic.is_deleted else found

    def _read_failed(self, problem: OSError | CorruptBatch, unread: Unread) -> None:
        self._known_trouble().read_failed(problem, unread)
        self._try_disk_later()

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
        """Delete the records below `before` (-1: the high watermark); return the new log start offset.

        If they are in many segments, the next round of `Housekeeping` removes the rest of the files.
        """
        if self.topic.is_deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
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
                self._derived.start_moved(log)
                self._announcements.wake_all()
            return ErrorCode.NONE, log.log_start_offset
        except OSError as problem:
            self._log_problem("records cannot be deleted", problem)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1

    def apply_retention(self, now: Millis) -> int:
        """Delete the segments that exceed the retention time or size; return their number.

        If there are many, `remove_segments` removes the rest of their files.
        """
        policy = self.topic.policy
        if not policy.may_expire:
            return 0
        try:
            log = self._existing_log
            if log is None or log.failure is not None:
                return 0
            before = log.log_start_offset
            segments = log.apply_retention(
                now, policy.retention_ms, policy.retention_bytes, up_to=self._undecided_from(log)
            )
        except (OSError, CorruptBatch) as problem:
            self._log_problem("old records cannot be deleted", problem)
            return 0
        if segments:
            self._derived.start_moved(log)
            self._log_retention(before, log.log_start_offset, segments)
        return segments

    def remove_segments(self) -> bool:
        """Remove files of some more segments whose records are deleted. Return whether there are more."""
        log = self._log
        if log is None or log.failure is not None:
            return False
        try:
            return log.remove_segments()
        except OSError as problem:
            self._log_problem("the files of deleted records cannot be removed", problem)
            return False

    def _log_retention(self, before: int, start: int, segments: int) -> None:
        policy = self.topic.policy
        fields = {"partition": self, "reason": "retention", "from_offset": before, "up_to_offset": start}
        limits = {"retention_ms": policy.retention_ms, "retention_bytes": policy.retention_bytes}
        logger.info("records deleted", extra={**fields, "segments": segments, **limits})

    def _log_problem(self, event: str, problem: Exception) -> None:
        logger.error(event, extra={"partition": self, "error": problem})

    def expires_at(self) -> Millis:
        """Return when the oldest records expire if nothing is appended until then; 0 if unknown."""
        retention_ms = self.topic.policy.retention_ms
        if self._log is None:
            return Millis(0)
        try:
            oldest = self._log.oldest_segment_ms()
        except OSError as problem:
            self._log_problem("old records cannot be deleted", problem)
            return Millis(0)
        return Millis(oldest + retention_ms + 1 if retention_ms >= 0 and oldest >= 0 else LONG_MAX)

    def expire_producers(self, before: Millis, now: Millis) -> None:
        """Remove the state of idempotent producers without an append since `before`."""
        self._derived.expire_producers(before, now)

    def settings_changed(self) -> None:
        """Apply the topic's new policy."""
        if self._log is not None:
            self._log.settings = self.topic.log_settings()
            self.advance()

    def _write(self, log: Log, batches: Sequence[bytearray], now: Millis | None = None) -> int:
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
        derived.appended(log, headers, batches, len(data), now)
        self._announcements.appended(next_offset, len(data))
        if not self.topic.policy.is_durable:
            self.advance()
        if derived.appended_bytes >= derived.snapshot_at_bytes:
            derived.save_snapshot_aside(log)
        return base_offset

    def _repeated(self, log: Log, first_offset: int, timestamp: int) -> AppendResult:
        append_time = timestamp if self.topic.policy.uses_log_append_time else -1
        return AppendResult(ErrorCode.NONE, first_offset, append_time, log.log_start_offset)


def _out_of_step(error: ErrorCode, header: BatchHeader) -> AppendResult:
    message = (
        f"Producer {header.producer_id} at epoch {header.producer_epoch} sent sequence {header.base_sequence}"
    )
    if error == ErrorCode.INVALID_TXN_STATE:
        message = (
            "Record was not part of an ongoing transaction"
            if header.is_transactional
            else f"Producer {header.producer_id} sent a batch without its open transaction"
        )
    return AppendResult(error, message=message, has_log_start=True)
