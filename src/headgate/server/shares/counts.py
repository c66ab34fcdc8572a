"""What share-partitions delivered, and what members made of it, for the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType, AcquiredRecords
from headgate.server.seldom import Seldom

FAILURES_TOLD: Final = 10
"""Failed writes of states that are logged in some seconds: a full disk fails all of them."""


class ShareCounts:
    """What all share-partitions of this node delivered since its start, in records."""

    def __init__(self) -> None:
        self.first_deliveries = 0
        self.redeliveries = 0
        self.expired = 0
        """Records whose lock ended before they were acknowledged."""
        self.acknowledgements = 0
        """Acknowledgements of one share-partition that were not refused, whatever their number of records."""
        self.loads = 0
        """Share-partitions that were loaded."""
        self.load_ms = 0
        """Time that all these loads took."""
        self.acknowledged = dict.fromkeys(AcknowledgeType, 0)
        """Records by type."""
        self.dead_letters = 0
        """Dead letters that are durable."""
        self.dead_letter_appends = 0
        """Batches of them that were appended, or refused."""
        self.failed_dead_letters = 0
        """Attempts to write dead letters that failed."""
        self.failed_letters = Seldom(FAILURES_TOLD)
        """Decides which of these are logged."""
        self.failed_writes = Seldom(FAILURES_TOLD)
        """Decides which failed writes of states are logged."""
        self.refused_sessions = Seldom(FAILURES_TOLD)
        """Decides which refusals of sessions are logged: their clients try again and again."""
        self.sessions_given_up = Seldom(FAILURES_TOLD)
        """Decides which sessions are logged that a connection with many gave up."""

    def count_acquired(self, acquired: Sequence[AcquiredRecords]) -> None:
        """Count what a fetch acquired."""
        for first, last, count in acquired:
            if count == 1:
                self.first_deliveries += last - first + 1
            else:
                self.redeliveries += last - first + 1

    def count_acknowledged(self, batches: Sequence[AcknowledgementBatch], start_offset: int) -> None:
        """Count acknowledgements that were not refused; those below the start offset are ignored."""
        self.acknowledgements += 1
        for first, last, types in batches:
            below = max(0, start_offset - first)
            if len(types) == 1:
                self.acknowledged[AcknowledgeType(types[0])] += max(0, last - first + 1 - below)
                continue
            types = types[below:] if below else types
            for known in AcknowledgeType:
                self.acknowledged[known] += types.count(known)
