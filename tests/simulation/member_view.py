"""What is known of one member of a consumer group, from its own requests and their answers alone.

A member's epoch and partitions change only with its own heartbeats, and every answer contains them. So the
assignment epoch of each partition (KIP-1251) is known: it is the epoch of the answer that assigned the
partition. If answers were lost with a failed shard, an epoch lies between two bounds, and partitions pending
revocation cannot be distinguished from others (`is_vague`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.core.consumer.commands import Reported
from headgate.domain.ids import InstanceId, MemberId, TopicId

Part = tuple[TopicId, int]
"""A partition of a topic in one of its lives."""


_ANY = 1 << 31


class Grant(NamedTuple):
    """The epoch of a partition's assignment to a member: at least `low`, at most `high`."""

    low: int
    high: int


@dataclass(eq=False)
class MemberView:
    """One member."""

    member_id: MemberId
    instance_id: InstanceId | None
    epoch: int
    assigned: dict[Part, Grant] = field(default_factory=dict)
    pending: dict[Part, Grant] = field(default_factory=dict)
    """Partitions pending revocation."""
    is_vague: bool = False
    """Found by a load: `assigned` includes partitions pending revocation."""
    is_blurred: bool = False
    """It may have revoked some of them since."""
    spoken_epoch: int = 0
    """The highest epoch in the member's own accepted requests."""
    heard_at: float = 0.0
    """The time of its last request in this life of the shard, or the start of that life."""
    session_seconds: float = 0.0
    """The session timeout at that time."""
    rebalance_seconds: float = 0.0
    revoking_since: float | None = None
    """The earliest time when it was told to revoke."""
    late_at: float | None = None
    """The latest time when its revocation is overdue."""

    @property
    def owned(self) -> dict[Part, Grant]:
        """Return all partitions, including those pending revocation."""
        return self.assigned | self.pending

    def is_sure(self, at: float) -> bool:
        """Return whether it cannot have been removed by then for being late."""
        is_in_time = self.revoking_since is None or at < self.revoking_since + self.rebalance_seconds
        return is_in_time and at < self.heard_at + self.session_seconds

    @property
    def ends_at(self) -> float:
        """Return when its session expires."""
        return self.heard_at + self.session_seconds

    def heard(self, at: float, session_seconds: float) -> None:
        """Restart its session."""
        self.heard_at, self.session_seconds = at, session_seconds

    def step(self, epoch: int, assigned: Iterable[Part] | None, lowest: Mapping[Part, int]) -> set[Part]:
        """Apply an answer with this epoch and these partitions, or the same ones. Return the lost partitions.

        `lowest` has the minimum epoch of an unseen assignment, by partition.
        """
        had, is_later = self.owned, epoch > self.epoch
        self.epoch = epoch
        if assigned is None:
            if is_later and self.is_vague:
                self.is_blurred = True
            elif is_later:
                self.pending = {}
            return had.keys() - self.owned.keys()
        known = had if self.is_vague else self.assigned
        grants = {part: known.get(part, Grant(epoch, epoch)) for part in assigned}
        if self.is_vague:  # partitions pending revocation may have been assigned to it again
            low = {part: known[part].low if part in known else lowest.get(part, 0) for part in grants}
            grants = {
                part: Grant(min(low[part], epoch), epoch if is_later else min(grant.high, epoch))
                for part, grant in grants.items()
            }
        self.assigned = grants
        self.pending = {} if is_later else {one: had[one] for one in had.keys() - self.assigned.keys()}
        self.is_blurred = self.is_blurred and not is_later
        self.is_vague = self.is_blurred
        return had.keys() - self.owned.keys()

    def release(self, parts: Container[Part]) -> None:
        """Remove partitions that it released without a heartbeat of its own."""
        self.assigned = {part: grant for part, grant in self.assigned.items() if part not in parts}

    def become_vague(self, epoch: int, owned: Set[Part], lowest: Mapping[Part, int]) -> None:
        """Set the state found by a load after unseen changes."""
        had, high = self.owned, max(epoch, 0)
        low = {part: had[part].low if part in had else lowest.get(part, 0) for part in owned}
        self.assigned = {part: Grant(min(low[part], high), high) for part in owned}
        self.pending, self.epoch, self.is_vague, self.is_blurred = {}, epoch, True, False

    def may_be_another(self) -> None:
        """Note that it may have been removed, and that another member may have its id."""
        self.assigned = {part: Grant(0, _ANY) for part in self.owned}
        self.pending, self.is_vague, self.is_blurred = {}, True, True

    def has_all_since(self, parts: Iterable[Part | None], epoch: int) -> bool:
        """Return whether it certainly has all of these since this epoch at the latest."""
        owned = {} if self.is_blurred else self.owned
        return all(part is not None and part in owned and owned[part].high <= epoch for part in parts)

    def may_have_all_since(self, parts: Iterable[Part | None], epoch: int) -> bool:
        """Return whether it may have all of these since this epoch at the latest."""
        owned = self.owned
        return all(part is not None and part in owned and owned[part].low <= epoch for part in parts)


def parts_of(reported: Reported) -> set[Part]:
    """Return the partitions in a heartbeat."""
    return {(topic_id, one) for topic_id, each in reported for one in each}
