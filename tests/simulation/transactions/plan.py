"""The parameters of a seed with transactions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headgate.domain.settings import Settings

TROUBLES = ("power", "power", "kill", "kill", "stop", "write", "sync", "disconnect", "disconnect")
SHARDS = 2
"""Partitions of `__consumer_offsets`, and of `__transaction_state`."""


@dataclass
class TransactionPlan:
    """The parameters of a seed."""

    producers: int
    rivals: int
    """Number of those that share their transactional id with another one."""
    workers: int
    """Members of a group that read, process and write exactly once."""
    server_version: int
    """`transaction.version` of the server."""
    pace_seconds: float
    latency_seconds: float
    lost_share: float
    """Share of requests or answers that are lost with their connection."""
    slowest_sync_seconds: float
    turn_seconds: float
    trouble_seconds: float
    """Average time between faults."""
    timeout_seconds: float
    """Greatest `transaction.timeout.ms`."""
    partitions: int
    segment_bytes: int
    checkpoint_records: int
    greatest_epoch: int
    """Epochs after which a producer gets a new id."""
    clock_seconds: float
    """Average time between settings of the system clock; 0 for none."""
    troubles: tuple[str, ...] = TROUBLES

    @classmethod
    def of(cls, seed: int) -> TransactionPlan:
        """Draw the parameters."""
        random = Random(f"transactions of {seed}")
        return cls(
            producers=random.choice((2, 4, 7)),
            rivals=random.choice((0, 1, 2)),
            workers=random.choice((0, 2, 3)),
            server_version=random.choice((2, 2, 2, 0)),
            pace_seconds=random.choice((0.005, 0.05, 0.4)),
            latency_seconds=random.choice((0.0, 0.002, 0.03)),
            lost_share=random.choice((0.0, 0.02, 0.1)),
            slowest_sync_seconds=random.choice((0.0, 0.005, 0.05)),
            turn_seconds=random.choice((0.00001, 0.0002)),
            trouble_seconds=random.choice((0.5, 2.0, 8.0)),
            timeout_seconds=random.choice((1.0, 4.0, 20.0)),
            partitions=random.choice((1, 2, 4)),
            segment_bytes=random.choice((1024, 4096, 1 << 20)),
            checkpoint_records=random.choice((10, 100, 5000)),
            greatest_epoch=random.choice((7, 2**15 - 1)),
            clock_seconds=random.choice((0.0, 0.3, 3.0)),
        )

    def settings(self) -> Settings:
        """Return the broker's settings."""
        return Settings(
            {
                "offsets.topic.num.partitions": str(SHARDS),
                "offsets.topic.segment.bytes": str(max(self.segment_bytes, 2048)),
                "transaction.state.log.num.partitions": str(SHARDS),
                "transaction.state.log.segment.bytes": str(max(self.segment_bytes, 2048)),
                "headgate.transaction.version": str(self.server_version),
                "headgate.checkpoint.interval.records": str(self.checkpoint_records),
                "group.consumer.min.session.timeout.ms": "100",
                "group.consumer.session.timeout.ms": "3000",
                "group.consumer.min.heartbeat.interval.ms": "100",
                "group.consumer.heartbeat.interval.ms": "300",
                "group.consumer.assignment.interval.ms": "0",
                "log.cleaner.min.cleanable.ratio": "0.01",
                "log.cleaner.backoff.ms": "300",
                "log.cleaner.delete.retention.ms": "500",
                "log.retention.ms": "-1",
                "log.retention.check.interval.ms": "5000",
                "share.coordinator.state.topic.num.partitions": "1",
            }
        )
