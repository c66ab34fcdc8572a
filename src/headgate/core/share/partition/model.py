"""The values of a share-partition: what is asked of it, and what it answers (KIP-932, KIP-1206, KIP-1222).

A *window* is all offsets from the share-partition start offset (SPSO) to the one before its end: everything
below is complete, everything from the end on was never delivered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.domain.setting import LONG_MAX
from headgate.records.share_batches import DeliveryState, StateBatch


class AcknowledgeType(IntEnum):
    """What a member says of a record that it acquired, as requests number it."""

    GAP = 0
    """There is no such record: compaction removed it, or it is a transaction's marker."""
    ACCEPT = 1
    RELEASE = 2
    """Deliver it again."""
    REJECT = 3
    """Never deliver it again."""
    RENEW = 4
    """Keep it acquired for another lock duration (KIP-1222)."""


class AcquireMode(IntEnum):
    """How a fetch counts its records (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Whole batches: may exceed the number of records asked for."""
    RECORD_LIMIT = 1
    """At most the number of records asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    """The settings of a group that a share-partition follows; they may change at any time."""

    delivery_count: int = 5
    """Deliveries of a record, after which it is archived (`group.share.delivery.delivery_count.limit`)."""
    lock_duration_ms: int = 30_000
    """Time for which a record is acquired (`share.record.lock.duration.ms`)."""
    records: int = 2_000
    """Size of the window from which on no new records are acquired (`share.partition.max.record.locks`)."""
    keeps_dead_letters: bool = False
    """Whether records that would be archived are ARCHIVING until somebody has copied them (KIP-1191)."""

    @property
    def isolation_threshold(self) -> int:
        """Return the delivery count from which on records are delivered in smaller batches (F15)."""
        return max(2, (self.delivery_count + 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """What a read of the log at `fetch_offset` returned; at least one batch."""

    fetch_offset: int
    batches: Sequence[tuple[int, int]]
    """First and last offset of each batch, ascending; there may be holes between them."""
    undeliverable: Sequence[tuple[int, int]] = ()
    """First and last offset of batches that no member gets: transaction markers, and for readers of committed
    records those of aborted transactions.
    """

    def end_of_batch(self, offset: int) -> int:
        """Return the last offset of the batch with `offset`; `offset` itself if it is in no batch."""
        index = bisect_right(self.batches, (offset, LONG_MAX)) - 1
        return max(offset, self.batches[index][1]) if index >= 0 else offset

    @property
    def first_offset(self) -> int:
        """Return the first offset of the first batch."""
        return self.batches[0][0]

    @property
    def last_offset(self) -> int:
        """Return the last offset of the last batch."""
        return self.batches[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquisition:
    """A member's wish for records of one read."""

    member_id: MemberId
    fetched: FetchedRecords
    max_records: int
    batch_size: int
    """Records after which a new range of acquired records begins, at the next batch of the log."""
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class AcquiredRecords(NamedTuple):
    """Records that a member acquired, first to last offset, with the number of this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """What a member says of the offsets from `first_offset` to `last_offset`."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One `AcknowledgeType` for all of them, or one for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """What the share coordinator must persist of a change (WriteShareGroupState); never Acquired."""

    write: int = 0
    """The number to pass to `finish_write` when it is durable or failed; 0 if nobody waits for it."""
    start_offset: int
    """The SPSO before the change: it moves when the change is durable, and is persisted with the next one."""
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Acknowledged(NamedTuple):
    """The result of acknowledging. Without a change the answer need not wait."""

    error: ErrorCode
    change: StateChange | None = None


class DeliveryView(NamedTuple):
    """What is known of a range of offsets, for people."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member_id: MemberId | None
    """Who has acquired the records."""
    acquired_at: Millis | None
    locked_until: Millis | None
    is_changing: bool
    """Whether the state becomes final only when a write is durable."""
