"""The parameters of a seed: sizes, delays, and rates of faults."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.clients import METADATA_LIMIT

from headgate.domain.settings import Settings

RETENTION_MS = 60_000
HISTORY_RETENTION_MS = 2 * RETENTION_MS

TROUBLES = (
    "power",
    "kill",
    "stop",
    "write",
    "write",
    "short",
    "sync",
    "sync",
    "any",
    "read",
    "caches",
    "lull",
    "disconnect",
)
"""The faults that the nemesis causes; with consumer groups also "calm"."""


@dataclass
class Plan:
    """The parameters of a seed."""

    shards: int
    batch_bytes: int
    slice_bytes: int
    load_slice_seconds: float
    turn_seconds: float
    slowest_sync_seconds: float
    pace_seconds: float
    latency_seconds: float
    partition_count: int
    trouble_seconds: float
    """Average time between faults."""
    is_durable: bool
    segment_bytes: int
    sweep_interval_ms: int
    longest_session_seconds: float
    tools: int
    members: int
    cleanable_ratio: float
    cleaner_backoff_ms: int
    cleaner_buffer_bytes: int
    delete_retention_ms: int
    keeps_history: bool
    sync_mark_bytes: int
    checkpoint_records: int
    consumers: int
    """Number of members of consumer groups."""
    mixed: int
    """Number of members of a group with members of both protocols; half of them of each."""
    change_seconds: float
    """Average time between changes of topics and group settings."""
    assignment_interval_ms: int
    room_after_bytes: int
    clock_seconds: float
    """Average time between settings of the system clock; 0: it is never set."""
    stall_seconds: float
    """Average time between stalls of the process; 0: there are none."""
    pausing: int
    """Number of administrators that pause partitions of groups of the consumer protocol."""
    troubles: tuple[str, ...] | None = None
    """None: all faults."""
    has_remote_logs: bool = False
    """Whether the logs of the shards are on other machines, which compact them."""

    @classmethod
    def of(cls, random: Random, seed: int) -> Plan:
        """Draw the parameters."""
        # Parameters that were added later have their own generator, so that old seeds are unchanged.
        later = Random(f"consumers of {seed}")
        return cls(
            shards=random.choice((1, 2, 3)),
            batch_bytes=random.choice((700, 2000, 900_000)),
            slice_bytes=random.choice((500, 800_000)),
            load_slice_seconds=random.choice((0.01, -1.0)),
            turn_seconds=random.choice((0.00001, 0.0002, 0.002)),
            slowest_sync_seconds=random.choice((0.0, 0.005, 0.1)),
            pace_seconds=random.choice((0.005, 0.1, 1.0)),
            latency_seconds=random.choice((0.0, 0.001, 0.05)),
            partition_count=random.choice((3, 20, 300)),
            trouble_seconds=random.choice((0.3, 3.0, 20.0)),
            is_durable=random.random() < 0.9,
            segment_bytes=random.choice((2048, 20_000, 10_000_000)),
            sweep_interval_ms=random.choice((700, 5000)),
            longest_session_seconds=random.choice((1.0, 6.0)),
            tools=random.choice((1, 4, 10)),
            members=random.choice((0, 2, 7)),
            cleanable_ratio=random.choice((0.0, 0.2, 0.5)),
            cleaner_backoff_ms=random.choice((50, 1000, 10_000)),
            cleaner_buffer_bytes=random.choice((4096, 1 << 20)),
            delete_retention_ms=random.choice((0, 2000, RETENTION_MS)),
            keeps_history=random.random() < 0.5,
            sync_mark_bytes=random.choice((1, 1000, 1 << 20)),
            checkpoint_records=random.choice((20, 200, 5000)),
            consumers=later.choice((0, 3, 8)),
            mixed=later.choice((0, 0, 4)),
            change_seconds=later.choice((1.0, 10.0)),
            assignment_interval_ms=later.choice((0, 300, 1000)),
            room_after_bytes=later.choice((0, 4096)),
            clock_seconds=Random(f"clock of {seed}").choice((0.0, 0.0, 3.0, 30.0)),
            stall_seconds=Random(f"stalls of {seed}").choice((0.0, 0.0, 0.0, 1.0, 10.0)),
            pausing=Random(f"pauses of {seed}").choice((0, 1)),
        )

    def tool_count(self) -> int:
        """Return the number of tools: few beside members of consumer groups, which would be too slow
        otherwise.
        """
        return min(self.tools, 2) if self.consumers or self.mixed else self.tools

    def all_troubles(self) -> tuple[str, ...]:
        """Return the possible faults."""
        if self.troubles is not None:
            return self.troubles
        return (*TROUBLES, "calm", "calm") if self.consumers or self.mixed else TROUBLES

    def settings(self, *, expires: bool = True) -> Settings:
        """Return the broker's settings; without `expires` no offset expires during a last check."""
        return Settings(
            {
                "offsets.retention.minutes": str(RETENTION_MS // 60_000),
                "offsets.retention.check.interval.ms": str(self.sweep_interval_ms if expires else 3_600_000),
                "offset.metadata.max.bytes": str(METADATA_LIMIT),
                "group.min.session.timeout.ms": "100",
                "group.initial.rebalance.delay.ms": "300",
                "group.consumer.session.timeout.ms": str(int(1000 * self.longest_session_seconds)),
                "group.consumer.min.session.timeout.ms": "100",
                "group.consumer.heartbeat.interval.ms": "100",
                "group.consumer.min.heartbeat.interval.ms": "100",
                "group.consumer.assignment.interval.ms": str(self.assignment_interval_ms),
                "headgate.checkpoint.interval.records": str(self.checkpoint_records),
                "log.cleaner.min.cleanable.ratio": str(self.cleanable_ratio),
                "log.cleaner.backoff.ms": str(self.cleaner_backoff_ms),
                "log.cleaner.dedupe.buffer.size": str(self.cleaner_buffer_bytes),
                "log.cleaner.delete.retention.ms": str(self.delete_retention_ms),
                "offsets.history.retention.ms": str(HISTORY_RETENTION_MS if self.keeps_history else 0),
                "headgate.durability": "sync" if self.is_durable else "page-cache",
            }
        )
