"""The position of a group in each partition: committed offset, end of the log, and assigned member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.client.groups import GroupDescription, MemberDescription
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition
from headgate.domain.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a group in one partition."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """None: no committed offset."""
    log_end_offset: int | None
    """The offset after the last record; None: the partition does not exist any more."""
    member: MemberDescription | None
    """The member to which the partition is assigned."""
    paused: PausedPartition | None = None
    """The pause of the partition. Its lag grows intentionally."""

    @property
    def lag(self) -> int | None:
        """Records after the committed offset; None without a committed offset or an end of the log."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


def readers_of(group: GroupDescription | None) -> dict[TopicPartition, MemberDescription]:
    """Return the member of each assigned partition."""
    members = group.members if group is not None else ()
    return {partition: member for member in members for partition in member.assignment or ()}


def positions_of(
    committed: Mapping[TopicPartition, CommittedOffset],
    readers: Mapping[TopicPartition, MemberDescription],
    ends: Mapping[TopicPartition, int],
    paused: Mapping[TopicPartition, PausedPartition],
) -> list[Position]:
    """Return a position for every partition with a committed offset, a member or a pause, sorted."""
    return [
        Position(one, committed.get(one), ends.get(one), readers.get(one), paused.get(one))
        for one in sorted(committed.keys() | readers.keys() | paused.keys())
    ]
