"""One share-partition on this node: the deliveries of its records, and what they need.

Each part has a module: the load of its state (`loading`), the log it reads (`source_log`), the writes of its
changes (`writing`), the timer of its locks (`locks`), the fetches that wait for records (`waiting`) and the
dead letters (`dead_letters`). This one joins them:

1. It is loaded before the first delivery. A start that the load chose is durable before that as well: a
   restart must not choose another one.
2. What a change makes possible is looked at after it: waiting fetches are woken, dead letters written.
3. A share-partition that is out of date, or of no use for another reason, is discarded: waiting fetches
   report why, and the next one makes a new object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from headgate.core.share.fetching import DeliveredRecords
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcquireMode,
    Acquisition,
    DeliveryLimits,
    StateChange,
)
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.partition.taking_back import Rest
from headgate.core.share.sessions import PartitionKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.log.batch import CorruptBatch
from headgate.records.share_state_model import DeadLetterMark, ShareKey
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.dead_letters import DeadLetters
from headgate.server.shares.loading import LoadedState, Loading, LoadPlan
from headgate.server.shares.locks import LockTimer
from headgate.server.shares.settings import ShareGroupSettings
from headgate.server.shares.source_log import SourceLog
from headgate.server.shares.surroundings import Surroundings
from headgate.server.shares.waiting import WaitingFetch, WaitingFetches
from headgate.server.shares.writing import OnDone, StateWriter
from headgate.topics.partition import Partition, ReadResult

logger = logging.getLogger(__name__)

_MOST_READS: Final = 8
"""Reads of one fetch, each of which finds only records that nobody gets, before others have their turn."""

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


class Portion(NamedTuple):
    """How much one fetch wants of one partition."""

    member_id: MemberId
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


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
        self._machine: SharePartition | None = None
        """None until it is loaded, and its start is durable."""
        self._loading: Loading | None = None
        """The load, from its beginning on."""
        self.log = SourceLog(node, key)
        self.log.is_committed = settings.is_committed
        self.writes = StateWriter(node, key, self, counts)
        self.locks = LockTimer(node, key.name, self._end_locks)
        self.waiting: WaitingFetches[SharedPartition] = WaitingFetches(
            node, self.topic_key, self, self._has_something
        )
        self.waiting.is_committed = settings.is_committed
        self.letters = DeadLetters(node, self, counts)
        self.is_paused = False
        """Whether no records may be acquired."""
        self._is_reading_on = False
        """Whether a fetch stopped after `_MOST_READS`: there is more to read."""
        self.holds = 0
        """Administrators that look at this object: it is not given up meanwhile."""
        self.when_ready: list[Callable[[], None]] = []
        """Called once, when it is loaded or discarded."""

    # --- from the load to the end ---

    @property
    def is_loaded(self) -> bool:
        """Return whether records can be delivered."""
        return self._machine is not None

    @property
    def machine(self) -> SharePartition | None:
        """Return the state machine, to look at; None before it is loaded."""
        return self._machine

    @property
    def has_read_state(self) -> bool:
        """Return whether the share coordinator has told the state."""
        return self._loading is not None and self._loading.has_read_state

    def load(self, start_by_time: int) -> None:
        """Begin to load, unless that has begun. `start_by_time` is the start if its group begins by time."""
        if self._loading is None and not self.error:
            self._loading = Loading(self._node, self.key, self.log, self._loaded)
            self._loading.begin(LoadPlan(self._limits, self.settings.reset.strategy, start_by_time))

    def _loaded(self, found: LoadedState | ErrorCode) -> None:
        if isinstance(found, ErrorCode):
            self.discard(found)
            return
        self.writes.begin(found.state, found.leader_epoch)
        if found.is_new:
            self.writes.persist_start(found.machine, partial(self._has_start, found))
        else:
            self._has_start(found, ErrorCode.NONE)

    def _has_start(self, found: LoadedState, error: ErrorCode) -> None:
        """Begin to deliver: the start is durable, unless it could not be written."""
        if error:
            self.discard(error)
        if self.error:
            return
        machine = self._machine = found.machine
        machine.limits = self._limits()  # the settings may have changed since the load began
        self._counts.loads += 1
        if self._loading is not None:
            self._counts.load_ms += self._node.steady_time() - self._loading.began
        self._archive_exhausted(machine, 0)
        self.letters.loaded(found.state.dead_letters)
        self._tell_ready()
        self.wake()

    def _tell_ready(self) -> None:
        waiting, self.when_ready = self.when_ready, []
        for tell in waiting:
            tell()

    def discard(self, error: ErrorCode) -> None:
        """Give this object up; waiting fetches report the error, and the next one makes a new object."""
        if self.error:
            return
        self.error = error if error in _TOLD else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._loading is not None:
            self._loading.stop()
        self.locks.stop()
        self.letters.stop_waiting()
        self._tell_ready()
        self.on_discarded()
        self.wake()

    def configure(self, settings: ShareGroupSettings) -> None:
        """Follow the new settings of the group."""
        self.settings = settings
        self.log.is_committed = settings.is_committed
        self.waiting.watch_again(is_committed=settings.is_committed)
        if self._machine is not None:
            was, self._machine.limits = self._machine.limits, self._limits()
            if self._machine.limits.delivery_count < was.delivery_count:
                self._archive_exhausted(self._machine, 0)
        self.letters.look_now()
        self.wake()

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
        return self.writes.is_done and (self._machine is None or not self._machine.is_any_in_flight)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is lost with this object but what a read of the state brings back."""
        is_used = self.holds or self._is_loading or len(self.waiting) or self._has_locks
        return self.writes.is_done and not is_used and not self.letters.is_waiting

    @property
    def _is_loading(self) -> bool:
        return self._loading is not None and self._machine is None

    @property
    def _has_locks(self) -> bool:
        return self._machine is not None and self._machine.next_deadline() is not None

    # --- deliveries ---

    def partition(self) -> Partition | ErrorCode:
        """Return the partition of the topic, or the error of a fetch."""
        return self.log.partition()

    def fetch(self, portion: Portion) -> DeliveredRecords | None:
        """Acquire records for a member; return None if there are none at the moment."""
        if self.error:
            return DeliveredRecords(key=self.topic_key, error=self.error)
        machine = self._machine
        if machine is None or self.is_paused:
            return None
        self._is_reading_on = False
        delivered = self._fetch(machine, portion)
        self.writes.persist_what_nobody_acknowledges(machine)
        return delivered

    def _fetch(self, machine: SharePartition, portion: Portion) -> DeliveredRecords | None:
        for _ in range(_MOST_READS):
            partition = self.log.partition()
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
            if not machine.can_acquire() or machine.next_offset() >= self.log.visible_end(partition):
                return None
        except (OSError, CorruptBatch) as problem:
            logger.error("log cannot be opened", extra={"key": self.key.name, "error": str(problem)})
            return ReadResult(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.log.read(partition, machine.next_offset(), portion.max_records, portion.max_bytes)

    def _acquire(
        self, machine: SharePartition, found: ReadResult, portion: Portion
    ) -> DeliveredRecords | None:
        offset = machine.next_offset()
        read = self.log.batches_of(found, offset, max(offset, machine.end_offset) + portion.max_records)
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
        self.locks.set(now + self.settings.limits.lock_duration_ms)
        return DeliveredRecords(
            key=self.topic_key, records=read.cut(found.records, acquired), acquired=acquired
        )

    def acknowledge(
        self, member_id: MemberId, batches: Sequence[AcknowledgementBatch], on_done: OnDone
    ) -> None:
        """Acknowledge records; `on_done` gets the result when it is durable."""
        if self._machine is None or self.error:
            on_done(self.error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        now = self._node.steady_time()
        start = self._machine.start_offset
        error, change = self._machine.acknowledge(member_id, batches, now)
        if not error:
            self._counts.count_acknowledged(batches, start)
            self.locks.set(now + self._machine.limits.lock_duration_ms)  # of what was renewed
        if change is None:
            on_done(error)
        else:
            self.writes.persist(change, on_done)

    def reopen(self, offsets: Sequence[tuple[int, int]], on_done: OnDone) -> None:
        """Let complete records be delivered again; `on_done` gets the result when it is durable."""
        assert self._machine is not None, "only a loaded share-partition has complete records"
        self.writes.reopen(self._machine, offsets, on_done)

    # --- what is taken back ---

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

    def _end_locks(self) -> int | None:
        """End some of the locks that are due; return when to look again."""
        machine = self._machine
        if machine is None or self.error:
            return None
        change = machine.expire(self._node.steady_time())
        if change is not None:
            self._counts.expired += sum(last - first + 1 for first, last, _, _ in change.batches)
        self.persist_and_wake(change)
        return machine.next_deadline()

    def _archive_exhausted(self, machine: SharePartition, offset: int) -> None:
        """Archive what was delivered as often as allowed, some in each iteration of the loop."""
        if self.error:
            return
        change, more = machine.archive_exhausted(offset, self._node.steady_time())
        self.persist_and_wake(change)
        if more is not None:
            self._node.soon(lambda: self._archive_exhausted(machine, more))

    # --- changes ---

    def persist(self, change: StateChange, on_done: OnDone, mark: DeadLetterMark | None = None) -> None:
        """Write a change to the share coordinator; `on_done` gets the result when it is durable."""
        self.writes.persist(change, on_done, mark)

    def persist_and_wake(self, change: StateChange | None) -> None:
        """Write a change that nobody waits for, if there is one, and let waiting fetches look again."""
        if change is not None:
            self.writes.persist(change)
            self.wake()

    def finished(self, change: StateChange | None, *, is_undone: bool) -> None:
        """Persist what the end of a write changed; look at the locks of records that members have again."""
        self.persist_and_wake(change)
        if is_undone and self._machine is not None and not self.error:
            deadline = self._machine.next_deadline()
            if deadline is not None:
                self.locks.set(deadline)  # the lock may have ended meanwhile

    def was_written(self) -> None:
        """Look at what a write made possible."""
        self.letters.look()
        self.wake()

    # --- waiting fetches ---

    def wait(self, fetch: WaitingFetch[SharedPartition]) -> None:
        """Add a fetch to those that wait for records."""
        self.waiting.add(fetch)
        if self._is_reading_on:
            self.wake()

    def leave(self, fetch: WaitingFetch[SharedPartition]) -> None:
        """Remove a fetch from those that wait."""
        self.waiting.remove(fetch)

    def wake(self) -> None:
        """Let waiting fetches look again, in one of the next iterations of the loop."""
        self.waiting.wake()

    def _has_something(self) -> bool:
        """Return whether a fetch may get records, or an error."""
        machine = self._machine
        if self.error:
            return True
        if machine is None or self.is_paused or not machine.can_acquire():
            return False
        try:
            return self.log.has_records(machine)
        except (OSError, CorruptBatch):
            return True
