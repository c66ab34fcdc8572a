"""Rewinding share-partitions of a group that runs: pause, wait until members have no records, set, resume.

If a step fails, what this rewind paused is resumed, and the failure is raised with a note; where nothing
answers, `RewindUnfinished` says what stays paused. The start offset is set last of all but the resume, so
that nothing is to be put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.admin.errors import NothingToReset, RewindUnfinished
from headgate.admin.pausing import OnWaiting, wait_until_released
from headgate.admin.share_starts import plan_starts
from headgate.client import pauses, share_groups
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError
from headgate.domain.ids import GroupId, TopicPartition
from headgate.domain.pauses import is_of_rewind, reason_of_rewind


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundSharePartition:
    """What a rewind did to one share-partition."""

    partition: TopicPartition
    before: int | None
    """The start offset before; None if it was not known."""
    offset: int
    """The start offset now."""
    asked_for: int
    """The requested offset. It differs from the new start offset if it lies outside of the log."""
    stays_paused: bool
    """Whether somebody else has paused it, before or meanwhile, so that it is not resumed."""


@dataclass(slots=True, kw_only=True)
class ShareRewind:
    """One rewind of a share group."""

    cluster: Cluster
    group_id: GroupId
    starts: Mapping[TopicPartition, int]
    reason: str
    caller: str
    timeout_s: float
    """How long to wait for members to acknowledge what they have."""
    on_waiting: OnWaiting

    def run(self) -> list[RewoundSharePartition]:
        """Do it. Raises what stopped it if the partitions are resumed, else `RewindUnfinished`."""
        if not self.starts:
            raise NothingToReset(f"no partitions of group {self.group_id} to rewind")
        before = pauses.list_paused(self.cluster, self.group_id)
        own = [one for one in sorted(self.starts) if one not in before or is_of_rewind(before[one].reason)]
        try:
            self._pause(own)
            former = {
                one.partition: one.start_offset
                for one in share_groups.share_offsets(self.cluster, self.group_id)
            }
            planned = plan_starts(self.cluster, self.starts)  # now: the logs grew during the wait
            wanted = {one.partition: one.offset for one in planned}
            share_groups.alter_share_offsets(self.cluster, self.group_id, wanted)
        except BaseException as failure:
            self._resume(own, "no start offset may be set", failure)
            failure.add_note("the partitions are resumed")
            raise
        resumed = self._resume(own, "the start offsets are set")
        return [
            RewoundSharePartition(
                partition=one.partition,
                before=former.get(one.partition),
                offset=one.offset,
                asked_for=one.asked_for,
                stays_paused=one.partition not in resumed,
            )
            for one in planned
        ]

    def _pause(self, own: list[TopicPartition]) -> None:
        pauses.pause(self.cluster, self.group_id, own, reason_of_rewind(self.reason), self.caller)
        wait_until_released(self.cluster, self.group_id, self.starts, self.timeout_s, self.on_waiting)

    def _resume(
        self, own: list[TopicPartition], state: str, failure: BaseException | None = None
    ) -> set[TopicPartition]:
        try:
            return pauses.resume_of_rewinds(self.cluster, self.group_id, own)
        except (ClientError, KeyboardInterrupt) as problem:
            raise RewindUnfinished(self.group_id, own, state) from (failure or problem)
