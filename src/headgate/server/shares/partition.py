"""One share-partition on this node: its state machine, with the log it reads, its persisted state, its timer,
and the fetches that wait for records.

1. It is loaded from the share coordinator before the first delivery. If it has no start offset yet,
   `share.auto.offset.reset` chooses one, which is persisted at once: a restart must not choose another one.
2. An acknowledgement is answered when its change is durable. Changes nobody waits for are persisted likewise.
3. Waiting fetches are woken in the order in which they came, when records were appended, released, or when
   acknowledgements made room in the window. One that got nothing keeps its place.
4. A start that moved because there is nothing to deliver (markers, aborted transactions, compaction, a moved
   log start) is persisted when the window is empty: nobody will acknowledge anything that persists it.
5. A write that another leader or a newer state fences shows that this object is out of date: it is discarded,
   and the next fetch loads it again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from headgate.core.share.fetching import DeliveredRecords
from headgate.core.share.partition.loading import InvalidState
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcquireMode,
    Acquisition,
    DeliveryLimits,
    StateChange,
)
from headgate.core.share.partition.share_partition import Rest, SharePartition
from headgate.core.share.sessions import PartitionKey
from headgate.core.share.state.commands import (
    UNKNOWN_START,
    ReadState,
    ReadStateResult,
    ReopenState,
    StateResult,
    WriteState,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.domain.offset_reset import ResetStrategy
from headgate.domain.setting import INT_MAX
from headgate.log.batch import CorruptBatch
from headgate.records.share_batches import StateBatch
from headgate.records.share_state_model import DeadLetterMark, ShareKey
from headgate.runtime.failures import Where, unexpected
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.dead_letters import DeadLetters
from headgate.server.shares.reading import read_batches
from headgate.server.shares.settings import ShareGroupSettings
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.partition import Partition, ReadResult
from headgate.topics.waiters import Waiter, Waiters

logger = logging.getLogger(__name__)

MOST_READ_BYTES: Final = 256 << 10
"""Bytes that one fetch reads of one partition, but at least one batch."""
_LEAST_READ_BYTES: Final = 16 << 10
_READ_BEYOND: Final = 1.25
"""A read is larger by this than what the wanted records have, judging from the last read."""
_MOST_READS: Final = 8
"""Reads of one fetch, each of which finds only records that nobody gets, before others have their turn."""
_WOKEN_AT_ONCE: Final = 20
_WAKING_MS: Final = 3
"""Time after which no more fetches are woken in one iteration of the loop."""
_RETRY_MS: Final = 1_000
_MOST_UNWRITTEN: Final = 2_000
"""Ranges of records that are kept to be written again; a restart forgets what happened to earlier ones."""

_FINISHED_AT_ONCE: Final = 8
"""Batches of a write that is finished at once: one sync may complete hundreds of writes."""

_FENCED: Final = frozenset(
    {ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST}
)
"""Errors of a write that another state or leader, or a removed state, explains."""

_TOLD: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that fetches report as they are. The Java client gives up at errors that it does not expect, so all
others become NOT_LEADER_OR_FOLLOWER, after which it fetches again.
"""

OnDone = Callable[[ErrorCode], None]


def _nobody_waits(error: ErrorCode) -> None:
    """Do nothing with the result of a write."""


class Portion(NamedTuple):
    """How much one fetch wants of one partition."""

    member_id: MemberId
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


class WaitingFetch(Protocol):
    """A fetch that waits for records of this partition, and perhaps of others."""

    def look(self, partition: SharedPartition) -> bool:
        """Try again, as `partition` has something; return whether the fetch is answered."""
        ...


