"""What a topic tells its partitions and their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from headgate.domain.ids import TopicId, TopicName
from headgate.log.log import LogSettings
from headgate.topics.policy import TopicPolicy
from headgate.topics.shared import Shared
from headgate.topics.traffic import Traffic


class PartitionTopic(Protocol):
    """The name, the settings and the directories of a topic."""

    __slots__ = ()
    name: TopicName
    topic_id: TopicId
    shared: Shared
    traffic: Traffic
    is_deleted: bool
    has_shard: bool
    """Whether a coordinator keeps its state there, and recovers its logs."""

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

    def directory_of(self, index: int) -> Path:
        """Return the directory of a partition's log, which may not exist yet."""
        ...

    def log_settings(self) -> LogSettings:
        """Return the log settings of the topic."""
        ...
