"""The operations of the Admin API on share groups (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from headgate.admin.arguments import among, refuse_impossible, wait_seconds
from headgate.admin.checking import checked
from headgate.admin.errors import NothingToReset
from headgate.admin.pausing import OnWaiting
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
from headgate.admin.share_rewind import RewoundSharePartition, ShareRewind
from headgate.admin.share_starts import plan_starts
from headgate.client import groups, share_deliveries, share_groups
from headgate.client.cluster import Cluster
from headgate.client.groups import GroupListing
from headgate.client.share_deliveries import AlteredShareRecords, ShareAlteration, ShareRecords
from headgate.client.share_groups import SHARE, ShareGroupDescription, ShareOffset
from headgate.domain.ids import GroupId, Millis, TopicName, TopicPartition

ShareTarget = ToEarliest | ToLatest | ToOffset | ToOffsets | ToDatetime | ByDuration


@checked
class ShareGroupAdmin:
    """Share groups of a cluster; the part of `headgate.admin.Admin` for them."""

    cluster: Cluster

    def list_share_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the share groups, sorted by id, or those with one of the states (`Empty`, `Stable`).

        States are in any case. Raises ValueError for others, and what `list_groups` raises.
        """
        chosen = among("states", states, share_groups.STATES)
        return groups.list_groups(self.cluster, chosen, [SHARE])

    def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, ShareGroupDescription | None]:
        """Return the groups with their members; None for a share group that does not exist."""
        wanted = map(GroupId, group_ids)
        found = share_groups.describe_share_groups(self.cluster, wanted)
        return {str(group_id): group for group_id, group in found.items()}

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

    def alter_share_offsets(self, group_id: str, starts: Mapping[TopicPartition, int]) -> list[PlannedOffset]:
        """Set start offsets of a group without members; deliveries begin anew there. Creates the group.

        Returns what was set. In place of an offset outside of the log its nearest end is set; `asked_for` has
        the other. Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`;
        `ValueError` for a negative offset.
        """
        refuse_impossible(starts)
        planned = plan_starts(self.cluster, starts)
        wanted = {one.partition: one.offset for one in planned}
        share_groups.alter_share_offsets(self.cluster, GroupId(group_id), wanted)
        return planned

    def rewind_share_group(
        self,
        group_id: str,
        starts: Mapping[TopicPartition, int],
        *,
        reason: str = "",
        caller: str = "",
        timeout_s: float = 300.0,
        on_waiting: OnWaiting = lambda waiting: None,
    ) -> list[RewoundSharePartition]:
        """Set start offsets of a group that runs: pause, wait until members have no records, set, resume.

        Members may acknowledge what they have for `timeout_s`; meanwhile locks end. In place of an offset
        outside of the log its nearest end is set; `asked_for` has the other. Raises `NotReleased` after that
        time, and what else stopped it, when the partitions are resumed; `RewindUnfinished` if they are not;
        `NothingToReset` without partitions; `VersionNotSupported` from a server that cannot pause;
        `ValueError` for a negative offset or time.
        """
        refuse_impossible(starts)
        rewind = ShareRewind(
            cluster=self.cluster,
            group_id=GroupId(group_id),
            starts=starts,
            reason=reason,
            caller=caller,
            timeout_s=wait_seconds("timeout_s", timeout_s),
            on_waiting=on_waiting,
        )
        return rewind.run()

    def delete_share_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Delete what a group without members has recorded of topics.

        Raises `RequestRefused`, with NON_EMPTY_GROUP if there are members, and `PartlyRefused`.
        """
        names = map(TopicName, topics)
        share_groups.delete_share_offsets(self.cluster, GroupId(group_id), names)

    def share_records(
        self, group_id: str, partition: TopicPartition, first_offset: int = 0
    ) -> Iterator[ShareRecords]:
        """Yield the records of a share-partition whose delivery is known, as ranges, from an offset on.

        They are read in pages, while deliveries go on. Raises `RequestRefused` (GROUP_ID_NOT_FOUND,
        UNKNOWN_TOPIC_OR_PARTITION), `ValueError` for a negative offset and, for a broker other than Headgate,
        `VersionNotSupported`.
        """
        refuse_impossible({partition: first_offset})
        return share_deliveries.share_records(self.cluster, GroupId(group_id), partition, first_offset)

    def alter_share_records(
        self,
        group_id: str,
        partition: TopicPartition,
        alteration: ShareAlteration,
        offsets: Iterable[tuple[int, int]],
        *,
        dry_run: bool = False,
    ) -> list[AlteredShareRecords]:
        """Release, archive or redeliver the records of ranges of offsets (first, last).

        A dry run changes nothing. Members go on meanwhile, so what happens may differ from a plan. Raises
        ValueError for what is no range, `RequestRefused` and `VersionNotSupported`.
        """
        return share_deliveries.alter_share_records(
            self.cluster, GroupId(group_id), partition, alteration, offsets, is_dry_run=dry_run
        )
