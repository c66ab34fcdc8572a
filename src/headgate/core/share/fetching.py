"""What a member of a share group asks for in one fetch, and what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcquiredRecords,
    AcquireMode,
)
from headgate.core.share.sessions import PartitionKey, ShareSession
from headgate.domain.errors import ErrorCode

Acknowledgements: TypeAlias = Mapping[PartitionKey, Sequence[AcknowledgementBatch]]
AcknowledgeErrors: TypeAlias = Mapping[PartitionKey, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchWish:
    """One fetch, without its acknowledgements."""

    session: ShareSession
    partitions: Sequence[PartitionKey]
    """In the order in which they are looked at."""
    max_wait_ms: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredRecords:
    """What a fetch got from one partition: acquired records, or an error."""

    key: PartitionKey
    error: ErrorCode = ErrorCode.NONE
    records: bytes = b""
    """Whole batches of the log, with other records besides the acquired ones."""
    acquired: Sequence[AcquiredRecords] = ()

    @property
    def record_count(self) -> int:
        """Return the number of acquired records."""
        return sum(one.last_offset - one.first_offset + 1 for one in self.acquired)
