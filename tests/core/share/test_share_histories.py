"""Random histories of a share-partition, against a model with one entry for each offset.

The model does not choose what is acquired: it checks that the choice was allowed, and then knows what the
state of every offset must be. The coordinator's side is modelled too: changes become durable in order and
later, and a crash loses those that did not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest
from tests.core.share.delivering import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    LIMITS,
    Delivering,
)

from headgate.core.share.partition import ranges as ranges_module
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquireMode,
    StateChange,
)
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import StateBatch, StateBatches

MEMBERS = [MemberId(name) for name in ("ann", "ben", "cat")]
COMPLETE = {ACKNOWLEDGED, ARCHIVED}


@dataclass(slots=True)
class Offset:
    """What the model knows of one offset of the window."""

    state: int = AVAILABLE
    count: int = 0
    member: MemberId | None = None
    deadline: int = 0
    write: int = 0


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.limits = replace(
            LIMITS,
            delivery_count=self.random.choice((1, 2, 3, 5, 8)),
            records=self.random.choice((10, 40, 400)),
            lock_duration_ms=self.random.choice((50, 300)),
        )
        self.log: list[tuple[int, int]] = []
        self.aborted: list[tuple[int, int]] = []
        self.end_of_log = self.log_start = self.random.randrange(5)
        self.largest_batch = 1
        self.group = Delivering(start=self.log_start, limits=self.limits, log=self.log, aborted=self.aborted)
        self.known: dict[int, Offset] = {}
        self.start = self.log_start
        self.deliveries: dict[int, int] = {}
        """How often each offset was delivered; a crash may forget some."""
        self.unwritten: deque[StateChange] = deque()
        self.failed: set[int] = set()
        self.persisted: dict[int, tuple[int, int]] = {}
        """Count and state of each offset, as the coordinator has it."""
        self.persisted_start = self.log_start
        self.durably_accepted: set[int] = set()

    @property
    def partition(self) -> SharePartition:
        return self.group.partition

    def run(self, steps: int) -> None:
        ways: list[Callable[[], object]] = [
            *[self.produce] * 2, *[self.fetch] * 6, *[self.acknowledge] * 8, *[self.finish] * 6,
            self.pass_time, self.leave, self.compact, self.delete_log, self.crash,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(ways)()
            self.check()
        self.drain()

    def produce(self) -> None:
        for _ in range(self.random.randrange(4)):
            size = self.random.choice((1, 2, 7, 20))
            self.end_of_log += self.random.choice((0, 0, 0, 3))
            batch = (self.end_of_log, self.end_of_log + size - 1)
            self.log.append(batch)
            self.largest_batch = max(self.largest_batch, size)
            self.end_of_log += size
            if self.random.random() < 0.1:
                self.aborted.append(batch)

    def fetch(self, most: int | None = None) -> bool:
        member = self.random.choice(MEMBERS)
        most = self.random.choice((0, 1, 3, 10, 100)) if most is None else most
        mode = self.random.choice(list(AcquireMode))
        offset, before = self.partition.next_offset(), self.partition.end_offset
        start = self.partition.start_offset
        up_to = offset + self.random.choice((0, 10, 60))
        size = self.random.choice((1, 5, 100))
        acquired = self.group.fetch(member, most, batch_size=size, mode=mode, up_to=up_to)
        assert [one[:2] for one in acquired] == sorted(one[:2] for one in acquired)
        taken = 0
        for first, last, count in acquired:
            for at in range(first, last + 1):
                known = self.known.setdefault(at, Offset()) if at >= before else self.known[at]
                assert (known.state, known.write) == (AVAILABLE, 0)
                assert count == known.count + 1
                assert not any(one <= at <= other for one, other in self.aborted)
                self.known[at] = Offset(
                    ACQUIRED, count, member, self.group.now + self.limits.lock_duration_ms
                )
                self.deliveries[at] = self.deliveries.get(at, 0) + 1
                assert self.deliveries[at] <= self.limits.delivery_count
                taken += 1
        if mode == AcquireMode.RECORD_LIMIT:
            assert taken <= most
        if any(one.last_offset >= before for one in acquired):  # invariant 20
            assert self.partition.end_offset - start < self.limits.records + self.largest_batch
        self._skipped(offset)
        return bool(acquired) or self.partition.next_offset() != offset

    def _skipped(self, offset: int) -> None:
        """Archive in the model what is not in the log, or of an aborted transaction, and was not acquired."""
        for at in range(self.start, self.partition.end_offset):
            known = self.known.setdefault(at, Offset())
            if known.state == AVAILABLE and not known.write and self._view(at)[0] == ARCHIVED:
                is_in_log = any(first <= at <= last for first, last in self.log)
                is_aborted = any(first <= at <= last for first, last in self.aborted)
                assert is_aborted or not is_in_log or at < offset
                count = self._view(at)[1]
                assert count in (known.count, known.count + is_aborted)
                self.known[at] = Offset(ARCHIVED, count)

    def _view(self, at: int) -> tuple[int, int]:
        if at < self.partition.start_offset:
            return ARCHIVED, self.known[at].count
        (view,) = self.partition.deliveries(at, at)
        return view.state, view.delivery_count

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        owned = [at for at, one in self.known.items() if one.member == member and one.state == ACQUIRED]
        if not owned:
            return
        first = self.random.choice(owned)
        last = first + self.random.randrange(6)
        if self.random.random() < 0.9:  # mostly what the member has
            while last not in owned or any(at not in owned for at in range(first, last + 1)):
                last -= 1
        size = last - first + 1
        types = [self.random.choice(list(AcknowledgeType)) for _ in range(self.random.choice((1, size)))]
        batches = [AcknowledgementBatch(first, last, types)]
        error, change = self.partition.acknowledge(member, batches, Millis(self.group.now))
        assert error == self._expected(member, first, last)
        if error == ErrorCode.NONE:
            for at in range(max(first, self.start), last + 1):
                self._acknowledge_one(at, types[0] if len(types) == 1 else types[at - first], change)
            if change is not None:
                self.unwritten.append(change)

    def _expected(self, member: MemberId, first: int, last: int) -> ErrorCode:
        if last >= self.partition.end_offset:
            return ErrorCode.INVALID_REQUEST
        for at in range(max(first, self.start), last + 1):
            one = self.known[at]
            if one.state != ACQUIRED or one.write or one.member != member:
                return ErrorCode.INVALID_RECORD_STATE
        return ErrorCode.NONE

    def _acknowledge_one(self, at: int, word: AcknowledgeType, change: StateChange | None) -> None:
        one = self.known[at]
        if word == AcknowledgeType.RENEW:
            one.deadline = self.group.now + self.limits.lock_duration_ms
            return
        assert change is not None
        again = AVAILABLE if one.count < self.limits.delivery_count else ARCHIVED
        one.state = {AcknowledgeType.ACCEPT: ACKNOWLEDGED, AcknowledgeType.RELEASE: again}.get(word, ARCHIVED)
        one.write = change.write

    def finish(self) -> None:
        """Make the oldest change durable, or fail it."""
        if not self.unwritten:
            return
        change = self.unwritten.popleft()
        is_durable = self.random.random() < 0.9
        if change.write:
            now = Millis(self.group.now)
            taken_back = self.partition.finish_write(change.write, is_durable=is_durable, now=now)
            if taken_back is not None:
                self.unwritten.append(taken_back)
        if is_durable:
            self._persist(change)
        for at, one in self.known.items():
            if change.write and one.write == change.write:
                one.write = 0
                if not is_durable:
                    again = AVAILABLE if one.count < self.limits.delivery_count else ARCHIVED
                    one.state = again if one.member is None else ACQUIRED
                    continue
                one.member = None
                if one.state == ACKNOWLEDGED:
                    self.durably_accepted.add(at)

    def _persist(self, change: StateChange) -> None:
        self.persisted_start = max(self.persisted_start, change.start_offset)
        for first, last, state, count in change.batches:
            for at in range(first, last + 1):
                self.persisted[at] = max(self.persisted.get(at, (-1, -1)), (count, int(state)))

    def pass_time(self) -> None:
        self.group.expire(self.group.now + self.random.choice((1, 40, 200)))
        self._lost(lambda one: one.deadline <= self.group.now)

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        self.group.leave(member)
        self._lost(lambda one: one.member == member)
        for one in self.known.values():
            if one.member == member:
                one.member = None  # a write is pending: if it fails others get the record

    def _lost(self, is_lost: Callable[[Offset], bool]) -> None:
        for one in self.known.values():
            if one.state == ACQUIRED and not one.write and is_lost(one):
                one.state = AVAILABLE if one.count < self.limits.delivery_count else ARCHIVED
                one.member = None
        self.unwritten.extend(self.group.written)
        self.group.written.clear()

    def compact(self) -> None:
        if len(self.log) > 2 and self.random.random() < 0.5:
            del self.log[self.random.randrange(len(self.log) - 1)]

    def delete_log(self) -> None:
        if self.log and self.random.random() < 0.3:
            self.log_start = self.random.choice(self.log)[0]
            self.log[:] = [one for one in self.log if one[1] >= self.log_start]
            self.partition.log_start_moved(self.log_start)

    def crash(self) -> None:
        """Load what the coordinator has: nothing durable is lost, nothing else remembered (invariant 21)."""
        if self.random.random() > 0.3:
            return
        while self.unwritten and self.random.random() < 0.5:
            self._persist(self.unwritten.popleft())
        self.unwritten.clear()
        start = max(self.persisted_start, self.log_start)
        batches = [
            StateBatch(at, at, state, count)
            for at, (count, state) in sorted(self.persisted.items())
            if at >= self.persisted_start
        ]
        self.group.partition = SharePartition(self.persisted_start, self.limits)
        for _ in self.partition.load(StateBatches.of(batches)):
            pass
        self.partition.log_start_moved(start)
        self.known = {at: Offset() for at in range(self.partition.start_offset, self.partition.end_offset)}
        for at, (count, state) in self.persisted.items():
            if at in self.known:
                self.known[at] = Offset(state, count)
        self.start = self.partition.start_offset
        self.deliveries = {at: one.count for at, one in self.known.items()}

    def check(self) -> None:
        """Compare the whole window with the model."""
        partition = self.partition
        assert partition.start_offset >= self.start
        for at in range(self.start, partition.start_offset):  # invariant 17
            one = self.known.pop(at, None)
            assert at < self.log_start or (one is not None and one.state in COMPLETE and not one.write)
        self.start = partition.start_offset
        views = list(partition.deliveries(partition.start_offset, partition.end_offset))
        flat = {
            at: (view.state, view.delivery_count, view.is_changing)
            for view in views
            for at in range(view.first_offset, view.last_offset + 1)
        }
        assert list(flat) == list(range(partition.start_offset, partition.end_offset))  # invariant 16
        self.known = {at: one for at, one in self.known.items() if at in flat}
        assert flat == {at: (one.state, one.count, one.write != 0) for at, one in sorted(self.known.items())}
        for view in views:
            one = self.known[view.first_offset]
            if view.state == ACQUIRED:
                assert (view.member_id, view.locked_until) == (one.member, one.deadline)
                deadline = partition.next_deadline()
                assert deadline is not None
                assert deadline <= one.deadline
        complete = sum(one.state in COMPLETE for one in self.known.values())
        assert partition.delivery_complete_count == complete  # invariant 24
        assert not any(
            at in self.durably_accepted and one.state != ACKNOWLEDGED for at, one in self.known.items()
        )
        available = [at for at, one in self.known.items() if one.state == AVAILABLE and not one.write]
        assert partition.next_offset() == (min(available) if available else partition.end_offset)

    def drain(self) -> None:
        """Deliver and accept what is left."""
        while self.unwritten:
            self.finish()
        self.pass_time()
        self.group.expire(self.group.now + 1_000)
        self._lost(lambda one: True)
        for _ in range(10_000):
            if not self.fetch(most=1_000) and self.partition.end_offset >= self.end_of_log:
                break
            for member in MEMBERS:
                for at in [at for at, one in self.known.items() if one.member == member]:
                    assert self.group.accept(at, member=member) == ErrorCode.NONE
                    self.known[at] = Offset(ACKNOWLEDGED, self.known[at].count)
            self.check()
        self.check()


@pytest.mark.parametrize("seed", range(30))
def test_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every step of a random history the window is what a model with one entry for each offset says."""
    if seed % 2:
        monkeypatch.setattr(ranges_module, "MOST", 4)  # many chunks
    history = History(seed)
    history.run(150)
    assert history.partition.start_offset == history.partition.end_offset  # invariant 19
