"""Choose the partition to compact next, and its settings.

The rules are Kafka's where Kafka has them:

1. A log is due when the share of its closed segments that was never compacted reaches
   min.cleanable.dirty.ratio, or when its oldest uncompacted record is older than max.compaction.lag.ms.
2. Records at or above the last stable offset, segments with a record younger than min.compaction.lag.ms and
   the active segment are not compacted.
3. Logs over max.compaction.lag.ms come first, then those with the highest dirty ratio. A node compacts one at
   a time.
4. A log whose compaction failed is tried again after RETRY_AFTER_SECONDS; one in which nothing could be
   compacted, when it has grown by a segment.
5. A closed log is opened to see whether it is due, and again at the time at which it may become due.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import LONG_MAX
from headgate.log.backlog import Backlog, backlog_of
from headgate.log.compaction import (
    CompactionOrder,
    CompactionResult,
    Completeness,
    Dropped,
    Expired,
    Steps,
    compact,
)
from headgate.log.header import CorruptBatch
from headgate.topics.waiters import PartitionKey

if TYPE_CHECKING:
    from headgate.log.log import Log
    from headgate.topics.partition import Partition
    from headgate.topics.policy import TopicPolicy
    from headgate.topics.topic import Topic
    from headgate.topics.topics import Topics

RETRY_AFTER_SECONDS = 600.0
_OPENED_AT_ONCE = 16
"""Number of logs that one round opens only to check whether they are due."""


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """Rules that depend on the kind of records in a partition."""

    new_completeness: Callable[[], Completeness] | None = None
    dropped: Dropped | None = None
    expired: Expired | None = None


NO_RULES = CompactionRules()


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A partition to be compacted: run `steps` to the end."""

    partition: Partition
    dirty_ratio: float
    steps: Steps[CompactionResult]


@dataclass(frozen=True, slots=True)
class _Candidate:
    partition: Partition
    log: Log
    backlog: Backlog
    is_overdue: bool
    was_open: bool

    @property
    def urgency(self) -> tuple[bool, float]:
        return self.is_overdue, self.backlog.dirty_ratio

    @property
    def pressure(self) -> float:
        return self.backlog.pressure(self.log.settings.segment_bytes)


