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
    """How far a pause is."""

    NOT_PAUSED = 0
    PAUSING = 1
    """A member still owns the partition: it may commit a last time, and the offset cannot be reset yet."""
    PAUSED = 2
    """Nobody owns the partition: only an administrator moves its offset."""


PartitionsByTopic = Sequence[tuple[TopicId, Sequence[int]]]


@dataclass(slots=True, frozen=True, kw_only=True)
class PausePartitions:
    """Take partitions, all of which exist, out of what a group may be assigned. Reply: `PauseResult`."""

    group_id: GroupId
    partitions: PartitionsByTopic
    caller: str
    """Who asks."""
    reason: str = ""


@dataclass(slots=True, frozen=True, kw_only=True)
class ResumePartitions:
    """Let a group be assigned partitions again. Reply: `PauseResult`."""

    group_id: GroupId
    partitions: PartitionsByTopic


@dataclass(slots=True, frozen=True)
class PauseResult:
    """The outcome of a pause or of a resume, for all its partitions."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """Why it was refused, and what to do."""
    states: Sequence[Sequence[PauseState]] = ()
    """The state of each partition from now on, as they were asked for."""


@dataclass(slots=True, frozen=True)
class ListPausedPartitions:
    """List paused partitions of a group. Reply: `PausedList`, or `PauseResult` with an error."""

    group_id: GroupId
    after: tuple[TopicId, int] | None = None
    """Go on behind this partition."""


class ListedPartition(NamedTuple):
    """One paused partition."""

    partition: int
    owner: MemberId | None
    """The member that has not released it; None: nobody owns it."""
    pause: Pause
    offset: int
    """The committed offset; -1 if there is none."""

    @property
    def state(self) -> PauseState:
        """How far the pause is."""
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
    """There may be more, behind this one."""
