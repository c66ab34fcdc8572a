"""The part of a topic that its partitions use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.domain.ids import TopicId, TopicName
from headgate.log.log import Log, LogSettings, Recovery
from headgate.topics.policy import TopicPolicy
from headgate.topics.shared import Shared

if TYPE_CHECKING:
    from headgate.topics.partition import Partition


class PartitionTopic(Protocol):
    """What a partition needs from its topic."""

    __slots__ = ()
    name: TopicName
    topic_id: TopicId
    shared: Shared
    is_deleted: bool

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of new batches."""
        ...

    @property
    def policy(self) -> TopicPolicy:
        """Return the policy that the topic's settings define."""
        ...

    def is_written(self, index: int) -> bool:
        """Return whether the partition has a directory."""
        ...

    def keep(self, partition: Partition) -> None:
        """Register this object as the only one of the partition."""
        ...

    def find_partition(self, index: int) -> Partition | None:
        """Return the partition at `index`; None if the topic has no such partition."""
        ...

    def directory_of(self, index: int) -> Path:
        """Return the directory of a partition's log, which may not exist yet."""
        ...

    def load_log(self, partition: Partition, on_truncated: Callable[[Recovery], None]) -> Log:
        """Read the log of a partition from the disk. Raises OSError."""
        ...

    def log_opened(self, partition: Partition, log: Log) -> None:
        """Note that the log of a partition is open."""
        ...

    def log_settings(self) -> LogSettings:
        """Return the log settings of the topic."""
        ...
