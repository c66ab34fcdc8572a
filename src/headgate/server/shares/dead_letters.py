"""Writes the dead letters of one share-partition (KIP-1191), each exactly once, also across a crash.

A record whose delivery ended is ARCHIVING until its dead letter is durable, then ARCHIVED. Kafka may write
a dead letter twice, and gives up after some attempts; here:

1. Before letters are appended, the state says that they are due and from where on they may be: a
   `DeadLetterMark`, with the end of the dead-letter partition. Nothing is appended before that is durable.
2. The letters of at most one batch are in doubt at a time: appended perhaps, and their records not archived.
   After a crash, a failed sync or a failed write, the dead-letter partition is searched from the mark on, and
   the records whose letters are there are archived. Only then are letters appended again.
3. A record is archived when its letter is durable. That is persisted with the next mark, or alone: so a mark
   is never replaced while letters behind it are in doubt.
4. As long as letters cannot be written, their records stay ARCHIVING, and it is tried again. The start of the
   share-partition waits for them; no record is lost. If the group gives up its dead-letter topic, they are
   archived without letters.
5. A discarded share-partition appends nothing any more: this is looked at where nothing can happen before the
   append.

Records that compaction or retention removed have no letter: there is nothing to tell of them.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from headgate.api.contract import RequestSteps
from headgate.core.share.partition.model import DeliveryView, StateChange
from headgate.core.share.partition.rejections import Cause
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.domain.setting import LONG_MAX
from headgate.log.batch import CorruptBatch
from headgate.records.share_batches import StateBatch
from headgate.records.share_state_model import DeadLetterMark, ShareKey
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.loop_watch import Job
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.dead_letter_topic import target_of
from headgate.server.shares.letters import (
    Letter,
    Origin,
    SourceRecords,
    WrittenLetter,
    batch_of,
    message_of,
    source_records,
)
from headgate.server.shares.searching import aside, search_letters
from headgate.server.shares.settings import ShareGroupSettings
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.admission import Admitted, AppendResult, admit
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition

logger = logging.getLogger(__name__)

MOST_LETTERS: Final = 200
"""Records of which the letters are written together."""
MOST_BYTES: Final = 256 << 10
"""Bytes of letters that are written together, but at least one letter."""
_ARCHIVED_AT_ONCE: Final = 20
"""Ranges of records that one step archives."""
_MOST_READS: Final = 20
"""Reads of the source's log for one batch of letters."""
_READ_BYTES: Final = 64 << 10
_RETRY_MS: Final = 1_000
_LONGEST_RETRY_MS: Final = 10_000
_JOB: Final = Job("dead letters")


class Source(Protocol):
    """The share-partition, as the writer of its dead letters sees it."""

    key: ShareKey
    error: ErrorCode

    @property
    def machine(self) -> SharePartition | None: ...

    @property
    def settings(self) -> ShareGroupSettings: ...

    def partition(self) -> Partition | ErrorCode:
        """Return the partition that the records are in."""
        ...

    def persist(
        self, change: StateChange, on_done: Callable[[ErrorCode], None], mark: DeadLetterMark | None = None
    ) -> None:
        """Write a change to the share coordinator."""
        ...

    def wake(self) -> None:
        """Let waiting fetches look again."""
        ...


class _Found(NamedTuple):
    """What the log has of records that are due."""

    letters: list[Letter]
    looked_at: list[tuple[int, int]]
    """First and last offsets of which `letters` has all records that exist."""


