"""A share-partition as its tests use it: a log to fetch from, and short words for what members do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.core.share.partition.model import (
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    AcquireMode,
    Acquisition,
    DeliveryLimits,
    FetchedRecords,
    StateChange,
)
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.partition.taking_back import Rest
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import DeliveryState, StateBatch, StateBatches

LIMITS = DeliveryLimits(delivery_count=5, lock_duration_ms=30_000, records=2_000)
ALICE, BOB = MemberId("alice"), MemberId("bob")
MANY = 1_000_000
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED


def batches_of(first: int, *sizes: int) -> list[tuple[int, int]]:
    """Return batches of a log as first and last offsets, one after the other."""
    batches = []
    for size in sizes:
        batches.append((first, first + size - 1))
        first += size
    return batches


@dataclass
class Delivering:
    """One share-partition, the log it reads, and the changes that it wanted persisted."""

    start: int = 0
    limits: DeliveryLimits = LIMITS
    log: list[tuple[int, int]] = field(default_factory=list)
    """First and last offset of each batch of the log."""
    aborted: Sequence[tuple[int, int]] = ()
    now: int = 0
    written: list[StateChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.partition = SharePartition(self.start, self.limits)

    def load(self, *batches: StateBatch) -> Delivering:
        for _ in self.partition.load(StateBatches.of(batches)):
            pass
        return self

    def fetch(
        self,
        member: MemberId = ALICE,
        most: int = MANY,
        *,
        batch_size: int = MANY,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        up_to: int = MANY,
    ) -> list[AcquiredRecords]:
        """Read the log from the next offset up to the batch with offset `up_to`, and acquire."""
        offset = self.partition.next_offset()
        read = [(first, last) for first, last in self.log if last >= offset and first <= up_to]
        if not read:
            return []
        fetched = FetchedRecords(
            fetch_offset=offset,
            batches=read,
            undeliverable=self.aborted,
        )
        wish = Acquisition(
            member_id=member, fetched=fetched, max_records=most, batch_size=batch_size, mode=mode
        )
        return self.partition.acquire(wish, Millis(self.now))

    def fetch_one_by_one(self, member: MemberId, most: int = MANY) -> list[AcquiredRecords]:
        """Acquire each record in a range of its own, some in each fetch."""
        acquired: list[AcquiredRecords] = []
        while most > len(acquired) and (more := self.fetch(member, most - len(acquired), batch_size=1)):
            acquired += more
        return acquired

    def acknowledge(
        self, first: int, last: int, *types: AcknowledgeType, member: MemberId = ALICE
    ) -> Acknowledged:
        """Acknowledge a range, without finishing the write."""
        batch = AcknowledgementBatch(first, last, types)
        return self.partition.acknowledge(member, [batch], Millis(self.now))

    def settle(self, result: Acknowledged, *, is_durable: bool = True) -> ErrorCode:
        """Finish the write of an acknowledgement."""
        if result.change is not None:
            if is_durable:
                self.written.append(result.change)
            change = self.partition.finish_write(
                result.change.write, is_durable=is_durable, now=Millis(self.now)
            )
            if change is not None:
                self.written.append(change)
        return result.error

    def accept(self, first: int, last: int | None = None, member: MemberId = ALICE) -> ErrorCode:
        return self._say(AcknowledgeType.ACCEPT, first, last, member)

    def release(self, first: int, last: int | None = None, member: MemberId = ALICE) -> ErrorCode:
        return self._say(AcknowledgeType.RELEASE, first, last, member)

    def reject(self, first: int, last: int | None = None, member: MemberId = ALICE) -> ErrorCode:
        return self._say(AcknowledgeType.REJECT, first, last, member)

    def _say(self, word: AcknowledgeType, first: int, last: int | None, member: MemberId) -> ErrorCode:
        return self.settle(self.acknowledge(first, first if last is None else last, word, member=member))

    def expire(self, now: int) -> None:
        """Let time pass, and take back everything whose lock ended."""
        self.now = now
        while (deadline := self.partition.next_deadline()) is not None and deadline <= now:
            change = self.partition.expire(Millis(now))
            if change is not None:
                self.written.append(change)

    def leave(self, member: MemberId) -> None:
        """Take back what a member has."""
        self.release_rest(self.partition.forget_member(member))

    def release_rest(self, rest: Rest | None) -> None:
        """Take back the rest of what a member had."""
        while rest is not None:
            change, rest = self.partition.release(rest, Millis(self.now))
            if change is not None:
                self.written.append(change)

    def window(self) -> list[tuple[int, int, DeliveryState, int]]:
        """Return the window as ranges with states and counts; equal neighbours are one."""
        ranges: list[tuple[int, int, DeliveryState, int]] = []
        for one in self.partition.deliveries(self.partition.start_offset, self.partition.end_offset):
            if ranges and ranges[-1][1:] == (one.first_offset - 1, one.state, one.delivery_count):
                ranges[-1] = (ranges[-1][0], one.last_offset, one.state, one.delivery_count)
            else:
                ranges.append((one.first_offset, one.last_offset, one.state, one.delivery_count))
        return ranges
