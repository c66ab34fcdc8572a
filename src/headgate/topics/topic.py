"""A topic: its catalogue entry, and those of its partitions that are in use.

A partition that was never written has no object unless a caller keeps it: a topic of 100,000 partitions is
one entry of the catalogue and a few empty containers.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

from headgate.domain.ids import Millis, TopicId, TopicName
from headgate.log.log import Log, LogSettings, Recovery
from headgate.topics.catalogue import CatalogueEntry
from headgate.topics.names import has_shard, is_always_compacted, is_internal
from headgate.topics.partition import Partition
from headgate.topics.partition_log import OwningTopic, PartitionLog
from headgate.topics.policy import TopicPolicy, policy_of
from headgate.topics.shared import Shared
from headgate.topics.traffic import Traffic

logger = logging.getLogger(__name__)

BEGINS_ANEW = (
    "its log begins anew at offset 0; if it had records, stop the server and restore the data directory "
    "from a backup"
)
ROOM_AFTER_BYTES = 4096
"""Bytes of a segment below which no space is preallocated after its end."""


class Topic(OwningTopic):
    """One topic, until it is deleted."""

    __slots__ = (
        "_empty",
        "_entry",
        "_given_up",
        "_kept",
        "_policy",
        "_written",
        "has_shard",
        "is_deleted",
        "is_internal",
        "name",
        "shared",
        "topic_id",
        "traffic",
    )

    def __init__(self, entry: CatalogueEntry, shared: Shared) -> None:
        self._entry = entry
        self.shared = shared
        self.traffic = Traffic()
        self.name: TopicName = entry.name
        self.topic_id: TopicId = entry.topic_id
        self.is_internal = is_internal(entry.name)
        self.has_shard = has_shard(entry.name)
        self.is_deleted = False
        """Whether the topic was deleted; holders of this object check it."""
        self._policy: TopicPolicy | None = None
        self._written: set[int] = set()
        self._empty: set[int] = set()
        """Partitions whose directory is known to have no segment: a crash or an error came before it."""
        self._kept: dict[int, Partition] = {}
        self._given_up: list[Partition] = []
        """Partitions of a deleted topic that another thread was opening."""

    @property
    def id(self) -> TopicId:
        """The topic's id, 16 bytes."""
        return self.topic_id

    @property
    def partition_count(self) -> int:
        """Number of partitions."""
        return self._entry.partition_count

    @property
    def overrides(self) -> dict[str, str]:
        """The settings that are set on the topic itself, as texts."""
        return self._entry.overrides

    @property
    def created_at(self) -> Millis:
        """Creation time, in ms."""
        return self._entry.created_at

    @property
    def offsets_from(self) -> Sequence[int] | None:
        """First offset, in each partition of `__consumer_offsets`, of the commits that belong to this topic.

        None if it was not recorded: no topic had the name before.
        """
        return self._entry.offsets_from

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in which this node writes."""
        return self.shared.leader_epoch

    @property
    def policy(self) -> TopicPolicy:
        """The policy that the topic's settings define."""
        policy = self._policy
        if policy is None:
            policy = self._policy = policy_of(
                self.shared.settings,
                self._entry.overrides,
                is_always_compacted=is_always_compacted(self.name),
            )
        return policy

    def settings_changed(self) -> None:
        """Discard the policy, to be derived from the new settings."""
        self._policy = None
        for partition in self._kept.values():
            partition.settings_changed()

    def partition(self, index: int) -> Partition:
        """Return the partition at `index`, which the caller may keep. Raises IndexError."""
        partition = self.find_partition(index)
        if partition is None:
            raise IndexError(f"{self.name} has no partition {index}")
        self.keep(partition)
        return partition

    def find_partition(self, index: int) -> Partition | None:
        """Return the partition at `index`, to be used within this step only; None if there is no such
        partition.
        """
        partition = self._kept.get(index)
        if partition is None and 0 <= index < self._entry.partition_count:
            partition = Partition(self, index)
        return partition

    def keep(self, partition: PartitionLog) -> None:
        """Make this the only object of the partition from now on."""
        assert isinstance(partition, Partition)
        kept = self._kept.setdefault(partition.index, partition)
        assert kept is partition, f"{partition} is in use, but another object was kept for it"

    def needs_opening(self, index: int) -> bool:
        """Return whether a partition's log must be read from the disk before it can be used."""
        if index not in self._written:
            return False
        partition = self._kept.get(index)
        return partition is None or partition.needs_opening

    def is_written(self, index: int) -> bool:
        """Return whether the partition has a directory."""
        return index in self._written

    def written_partitions(self) -> list[int]:
        """Return the indexes of the partitions with a directory, ascending."""
        return sorted(self._written)

    def partitions_with_segments(self) -> list[int]:
        """Return those of `written_partitions` whose directory is not known to be empty."""
        return sorted(self._written - self._empty)

    def compare_with_stop(self, before: Set[int]) -> list[int]:
        """Return the partitions that had segments at a clean stop and have no directory now.

        `before` has those with segments at the stop. Directories of others were empty then already.
        """
        self._empty = self._written - before
        return sorted(before - self._written)

    def open_partitions(self) -> Iterator[Partition]:
        """Yield the partitions whose logs are open, each at the time it is asked for."""
        for partition in list(self._kept.values()):
            if partition.is_open:
                yield partition

    def used_partitions(self) -> Iterator[Partition]:
        """Return the partitions that were used: their logs are open, are being opened, or could not be."""
        return iter(list(self._kept.values()))

    def directory_of(self, index: int) -> Path:
        """Return the path of a partition's directory, with Kafka's name for it."""
        return self.shared.data_dir / f"{self.name}-{index}"

    def found_on_disk(self, index: int) -> None:
        """Note that the partition's directory existed at start."""
        self._written.add(index)

    def high_watermarks(self) -> list[int]:
        """Return the high watermark of each partition. Raises OSError."""
        return [
            self.partition(index).high_watermark if index in self._written else 0
            for index in range(self.partition_count)
        ]

    def load_log(self, partition: PartitionLog, on_truncated: Callable[[Recovery], None]) -> Log:
        """Read the log of a partition from the disk, without any change to this object. Raises OSError."""
        is_clean = partition.key not in self.shared.unrecovered
        directory = self.directory_of(partition.index)
        if partition.index in self._written and not self.shared.fs.exists(directory):
            # As an empty log it would answer that it ends at 0, and readers would begin anew.
            why = "the directory is gone, or it is a link to a disk that is not mounted"
            raise FileNotFoundError(errno.ENOENT, why, str(directory))
        log = Log.open(
            self.shared.fs, directory, self.log_settings(), clean=is_clean, on_truncated=on_truncated
        )
        is_new = log.segments.active is None
        if is_new and is_clean and partition.index not in self._empty and self.shared.fs.exists(directory):
            logger.error(
                "the directory of a partition has no segments",
                extra={"topic": self.name, "partition": partition.index, "then": BEGINS_ANEW},
            )
        return log

    def log_opened(self, partition: PartitionLog, log: Log) -> None:
        """Register the open log of a partition, and keep the partition from now on."""
        self.shared.unrecovered.discard(partition.key)
        self.shared.used(log)
        self._written.add(partition.index)
        self._empty.discard(partition.index)
        self.keep(partition)

    def log_closed(self, partition: PartitionLog, log: Log) -> None:
        """Note that the log of a partition is closed, and may have got no directory: nothing was written."""
        self.shared.closed(log)
        if log.segments.active is None:
            if self.shared.fs.exists(log.directory):
                self._empty.add(partition.index)
            else:
                self._written.discard(partition.index)

    def log_settings(self) -> LogSettings:
        """Return the settings of the topic's logs."""
        policy = self.policy
        return LogSettings(
            segment_bytes=policy.segment_bytes,
            segment_ms=policy.segment_ms,
            index_interval_bytes=policy.index_interval_bytes,
            sync_on_roll=policy.is_durable,
            room_bytes=self.shared.settings["headgate.preallocate.bytes"] if policy.is_durable else 0,
            room_after_bytes=ROOM_AFTER_BYTES,
            reserves_segments=policy.reserves_segments,
            segment_jitter_ms=policy.segment_jitter_ms,
        )

    @property
    def is_being_read(self) -> bool:
        """Whether other threads still work in the directories of this deleted topic."""
        return any(partition.is_being_read for partition in self._given_up)

    def give_up_partitions(self) -> list[Path]:
        """Close every log of the deleted topic without writing, and return the directories to remove."""
        self.is_deleted = True
        for partition in self._kept.values():
            partition.give_up()
        directories = [self.directory_of(index) for index in self.written_partitions()]
        self.shared.unrecovered.difference_update((self.topic_id, index) for index in self._written)
        self.shared.waiters.wake_topic(self.topic_id)
        self.shared.committed_waiters.wake_topic(self.topic_id)
        self._given_up = [partition for partition in self._kept.values() if partition.is_being_read]
        self._kept.clear()
        self._written.clear()
        return directories
