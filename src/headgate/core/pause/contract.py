"""The interface between pauses and a kind of groups; groups of a kind without it cannot be paused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.core.effects import GroupEffects
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records import PausedPartitions


class Pausing(Protocol):
    """Pauses partitions of the groups of one kind; group ids are those of groups of this kind."""

    def repaused(self, group_id: GroupId, after: PausedPartitions, now: Millis) -> GroupEffects:
        """Return the effects of pausing exactly the partitions `after`.

        They are in one batch with the record of the pause: from then on no target assignment contains a
        paused partition. Members own their assigned partitions until they revoke them.
        """
        ...

    def owners_of(self, group_id: GroupId, topic_id: TopicId) -> Mapping[int, MemberId]:
        """Return the owners of a topic's partitions, also of those pending revocation."""
        ...
