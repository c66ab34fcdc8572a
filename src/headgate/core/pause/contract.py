"""What a kind of groups does about paused partitions; a kind that has none of it cannot be paused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.core.effects import GroupEffects
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records import PausedPartitions


class Pausing(Protocol):
    """The groups of one kind, as the pause sees them; group ids are those of groups of this kind."""

    def repaused(self, group_id: GroupId, after: PausedPartitions, now: Millis) -> GroupEffects:
        """Have a group's members follow when just `after` is paused from now on.

        The effects go with the record that says so, in one batch: from then on no target contains a paused
        partition. What is assigned to members is theirs until they release it.
        """
        ...

    def owners_of(self, group_id: GroupId, topic_id: TopicId) -> Mapping[int, MemberId]:
        """Return who owns or has not released partitions of a topic."""
        ...
