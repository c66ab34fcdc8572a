"""Where a group is in each partition, beside where the log ends and who reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.client.groups import GroupDescription, MemberDescription
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition
from headgate.domain.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Position:
    """One partition of a group."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """None where nothing is committed."""
    log_end_offset: int | None
    """The offset the next record gets; None where the partition is no more."""
    member: MemberDescription | None
    """Who reads it now."""
    paused: PausedPartition | None = None
    """Its pause, if it is paused: its lag grows because somebody wants it to."""

    @property
    def lag(self) -> int | None:
        """How many records are not read yet; None where there is nothing to count from or to."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


def readers_of(group: GroupDescription | None) -> dict[TopicPartition, MemberDescription]:
    """Who reads which partition."""
    members = group.members if group is not None else ()
    return {partition: member for member in members for partition in member.assignment or ()}


def positions_of(
    committed: Mapping[TopicPartition, CommittedOffset],
    readers: Mapping[TopicPartition, MemberDescription],
    ends: Mapping[TopicPartition, int],
    paused: Mapping[TopicPartition, PausedPartition],
) -> list[Position]:
    """Return one for every partition that has an offset or a reader or is paused, in order."""
    return [
        Position(one, committed.get(one), ends.get(one), readers.get(one), paused.get(one))
        for one in sorted(committed.keys() | readers.keys() | paused.keys())
    ]