class DeadLetters:
    """The dead letters of one share-partition."""

    def __init__(self, node: Surroundings, source: Source, counts: ShareCounts) -> None:
        self._node = node
        self._source = source
        self._counts = counts
        self._doubt: DeadLetterMark | None = None
        """From where on letters may be whose records are not archived."""
        self._archived: list[StateBatch] = []
        """What was archived and is not persisted yet."""
        self._is_running = False
        self._is_due = False
        self._retry_ms = _RETRY_MS
        self._cancel_retry: Callable[[], None] | None = None

    def loaded(self, mark: DeadLetterMark | None) -> None:
        """Begin with what the state says. No letter is in doubt if no record waits for one."""
        machine = self._source.machine
        self._doubt = mark if machine is not None and machine.may_have_dead_letters else None
        self.look()

    @property
    def is_waiting(self) -> bool:
        """Return whether letters are being written, or wait for that."""
        machine = self._source.machine
        return self._is_running or (machine is not None and machine.may_have_dead_letters)

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is being written, and no letter is in doubt."""
        return not self._is_running and self._doubt is None and not self._archived

    def look(self) -> None:
        """Write what is due, in one of the next iterations of the loop."""
        machine = self._source.machine
        if self._source.error or machine is None or not machine.may_have_dead_letters:
            return
        self._is_due = True
        if self._is_running or self._cancel_retry is not None:
            return
        self._is_running = True
        self._node.soon(self._run)

    def look_now(self) -> None:
        """Write what is due without waiting for the next attempt: something has changed."""
        self.stop_waiting()
        self._retry_ms = _RETRY_MS
        self.look()

    def stop_waiting(self) -> None:
        """Plan no further attempt."""
        if self._cancel_retry is not None:
            self._cancel_retry()
            self._cancel_retry = None

    # --- attempts ---

    def _run(self) -> None:
        self._is_due = False
        self._node.request_work.run(self._copy(), _JOB, self._ended, self._failed)

    def _failed(self, failure: Exception) -> None:
        unexpected(Where.HOUSEKEEPING, f"dead letters of {self._source.key.name} cannot be written", failure)
        self._ended(str(failure))

    def _ended(self, problem: str | None) -> None:
        self._is_running = False
        if self._source.error:
            return
        if problem is None:
            self._retry_ms = _RETRY_MS
            if self._is_due:
                self.look()
            return
        self._tell(problem)
        self._cancel_retry = self._node.call_later(self._retry_ms, self._try_again)
        self._retry_ms = min(2 * self._retry_ms, _LONGEST_RETRY_MS)

    def _tell(self, problem: str) -> None:
        self._counts.failed_dead_letters += 1
        told = self._counts.failed_letters
        if told.is_time():
            logger.warning(
                "dead letters cannot be written",
                extra={"key": self._source.key.name, "why": problem, "not_logged": told.take_skipped()},
            )

    def _try_again(self) -> None:
        self._cancel_retry = None
        self.look()

    def _copy(self) -> RequestSteps[str | None]:
        """Write all that is due; return what prevented it."""
        while (machine := self._source.machine) is not None and not self._source.error:
            problem = yield from self._search(machine)
            if problem is not None:
                return problem
            is_kept = machine.limits.keeps_dead_letters
            due = machine.dead_letters(MOST_LETTERS if is_kept else LONG_MAX, most_ranges=MOST_LETTERS)
            if not due:
                return (yield from self._persist(machine, (), None))
            if not is_kept:
                yield from self._archive(machine, [(one.first_offset, one.last_offset) for one in due])
                problem = yield from self._persist(machine, (), None)
                if problem is not None:
                    return problem
                continue
            problem = yield from self._write(machine, due)
            if problem is not None:
                return problem
        return None

    # --- letters in doubt ---

    def _search(self, machine: SharePartition) -> RequestSteps[str | None]:
        """Archive the records whose letters are behind the mark (rule 2)."""
        mark = self._doubt
        topic = None if mark is None else self._node.topics.by_id(mark.topic_id)
        if mark is None or topic is None:  # the letters are gone with their topic
            self._doubt = None
            return None
        partition = topic.partition(mark.partition)
        try:
            if not (yield from self._durable(partition)):
                return f"{partition} cannot be synced"
            take = partial(self._archive_letter, machine)
            yield from search_letters(partition, mark.offset, self._origin(), take)
        except (OSError, CorruptBatch) as problem:
            return f"{partition} cannot be read: {problem}"
        self._doubt = None
        return None

    def _archive_letter(self, machine: SharePartition, letter: WrittenLetter) -> None:
        self._archive_some(machine, [(letter.offset, letter.offset)])

    # --- writing ---

    def _write(self, machine: SharePartition, due: Sequence[DeliveryView]) -> RequestSteps[str | None]:
        """Write the letters of some records, and archive these."""
        name = self._source.settings.dead_letter_topic
        target = target_of(self._node, name, self._source.key.partition)
        if isinstance(target, str):
            return target
        yield from opened_aside(target)
        found = yield from self._read(due)
        if isinstance(found, str):
            return found
        origin, most = self._origin(), min(MOST_BYTES, target.topic.policy.max_message_bytes)
        if not found.letters:
            yield from self._archive(machine, found.looked_at)
            return None
        make = partial(batch_of, origin, found.letters, most, self._node.system_time())
        batch, count = yield from aside(make)
        covered = list(_up_to(found, count))
        current = target.current  # another share-partition may have opened it meanwhile
        if current is None:
            return f"{target} was deleted"
        target = current
        try:
            mark = DeadLetterMark(target.topic.topic_id, target.index, target.log_end_offset)
        except (OSError, CorruptBatch) as failure:
            return f"{target} cannot be opened: {failure}"
        problem = yield from self._persist(machine, due, mark)
        if problem is None and not self._source.error:
            problem = yield from self._append(target, batch, mark)
        if problem is None and not self._source.error:
            yield from self._archive(machine, covered)
            self._doubt = None
            self._counts.dead_letters += count
        return problem

    def _persist(
        self, machine: SharePartition, due: Sequence[DeliveryView], mark: DeadLetterMark | None
    ) -> RequestSteps[str | None]:
        """Persist what was archived, and that letters are due."""
        if not self._archived and not due:
            return None
        change = machine.dead_letters_begin(due)
        done: Future[ErrorCode] = Future()
        self._source.persist(
            replace(change, batches=[*self._archived, *change.batches]), done.set_result, mark
        )
        yield done
        if error := done.result():
            return f"the state of the share-partition cannot be written: {error.name}"
        self._archived = []
        return None

    def _append(self, target: Partition, batch: bytearray, mark: DeadLetterMark) -> RequestSteps[str | None]:
        policy, now = target.topic.policy, self._node.system_time()
        admitted: Admitted | AppendResult = yield from aside(partial(admit, batch, policy, now))
        partition = target.current
        if self._source.error or partition is None:
            return None if self._source.error else f"{target} was deleted"
        self._doubt = mark
        self._counts.dead_letter_appends += 1
        result = partition.append_admitted(admitted, now)
        if result.error:
            return f"{partition} refuses the letters: {result.message or result.error.name}"
        if not (yield from self._durable(partition)):
            return f"{partition} cannot be synced"
        return None

    def _durable(self, partition: Partition) -> RequestSteps[bool]:
        """Wait until all that a partition has is durable; return whether it is."""
        yield from opened_aside(partition)
        current = partition.current
        if current is None:
            return False
        partition = current
        done: Future[bool] = Future()
        try:
            if not partition.log_end_offset:
                return True
            partition.recover_if_failed()
            self._node.durability.when_durable(partition.log, done.set_result)
        except (OSError, CorruptBatch):
            return False
        yield done
        partition.synced(done.result())
        return done.result()

    def _archive(self, machine: SharePartition, ranges: Sequence[tuple[int, int]]) -> RequestSteps[None]:
        for at in range(0, len(ranges), _ARCHIVED_AT_ONCE):
            self._archive_some(machine, ranges[at : at + _ARCHIVED_AT_ONCE])
            yield None

    def _archive_some(self, machine: SharePartition, ranges: Sequence[tuple[int, int]]) -> None:
        for first, last in ranges:
            change = machine.dead_letter_copied(first, last)
            if change is not None:
                self._archived += change.batches
        self._source.wake()

    # --- the records ---

    def _origin(self) -> Origin:
        key = self._source.key
        topic = self._node.topics.by_id(key.topic_id)
        return Origin(key.group_id, "" if topic is None else topic.name, key.partition)

    def _read(self, due: Sequence[DeliveryView]) -> RequestSteps[_Found | str]:
        """Read the records that are due, as far as a bounded number of reads brings."""
        partition = self._source.partition()
        if isinstance(partition, ErrorCode):
            return partition.name
        yield from opened_aside(partition)
        found = _Found([], [])
        offset: int | None = due[0].first_offset
        for _ in range(_MOST_READS):
            if offset is None:
                break
            try:
                there = yield from self._read_some(partition, offset, due[-1].last_offset)
            except (OSError, CorruptBatch) as problem:
                return f"{partition} cannot be read: {problem}"
            self._take(due, offset, there, found)
            later = (
                max(one.first_offset, there.end_offset) for one in due if one.last_offset >= there.end_offset
            )
            offset = next(later, None)
        return found

    def _read_some(self, partition: Partition, offset: int, last: int) -> RequestSteps[SourceRecords]:
        """Read records up to the offset `last`; those below the log start are gone."""
        partition = partition.current or partition
        if offset < (start := partition.log_start_offset):
            return SourceRecords([], start)
        read = partition.read(offset, _READ_BYTES, minimum_one=True)
        if read.error or not read.records:
            raise OSError(f"offset {offset}: {read.error.name}")
        return (yield from aside(partial(source_records, read.records, offset, last)))

    def _take(self, due: Sequence[DeliveryView], offset: int, there: SourceRecords, found: _Found) -> None:
        """Add the letters of the records of one read that are due."""
        for one in due:
            first, last = max(one.first_offset, offset), min(one.last_offset, there.end_offset - 1)
            if first <= last:
                found.looked_at.append((first, last))
        firsts = [one.first_offset for one in due]
        is_copied = self._source.settings.copies_dead_letters
        for record in there.records:
            one = due[max(0, bisect_right(firsts, record.offset) - 1)]
            if one.first_offset <= record.offset <= one.last_offset:
                key, value = record[1:] if is_copied else (None, None)
                message = self._message(record.offset, one.delivery_count)
                found.letters.append(Letter(record.offset, one.delivery_count, message, key, value))

    def _message(self, offset: int, delivery_count: int) -> str:
        machine = self._source.machine
        assert machine is not None, "only a loaded share-partition has dead letters"
        known = next(machine.rejections.between(offset, offset), None)
        cause = Cause.UNKNOWN if known is None else known.cause
        return message_of(cause, delivery_count, machine.limits.delivery_count)


def _up_to(found: _Found, count: int) -> Sequence[tuple[int, int]]:
    """Return the looked at offsets up to the last of `count` letters; all of them for all letters."""
    if count == len(found.letters):
        return found.looked_at
    last = found.letters[count - 1].offset
    return [(first, min(end, last)) for first, end in found.looked_at if first <= last]
