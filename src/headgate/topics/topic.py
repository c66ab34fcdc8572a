"""A topic: what the catalogue says of it, and its partitions as far as anybody has asked for them.

A partition that was never written is no object here unless somebody means to hold it: a topic of 100,000
partitions is one entry of the catalogue and a few empty containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headgate.domain.ids import Millis, TopicId, TopicName
from headgate.log.log import Log, LogSettings, Recovery
from headgate.topics.catalogue import CatalogueEntry
from headgate.topics.names import is_always_compacted, is_internal
from headgate.topics.partition import Home, Partition
from headgate.topics.policy import TopicPolicy, policy_of
from headgate.topics.shared import Shared

ROOM_AFTER_BYTES = 4096
"""A smaller segment has no room reserved ahead of it."""


class Topic(Home):
    """One topic, as long as it exists."""

    __slots__ = (
        "_entry",
        "_given_up",
        "_kept",
        "_policy",
        "_written",
        "is_deleted",
        "is_internal",
        "name",
        "shared",
        "topic_id",
    )

    def __init__(self, entry: CatalogueEntry, shared: Shared) -> None:
        self._entry = entry
        self.shared = shared
        self.name: TopicName = entry.name
        self.topic_id: TopicId = entry.topic_id
        self.is_internal = is_internal(entry.name)
        self.is_deleted = False
        """Whether the topic is no more: who remembers it asks."""
        self._policy: TopicPolicy | None = None
        self._written: set[int] = set()
        self._kept: dict[int, Partition] = {}
        self._given_up: list[Partition] = []
        """Partitions of a deleted topic whose opening in another thread had begun."""

    @property
    def id(self) -> TopicId:
        """The topic's id, 16 bytes."""
        return self.topic_id

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has."""
        return self._entry.partition_count

    @property
    def overrides(self) -> dict[str, str]:
        """The settings the topic has of its own, as texts."""
        return self._entry.overrides

    @property
    def created_at(self) -> Millis:
        """When the topic was created."""
        return self._entry.created_at

    @property
    def offsets_from(self) -> Sequence[int] | None:
        """Where in each partition of `__consumer_offsets` the offsets begin that are this topic's.

        None if that was not noted: the name had been nobody's.
        """
        return self._entry.offsets_from

    @property
    def leader_epoch(self) -> int:
        """The epoch this node writes in."""
        return self.shared.leader_epoch

    @property
    def policy(self) -> TopicPolicy:
        """What the topic's settings mean."""
        policy = self._policy
        if policy is None:
            policy = self._policy = policy_of(
                self.shared.settings,
                self._entry.overrides,
                is_always_compacted=is_always_compacted(self.name),
            )
        return policy

    def settings_changed(self) -> None:
        """The catalogue has new settings for the topic: work out its policy anew."""
        self._policy = None
        for partition in self._kept.values():
            partition.settings_changed()

    def partition(self, index: int) -> Partition:
        """The partition at `index`, to be held as long as one likes. Raises IndexError."""
        partition = self.find_partition(index)
        if partition is None:
            raise IndexError(f"{self.name} has no partition {index}")
        self.keep(partition)
        return partition

    def find_partition(self, index: int) -> Partition | None:
        """The partition at `index`, for use in this step alone; None if the topic has no such partition."""
        partition = self._kept.get(index)
        if partition is None and 0 <= index < self._entry.partition_count:
            partition = Partition(self, index)
        return partition

    def keep(self, partition: Partition) -> None:
        """From here on this is the one object that stands for the partition."""
        kept = self._kept.setdefault(partition.index, partition)
        assert kept is partition, f"{partition} was held by somebody while it was kept for nobody"

    def needs_opening(self, index: int) -> bool:
        """Whether the log of a partition has to be read from the disk before it can be used."""
        if index not in self._written:
            return False
        partition = self._kept.get(index)
        return partition is None or partition.needs_opening

    def is_written(self, index: int) -> bool:
        """Whether the partition has a directory."""
        return index in self._written

    def written_partitions(self) -> list[int]:
        """The indexes of the partitions with a directory, ascending."""
        return sorted(self._written)

    def open_partitions(self) -> Iterator[Partition]:
        """The partitions whose logs are open."""
        return (partition for partition in list(self._kept.values()) if partition.is_open)

    def directory_of(self, index: int) -> Path:
        """Where a partition's log is or would be: Kafka's name for it."""
        return self.shared.data_dir / f"{self.name}-{index}"

    def found_on_disk(self, index: int) -> None:
        """A directory of the partition was there at start."""
        self._written.add(index)

    def high_watermarks(self) -> list[int]:
        """Up to where each partition may be read. Raises OSError."""
        return [
            self.partition(index).high_watermark if index in self._written else 0
            for index in range(self.partition_count)
        ]

    def load_log(self, partition: Partition, on_truncated: Callable[[Recovery], None]) -> Log:
        """Read the log of a partition from the disk; nothing here is changed. Raises OSError."""
        return Log.open(
            self.shared.fs,
            self.directory_of(partition.index),
            self.log_settings(),
            clean=partition.key not in self.shared.unrecovered,
            on_truncated=on_truncated,
        )

    def log_opened(self, partition: Partition, log: Log) -> None:
        """A partition has its log open: from here on the topic keeps the partition."""
        self.shared.unrecovered.discard(partition.key)
        self.shared.used(log)
        self._written.add(partition.index)
        self.keep(partition)

    def log_settings(self) -> LogSettings:
        """How the topic's logs are laid out."""
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
        """Whether other threads still work in directories of a topic that was given up."""
        return any(partition.is_being_read for partition in self._given_up)

    def give_up_partitions(self) -> list[Path]:
        """Close every log without a trace, and return the directories to remove: the topic is deleted."""
        self.is_deleted = True
        for partition in self._kept.values():
            partition.give_up()
        directories = [self.directory_of(index) for index in self.written_partitions()]
        self.shared.unrecovered.difference_update((self.topic_id, index) for index in self._written)
        self.shared.waiters.wake_topic(self.topic_id)
        self._given_up = [partition for partition in self._kept.values() if partition.is_being_read]
        self._kept.clear()
        self._written.clear()
        return directories
