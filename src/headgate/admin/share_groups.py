"""The operations of the Admin API on share groups (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from headgate.admin.arguments import strings
from headgate.admin.errors import NothingToReset
from headgate.admin.reset import (
    ByDuration,
    PlannedOffset,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
)
from headgate.admin.reset import plan as plan_of
from headgate.client import groups, share_groups
from headgate.client.cluster import Cluster
from headgate.client.groups import GroupListing
from headgate.client.share_groups import SHARE, ShareGroupDescription, ShareOffset
from headgate.domain.ids import GroupId, Millis, TopicName, TopicPartition

ShareTarget = ToEarliest | ToLatest | ToOffset | ToOffsets | ToDatetime | ByDuration


class ShareGroupAdmin:
    """Share groups of a cluster; the part of `headgate.admin.Admin` for them."""

    cluster: Cluster

    def list_share_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the share groups, sorted by id, or those with one of the states (`Empty`, `Stable`)."""
        return groups.list_groups(self.cluster, strings("states", states), [SHARE])

    def describe_share_groups(self, group_ids: Iterable[str]) -> dict[GroupId, ShareGroupDescription | None]:
        """Return the groups with their members; None for a share group that does not exist."""
        wanted = map(GroupId, strings("group_ids", group_ids))
        return share_groups.describe_share_groups(self.cluster, wanted)

    def share_offsets(self, group_id: str) -> list[ShareOffset]:
        """Return start offset and lag of a group in each of its share-partitions, sorted."""
        return share_groups.share_offsets(self.cluster, GroupId(group_id))

    def plan_share_reset(
        self, partitions: Iterable[TopicPartition], target: ShareTarget
    ) -> list[PlannedOffset]:
        """Return the new start offset of each partition, without changes.

        Raises `NothingToReset`, and `RequestRefused` for partitions that do not exist.
        """
        wanted = list(dict.fromkeys(partitions))
        if not wanted:
            raise NothingToReset("no partitions to reset")
        return plan_of(
            target,
            wanted,
            {},
            lambda timestamp: self.cluster.list_offsets(dict.fromkeys(wanted, timestamp)),
            Millis(time.time_ns() // 1_000_000),
        )

    def alter_share_offsets(self, group_id: str, starts: Mapping[TopicPartition, int]) -> None:
        """Set start offsets of a group without members; deliveries begin anew there. Creates the group.

        Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`.
        """
        share_groups.alter_share_offsets(self.cluster, GroupId(group_id), starts)

    def delete_share_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Delete what a group without members has recorded of topics.

        Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`.
        """
        names = map(TopicName, strings("topics", topics))
        share_groups.delete_share_offsets(self.cluster, GroupId(group_id), names)
