"""Pauses of share-partitions: a pause changes no assignment and no record of the group.

Members share partitions, and acknowledge what they have in their sessions. So a paused share-partition stays
assigned; the node that delivers its records stops acquiring them, and asks for pauses with `ReadPauses`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.effects import NOTHING, GroupEffects
from headgate.core.share.membership.commands import StatePartitions
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records import PausedPartitions


class SharePausing:
    """The `headgate.core.pause.contract.Pausing` of share groups."""

    __slots__ = ()

    def repaused(self, group_id: GroupId, after: PausedPartitions, now: Millis) -> GroupEffects:
        """Return no effects."""
        return NOTHING

    def owners_of(self, group_id: GroupId, topic_id: TopicId) -> Mapping[int, MemberId]:
        """Return no owners: who delivers the records knows which members have some of them."""
        return {}


def are_paused(partitions: StatePartitions, paused: PausedPartitions) -> bool:
    """Return whether there are partitions, and all of them are paused."""
    return bool(partitions) and all(
        paused.get(topic_id, {}).keys() >= set(indexes) for topic_id, (_, indexes) in partitions.items()
    )