class SharedPartition:
    """One share-partition of this node."""

    def __init__(
        self, node: Surroundings, key: ShareKey, settings: ShareGroupSettings, counts: ShareCounts
    ) -> None:
        self.key = key
        self.topic_key: PartitionKey = (key.topic_id, key.partition)
        self.error = ErrorCode.NONE
        """Why this object is of no use, and has been discarded."""
        self.on_discarded: Callable[[], None] = lambda: None
        self._node = node
        self.settings = settings
        self._counts = counts
        self.letters = DeadLetters(node, self, counts)
        self._machine: SharePartition | None = None
        """None until it is loaded."""
        self._is_loading = False
        self._load_began = Millis(0)
        self.has_read_state = False
        """Whether the share coordinator has answered."""
        self._state_epoch = 0
        self._leader_epoch = 0
        self._writes = 0
        """Number of writes that are not finished."""
        self._complete_before = 0
        """The offset before which, by the last write, as many records are complete as there are."""
        self._unwritten: deque[StateBatch] = deque(maxlen=_MOST_UNWRITTEN)
        """What nobody waits for, and could not be written: it is written again."""
        self._is_writing_again = False
        self._queue: dict[WaitingFetch, None] = {}
        self._waiter: Waiter | None = None
        self.is_paused = False
        """Whether no records may be acquired."""
        self._is_reading_on = False
        """Whether a fetch stopped after `_MOST_READS`: there is more to read."""
        self._is_waking = False
        self.holds = 0
        """Administrators that look at this object: it is not given up meanwhile."""
        self.when_ready: list[Callable[[], None]] = []
        """Called once, when it is loaded or discarded."""
        self._record_bytes = float(MOST_READ_BYTES)
        """Bytes of a record in the last read, on the average."""
        self._cancel_timer: Callable[[], None] | None = None
        self._timer_at = 0
        self._are_locks_due = False
        """Whether the timer fired, and locks will be ended in one of the next iterations of the loop."""

    # --- loading ---

    @property
    def is_loaded(self) -> bool:
        """Return whether records can be delivered."""
        return self._machine is not None

    @property
    def machine(self) -> SharePartition | None:
        """Return the state machine, to look at; None before it is loaded."""
        return self._machine

    def load(self, start_by_time: int) -> None:
        """Begin to load, unless that has begun. `start_by_time` is the start if its group begins by time."""
        if self._is_loading or self._machine is not None or self.error:
            return
        self._is_loading = True
        self._load_began = self._node.steady_time()
        partition = self.partition()
        if isinstance(partition, ErrorCode):
            self.discard(partition)
            return
        self._leader_epoch = partition.leader_epoch
        command = ReadState(key=self.key, leader_epoch=self._leader_epoch)
        self._node.share_state.submit(
            self.key.name, command, lambda result: self._was_read(result, start_by_time)
        )

    def _was_read(self, result: ReadStateResult | ErrorCode, start_by_time: int) -> None:
        self.has_read_state = True
        if self.error:
            return
        error = result if isinstance(result, ErrorCode) else result.error
        if error == ErrorCode.INVALID_REQUEST:  # the group has not initialized it
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if isinstance(result, ErrorCode) or error:
            self.discard(error)
            return
        self._state_epoch = result.state_epoch
        start = result.start_offset
        if start == UNKNOWN_START:
            start = self._first_start(start_by_time)
        if start < 0:
            self.discard(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        machine = SharePartition(start, self._limits)
        self._complete_before = result.start_offset + max(0, result.delivery_complete_count)
        is_new = result.start_offset == UNKNOWN_START
        steps = machine.load(result.batches)
        self._load_on(machine, steps, lambda: self._loaded(machine, result.dead_letters, is_new=is_new))

    def _load_on(
        self, machine: SharePartition, steps: Iterator[None], when_loaded: Callable[[], None]
    ) -> None:
        """Load one slice of the state, and the next one in a later iteration of the loop."""
        if self.error:
            return
        try:
            next(steps)
        except StopIteration:
            when_loaded()
        except InvalidState as problem:
            logger.error(
                "state of a share-partition is invalid", extra={"key": self.key.name, "why": str(problem)}
            )
            self.discard(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._node.soon(lambda: self._load_on(machine, steps, when_loaded))

    def _loaded(self, machine: SharePartition, mark: DeadLetterMark | None, *, is_new: bool) -> None:
        self._machine = machine
        self._counts.loads += 1
        self._counts.load_ms += self._node.steady_time() - self._load_began
        if is_new:
            self._persist_start(machine)
        self._archive_exhausted(machine, 0)
        self.letters.loaded(mark)
        self._tell_ready()
        self.wake()

    def _tell_ready(self) -> None:
        waiting, self.when_ready = self.when_ready, []
        for tell in waiting:
            tell()

    def _persist_start(self, machine: SharePartition) -> None:
        """Persist the start of an empty window."""
        self.persist(StateChange(start_offset=machine.start_offset, delivery_complete_count=0, batches=()))

    def _persist_what_nobody_acknowledges(self, machine: SharePartition) -> None:
        """Persist the start of an empty window, unless what was persisted last says that all is complete."""
        if machine.start_offset == machine.end_offset > self._complete_before and not self._writes:
            self._persist_start(machine)

    def _first_start(self, start_by_time: int) -> int:
        """Return where a share-partition begins that was never read (F3); -1 if its log cannot be read."""
        partition = self.partition()
        if isinstance(partition, ErrorCode):
            return -1
        try:
            match self.settings.reset.strategy:
                case ResetStrategy.EARLIEST:
                    return partition.log_start_offset
                case ResetStrategy.LATEST:
                    return self._visible_end(partition)
                case ResetStrategy.BY_DURATION:
                    return start_by_time if start_by_time >= 0 else self._visible_end(partition)
        except (OSError, CorruptBatch) as problem:
            logger.error("log cannot be opened", extra={"key": self.key.name, "error": str(problem)})
            return -1

    def discard(self, error: ErrorCode) -> None:
        """Give this object up; waiting fetches report the error, and the next one makes a new object."""
        if self.error:
            return
        self.error = error if error in _TOLD else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._disarm()
        self.letters.stop_waiting()
        self._tell_ready()
        self.on_discarded()
        self.wake()

    def configure(self, settings: ShareGroupSettings) -> None:
        """Follow the new settings of the group."""
        self._stop_watching()  # the isolation level decides what is watched
        self.settings = settings
        self._watch_log()
        if self._machine is not None:
            was, self._machine.limits = self._machine.limits, self._limits
            if self._machine.limits.delivery_count < was.delivery_count:
                self._archive_exhausted(self._machine, 0)
        self.letters.look_now()
        self.wake()

    def _archive_exhausted(self, machine: SharePartition, offset: int) -> None:
        """Archive what was delivered as often as allowed, some in each iteration of the loop."""
        if self.error:
            return
        change, more = machine.archive_exhausted(offset, self._node.steady_time())
        self.persist_and_wake(change)
        if more is not None:
            self._node.soon(lambda: self._archive_exhausted(machine, more))

    @property
    def _limits(self) -> DeliveryLimits:
        topic = self._node.topics.by_id(self.key.topic_id)
        return self.settings.limits_for("" if topic is None else topic.name)

    def pause(self, *, is_paused: bool) -> None:
        """Stop acquiring records, or go on; what is acquired may be acknowledged meanwhile."""
        was_paused, self.is_paused = self.is_paused, is_paused
        if was_paused and not is_paused:
            self.wake()

    @property
    def is_released(self) -> bool:
        """Return whether no member has records, and all changes are written."""
        is_written = not self._writes and not self._unwritten
        return is_written and (self._machine is None or not self._machine.is_any_in_flight)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is lost with this object but what a read of the state brings back."""
        is_written = not self._writes and not self._unwritten
        is_used = self.holds or self._is_reading_state or self._queue or self._has_locks
        return is_written and not is_used and not self.letters.is_waiting

    @property
    def _is_reading_state(self) -> bool:
        return self._is_loading and self._machine is None

    @property
    def _has_locks(self) -> bool:
        return self._machine is not None and self._machine.next_deadline() is not None

    # --- deliveries ---

    def partition(self) -> Partition | ErrorCode:
        """Return the partition of the topic, or the error of a fetch."""
        topic = self._node.topics.by_id(self.key.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return topic.find_partition(self.key.partition) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fetch(self, portion: Portion) -> DeliveredRecords | None:
        """Acquire records for a member; return None if there are none at the moment."""
        if self.error:
            return DeliveredRecords(key=self.topic_key, error=self.error)
        machine = self._machine
        if machine is None or self.is_paused:
            return None
        self._is_reading_on = False
        delivered = self._fetch(machine, portion)
        self._persist_what_nobody_acknowledges(machine)
        return delivered

    def _fetch(self, machine: SharePartition, portion: Portion) -> DeliveredRecords | None:
        for _ in range(_MOST_READS):
            partition = self.partition()
            if isinstance(partition, ErrorCode):
                self.discard(partition)
                return DeliveredRecords(key=self.topic_key, error=partition)
            found = self._read(partition, machine, portion)
            if found is None or not found.records:
                error = ErrorCode.NONE if found is None else found.error
                return DeliveredRecords(key=self.topic_key, error=error) if error else None
            offset = machine.next_offset()
            delivered = self._acquire(machine, found, portion)
            if delivered is not None or machine.next_offset() == offset:
                return delivered
        self._is_reading_on = True
        self.wake()
        return None

    def _read(self, partition: Partition, machine: SharePartition, portion: Portion) -> ReadResult | None:
        """Read the log where the next available record is; return None if nothing can be acquired."""
        try:
            machine.log_start_moved(partition.log_start_offset)
            if not machine.can_acquire() or machine.next_offset() >= self._visible_end(partition):
                return None
        except (OSError, CorruptBatch) as problem:
            logger.error("log cannot be opened", extra={"key": self.key.name, "error": str(problem)})
            return ReadResult(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition.read(
            machine.next_offset(),
            min(self._enough_bytes(portion.max_records), max(0, portion.max_bytes)),
            minimum_one=True,
            is_committed=self.settings.is_committed,
        )

    def _enough_bytes(self, records: int) -> int:
        """Return how much to read for so many records: all that is read and not sent is lost time."""
        wanted = min(float(MOST_READ_BYTES), records * self._record_bytes * _READ_BEYOND)
        return max(_LEAST_READ_BYTES, int(wanted))

    def _acquire(
        self, machine: SharePartition, found: ReadResult, portion: Portion
    ) -> DeliveredRecords | None:
        offset = machine.next_offset()
        last_new = max(offset, machine.end_offset) + portion.max_records
        read = read_batches(offset, found.records, found.aborted, last_new)
        self._record_bytes = read.record_bytes
        wish = Acquisition(
            member_id=portion.member_id,
            fetched=read.fetched,
            max_records=portion.max_records,
            batch_size=max(1, portion.batch_size),
            mode=portion.mode,
        )
        now = self._node.steady_time()
        acquired = machine.acquire(wish, now)
        if not acquired:
            return None
        self._counts.count_acquired(acquired)
        self._arm(now + self.settings.limits.lock_duration_ms)
        return DeliveredRecords(
            key=self.topic_key, records=read.cut(found.records, acquired), acquired=acquired
        )

    def _visible_end(self, partition: Partition) -> int:
        return partition.last_stable_offset if self.settings.is_committed else partition.high_watermark

    def acknowledge(
        self, member_id: MemberId, batches: Sequence[AcknowledgementBatch], on_done: OnDone
    ) -> None:
        """Acknowledge records; `on_done` gets the result when it is durable."""
        if self._machine is None:
            on_done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        now = self._node.steady_time()
        start = self._machine.start_offset
        error, change = self._machine.acknowledge(member_id, batches, now)
        if not error:
            self._counts.count_acknowledged(batches, start)
        if change is None:
            on_done(error)
        else:
            self.persist(change, on_done)

    def reopen(self, offsets: Sequence[tuple[int, int]], on_done: OnDone) -> None:
        """Let complete records be delivered again; `on_done` gets the result when it is durable."""
        machine = self._machine
        assert machine is not None, "only a loaded share-partition has complete records"
        change = machine.reopen(offsets)
        self._complete_before = change.start_offset + change.delivery_complete_count
        self._forget_unwritten(offsets)
        command = ReopenState(
            key=self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            delivery_complete_count=min(change.delivery_complete_count, INT_MAX),
            offsets=offsets,
        )

        def done(result: StateResult | ErrorCode) -> None:
            error = result if isinstance(result, ErrorCode) else result.error
            machine.reopened(offsets, is_durable=not error)
            self._written(change, on_done, result)

        self._writes += 1
        self._node.share_state.submit(self.key.name, command, done)

    def _forget_unwritten(self, offsets: Sequence[tuple[int, int]]) -> None:
        """Write no earlier completion of these offsets again."""
        kept = [
            batch
            for batch in self._unwritten
            if not any(first <= batch.last_offset and batch.first_offset <= last for first, last in offsets)
        ]
        self._unwritten.clear()
        self._unwritten += kept

    def forget_member(self, member_id: MemberId) -> Rest | None:
        """Part with a member that left, if it has acquired records: pass what is returned to `release`."""
        return None if self._machine is None else self._machine.forget_member(member_id)

    def release(self, rest: Rest) -> None:
        """Take back everything that a member has acquired, some in each iteration of the loop."""
        if self._machine is None or self.error:
            return
        change, more = self._machine.release(rest, self._node.steady_time())
        self.persist_and_wake(change)
        if more is not None:
            self._node.soon(lambda: self.release(more))

    def persist_and_wake(self, change: StateChange | None) -> None:
        if change is not None:
            self.persist(change)
            self.wake()

    def persist(
        self,
        change: StateChange,
        on_done: OnDone = _nobody_waits,
        mark: DeadLetterMark | None = None,
    ) -> None:
        """Write a change to the share coordinator, and finish it when that is durable."""
        command = WriteState(
            key=self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=min(change.delivery_complete_count, INT_MAX),
            batches=change.batches,
            dead_letters=mark,
        )
        self._writes += 1
        self._complete_before = change.start_offset + change.delivery_complete_count

        def done(result: StateResult | ErrorCode) -> None:
            if len(change.batches) <= _FINISHED_AT_ONCE:
                self._written(change, on_done, result)
            else:
                self._node.soon(lambda: self._written(change, on_done, result))

        self._node.share_state.submit(self.key.name, command, done)

    def _written(self, change: StateChange, on_done: OnDone, result: StateResult | ErrorCode) -> None:
        self._writes -= 1
        error = result if isinstance(result, ErrorCode) else result.error
        if change.write and self._machine is not None:
            self._finish_write(self._machine, change.write, is_durable=error == ErrorCode.NONE)
        told = self._counts.failed_writes
        if error and told.is_time():
            logger.warning(
                "state of a share-partition was not written",
                extra={"key": self.key.name, "error": error.name, "not_logged": told.take_skipped()},
            )
        if error in _FENCED:
            error = ErrorCode.FENCED_STATE_EPOCH if error == ErrorCode.INVALID_REQUEST else error
            self.discard(error)
        elif error:
            self._was_not_written(change, is_awaited=bool(change.write) or on_done is not _nobody_waits)
        elif self._machine is not None and not self.error:
            self._persist_what_nobody_acknowledges(self._machine)
        on_done(error)
        self.letters.look()
        self.wake()

    def _was_not_written(self, change: StateChange, *, is_awaited: bool) -> None:
        """Write again later what nobody waits for: who waits is told, and has the records as before."""
        self._complete_before = 0  # the next fetch writes the start again
        if is_awaited:
            return
        self._unwritten += change.batches
        if self._unwritten and not self._is_writing_again and not self.error:
            self._is_writing_again = True
            self._node.call_later(_RETRY_MS, self._write_again)

    def _write_again(self) -> None:
        """Write what could not be written. Later changes win: they have a higher delivery count or state."""
        self._is_writing_again = False
        if self._machine is None or self.error or not self._unwritten:
            return
        batches = tuple(self._unwritten)
        self._unwritten.clear()
        complete = self._machine.delivery_complete_count
        start = self._machine.start_offset
        self.persist(StateChange(start_offset=start, delivery_complete_count=complete, batches=batches))

    def _finish_write(self, machine: SharePartition, write: int, *, is_durable: bool) -> None:
        now = self._node.steady_time()
        self.persist_and_wake(machine.finish_write(write, is_durable=is_durable, now=now))
        deadline = machine.next_deadline()
        if not is_durable and deadline is not None and not self.error:
            self._arm(deadline)  # the lock may have ended meanwhile

    # --- locks ---

    def _arm(self, deadline: int) -> None:
        """Have the locks that end looked at by `deadline`, in ms."""
        if self._are_locks_due:
            return
        if self._cancel_timer is not None:
            if self._timer_at <= deadline:
                return
            self._cancel_timer()
        self._timer_at = deadline
        delay_ms = max(0, deadline - self._node.steady_time()) + 1
        self._cancel_timer = self._node.call_later(delay_ms, self._locks_are_due)

    def _disarm(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None

    def _locks_are_due(self) -> None:
        """End locks in one of the next iterations: the timers of a thousand partitions may fire at once."""
        self._cancel_timer = None
        self._are_locks_due = True
        self._node.soon(self._locks_end)

    def _locks_end(self) -> None:
        self._are_locks_due = False
        if self._machine is None or self.error:
            return
        not_before = 0
        try:
            change = self._machine.expire(self._node.steady_time())
            if change is not None:
                self._counts.expired += sum(last - first + 1 for first, last, _, _ in change.batches)
            self.persist_and_wake(change)
        except Exception as failure:
            unexpected(Where.HOUSEKEEPING, f"locks of {self.key.name} cannot be ended", failure)
            not_before = self._node.steady_time() + _RETRY_MS
        deadline = self._machine.next_deadline()
        if deadline is not None:
            self._arm(max(deadline, not_before))

    # --- waiting fetches ---

    def wait(self, fetch: WaitingFetch) -> None:
        """Add a fetch to those that wait for records."""
        self._queue[fetch] = None
        self._watch_log()
        if self._is_reading_on:
            self.wake()

    def leave(self, fetch: WaitingFetch) -> None:
        """Remove a fetch from those that wait."""
        self._queue.pop(fetch, None)
        if not self._queue:
            self._stop_watching()

    @property
    def _waiters(self) -> Waiters:
        topics = self._node.topics
        return topics.committed_waiters if self.settings.is_committed else topics.waiters

    def _watch_log(self) -> None:
        if self._queue and self._waiter is None and not self.error:
            self._waiter = self._waiters.add((self.topic_key,), 1, self._appended)

    def _stop_watching(self) -> None:
        if self._waiter is not None:
            self._waiters.remove(self._waiter)
            self._waiter = None

    def _appended(self) -> None:
        self._waiter = None
        self.wake()

    def wake(self) -> None:
        """Let waiting fetches look again, in one of the next iterations of the loop."""
        if self._queue and not self._is_waking:
            self._is_waking = True
            self._node.soon(self._wake_some)

    def _wake_some(self) -> None:
        self._is_waking = False
        end = self._node.steady_time() + _WAKING_MS
        for fetch in list(islice(self._queue, _WOKEN_AT_ONCE)):
            if not self._has_something() or not fetch.look(self):
                break
            if self._node.steady_time() > end:
                self.wake()
                break
        else:
            self.wake()
        self._watch_log()

    def _has_something(self) -> bool:
        """Return whether a fetch may get records, or an error."""
        machine = self._machine
        if self.error:
            return True
        if machine is None or self.is_paused or not machine.can_acquire():
            return False
        partition = self.partition()
        try:
            return isinstance(partition, ErrorCode) or machine.next_offset() < self._visible_end(partition)
        except (OSError, CorruptBatch):
            return True