class Compactor:
    """Chooses among the partitions of a node's compacted topics."""

    def __init__(
        self,
        topics: Topics,
        rules_of: Callable[[Partition], CompactionRules] = lambda partition: NO_RULES,
    ) -> None:
        self._topics = topics
        self._rules_of = rules_of
        self._next_looks: dict[TopicId, dict[int, tuple[TopicPolicy, Millis]]] = {}
        """The policy of each closed log, and the time in ms at which it may be due."""
        self._not_before: dict[PartitionKey, float] = {}
        """In seconds of the steady clock."""
        self._stuck_at: dict[PartitionKey, int] = {}
        self._chosen: _Candidate | None = None
        """The last choice: its compaction runs, or has ended."""
        self._others_pressure = 0.0
        """The highest pressure among the candidates that were not chosen."""
        topics.on_deleted.append(self._forget)

    def _forget(self, topic: Topic) -> None:
        """Discard the state of a deleted topic."""
        self._next_looks.pop(topic.topic_id, None)
        for notes in (self._not_before, self._stuck_at):
            for key in [key for key in notes if key[0] == topic.topic_id]:
                del notes[key]

    def next_job(self, now: Millis, is_slice_over: Callable[[], bool]) -> Steps[CompactionJob | None]:
        """Find, in steps, the compaction that is most urgent at `now` (system time, ms); None if none is due.

        `is_slice_over` tells when to yield to other work.
        """
        candidates: list[_Candidate] = []
        for partition in self._partitions(now):
            if is_slice_over():
                yield None
            if partition is None:
                continue
            if not partition.is_open and (opening := partition.opening()) is not None:
                # After a recovery it remains open, so that the next stop closes it well.
                was_open = partition.key in partition.topic.shared.unrecovered
                yield opening
            else:
                was_open = partition.is_open
            if not partition.topic.is_deleted:
                found = self._candidate(partition, now, was_open=was_open or partition.is_open)
                if found is not None:
                    candidates.append(found)
        candidates = [found for found in candidates if not found.partition.topic.is_deleted]
        if not candidates:
            self._chosen, self._others_pressure = None, 0.0
            return None
        chosen = max(candidates, key=lambda candidate: candidate.urgency)
        for candidate in candidates:
            if candidate is not chosen and not candidate.was_open:
                candidate.partition.put_back()
                self._look_again(candidate.partition, now)
        self._chosen = chosen
        self._others_pressure = max((one.pressure for one in candidates if one is not chosen), default=0.0)
        partition = chosen.partition
        partition.topic.shared.used(chosen.log)
        rules = self._rules_of(partition)
        settings = self._topics.settings
        order = CompactionOrder(
            now_ms=now,
            delete_retention_ms=partition.topic.policy.delete_retention_ms,
            not_beyond=chosen.backlog.end_offset,
            producers_since_ms=now - settings["producer.id.expiration.ms"],
            table_bytes=settings["log.cleaner.dedupe.buffer.size"],
            new_completeness=rules.new_completeness,
            dropped=rules.dropped,
            expired=rules.expired,
            is_slice_over=is_slice_over,
        )
        return CompactionJob(partition, chosen.backlog.dirty_ratio, self._steps(chosen, order))

    def pressure(self, now: Millis) -> float:
        """Return the pressure (`Backlog.pressure`) of the most urgent log: current for the log being
        compacted, as of the last choice for the others.
        """
        chosen = self._chosen
        if chosen is None or not chosen.partition.is_open:
            return self._others_pressure
        backlog = _backlog_of(chosen.partition, chosen.log, now)
        return max(backlog.pressure(chosen.log.settings.segment_bytes), self._others_pressure)

    def failed(self, partition: Partition) -> None:
        """Do not try the partition again for RETRY_AFTER_SECONDS: its compaction failed."""
        self._not_before[partition.key] = partition.topic.shared.seconds() + RETRY_AFTER_SECONDS

    def _steps(self, chosen: _Candidate, order: CompactionOrder) -> Steps[CompactionResult]:
        log, key = chosen.log, chosen.partition.key
        before = log.compacted_to
        result = yield from compact(log, order)
        if log.segments.has_aborted:
            chosen.partition.save_snapshot()  # else the next start reads the log: these files have changed
        if result.end_offset == before:
            self._stuck_at[key] = chosen.backlog.end_offset
        return result

    def _partitions(self, now: Millis) -> Iterator[Partition | None]:
        """Yield the partitions to check: open ones always, closed ones when they may be due, a few a round.

        Yield None once per topic, so that the caller can pause: most of many topics are not compacted.
        """
        to_open = _OPENED_AT_ONCE
        for topic in self._topics.all():
            yield None
            if topic.is_deleted or not topic.policy.is_compacted:
                continue
            yield from topic.open_partitions()
            if not to_open:
                continue
            looks = self._next_looks.setdefault(topic.topic_id, {})
            for index in topic.written_partitions():
                look = looks.get(index)
                if look is not None and look[0] is topic.policy and now < look[1]:
                    continue
                partition = topic.partition(index)
                if to_open and not partition.is_open and not _is_left_to_users(partition):
                    to_open -= 1
                    self._look_again(partition, Millis(LONG_MAX))
                    yield partition

    def _candidate(self, partition: Partition, now: Millis, *, was_open: bool) -> _Candidate | None:
        try:
            candidate = self._judge(partition, now, was_open=was_open)
            if candidate is None and not was_open:
                self._look_again(partition, self._may_be_due_at(partition, now))
        except (OSError, CorruptBatch):
            self.failed(partition)
            self._look_again(partition, Millis(now + int(RETRY_AFTER_SECONDS * 1000)))
            return None
        if candidate is None and not was_open:
            partition.put_back()
        return candidate

    def _look_again(self, partition: Partition, at: Millis) -> None:
        """Open a closed log again at this time, or after a change of its settings."""
        topic = partition.topic
        if not topic.is_deleted:
            self._next_looks.setdefault(topic.topic_id, {})[partition.index] = topic.policy, at

    def _may_be_due_at(self, partition: Partition, now: Millis) -> Millis:
        """Return when a log that is not due may be, if nothing is appended. Raises OSError."""
        policy, log = partition.topic.policy, partition.log
        backlog = _backlog_of(partition, log, now)
        if self._stuck_at.get(partition.key) == backlog.end_offset:
            return Millis(LONG_MAX)
        times = [LONG_MAX]
        if backlog.oldest_timestamp_ms >= 0:
            times.append(backlog.oldest_timestamp_ms + policy.max_compaction_lag_ms + 1)
        if policy.min_compaction_lag_ms:
            younger = (one for one in log.segments.closed if one.base_offset >= backlog.end_offset)
            times += [one.max_timestamp + policy.min_compaction_lag_ms for one in islice(younger, 1)]
        return Millis(min(times))

    def _judge(self, partition: Partition, now: Millis, *, was_open: bool) -> _Candidate | None:
        if partition.topic.shared.seconds() < self._not_before.get(partition.key, -math.inf):
            return None
        log, policy = partition.log, partition.topic.policy
        if log.failure is not None or log.segment_count < 2:
            return None
        backlog = _backlog_of(partition, log, now)
        if not backlog.dirty_bytes or self._stuck_at.get(partition.key) == backlog.end_offset:
            return None
        is_overdue = False
        if policy.max_compaction_lag_ms < LONG_MAX:
            is_overdue = 0 <= backlog.oldest_timestamp_ms < now - policy.max_compaction_lag_ms
        if not is_overdue and backlog.dirty_ratio < policy.min_cleanable_dirty_ratio:
            return None
        return _Candidate(partition, log, backlog, is_overdue, was_open)


def _is_left_to_users(partition: Partition) -> bool:
    """Return whether only a user may open a log: after a crash all of it is read, which only the limit of the
    age of its records is worth.
    """
    topic = partition.topic
    return partition.key in topic.shared.unrecovered and topic.policy.max_compaction_lag_ms >= LONG_MAX


def _backlog_of(partition: Partition, log: Log, now: Millis) -> Backlog:
    lag_ms = partition.topic.policy.min_compaction_lag_ms
    return backlog_of(log, partition.last_stable_offset, now - lag_ms if lag_ms else None)
