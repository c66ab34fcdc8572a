"""Commands about paused partitions, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName
from headgate.records import Pause


class PauseState(IntEnum):
    """The state of a partition's pause."""

    NOT_PAUSED = 0
    PAUSING = 1
    """A member still owns the partition: it may commit once more, and the offset cannot be reset yet."""
    PAUSED = 2
    """No member owns the partition: only an administrator can commit its offset."""


PartitionsByTopic = Sequence[tuple[TopicId, Sequence[int]]]


@dataclass(slots=True, frozen=True, kw_only=True)
class PausePartitions:
    """Pause existing partitions: exclude them from the group's assignments. Reply: `PauseResult`."""

    group_id: GroupId
    partitions: PartitionsByTopic
    caller: str
    """Who paused them, as a text."""
    reason: str = ""


@dataclass(slots=True, frozen=True, kw_only=True)
class ResumePartitions:
    """Resume partitions: they can be assigned again. Reply: `PauseResult`."""

    group_id: GroupId
    partitions: PartitionsByTopic
    only_of_rewinds: bool = False
    """Leave what is paused for another reason, perhaps a moment ago."""


@dataclass(slots=True, frozen=True)
class PauseResult:
    """The result of a pause or a resume, for all its partitions."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """The reason of the error, and what to do."""
    states: Sequence[Sequence[PauseState]] = ()
    """The new state of each partition, in the order asked."""


@dataclass(slots=True, frozen=True)
class ListPausedPartitions:
    """List paused partitions of a group. Reply: `PausedList`, or `PauseResult` with an error."""

    group_id: GroupId
    after: tuple[TopicId, int] | None = None
    """Continue after this partition; None: start at the first one."""


@dataclass(slots=True, frozen=True)
class ReadPauses:
    """Read all pauses of a group, of any kind or of none. Reply: `PausedPartitions`."""

    group_id: GroupId


class ListedPartition(NamedTuple):
    """One paused partition."""

    partition: int
    owner: MemberId | None
    """The member that owns it, or has not revoked it yet; None if no member does."""
    pause: Pause
    offset: int
    """The committed offset; -1 if there is none."""

    @property
    def state(self) -> PauseState:
        """The state of the pause."""
        return PauseState.PAUSED if self.owner is None else PauseState.PAUSING


class PausedTopic(NamedTuple):
    """Paused partitions of a topic, ascending."""

    topic_id: TopicId
    name: TopicName
    partitions: Sequence[ListedPartition]


class PausedList(NamedTuple):
    """Paused partitions, topic by topic."""

    topics: Sequence[PausedTopic]
    rest: tuple[TopicId, int] | None
    """The last partition of this part of the list; None if there are no more."""
