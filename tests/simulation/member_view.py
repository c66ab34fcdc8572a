"""What is known of one member of a consumer group, from its own requests and their answers alone.

A member's epoch and partitions change by its own heartbeats only, and every answer tells what it has then. So
the assignment epoch of each partition (KIP-1251) is known without being told: it is the epoch of the answer
that brought the partition. Where answers were lost with a failed shard, an epoch lies between two bounds, and
what the member is to let go cannot be told from what it keeps (`is_vague`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.core.consumer.commands import Reported
from headgate.domain.ids import InstanceId, MemberId, TopicId

Part = tuple[TopicId, int]
"""A partition of a topic in one of its lives."""


_ANY = 1 << 31


class Grant(NamedTuple):
    """Since which epoch a member has a partition: at least `low`, at most `high`."""

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
    """What it is to let go."""
    is_vague: bool = False
    """A load found it like this: what it has is `assigned`, also what it is to let go."""
    is_blurred: bool = False
    """It may have let go some of that since."""
    spoken_epoch: int = 0
    """The highest epoch that the member itself has named, and was believed."""
    heard_at: float = 0.0
    """When it was last heard of in this life of the shard, or when that began."""
    session_seconds: float = 0.0
    """What it was given then."""
    rebalance_seconds: float = 0.0
    revoking_since: float | None = None
    """When it was told to let go, at the earliest."""
    late_at: float | None = None
    """When it is late to let go, at the latest."""

    @property
    def owned(self) -> dict[Part, Grant]:
        """All it has, to be let go or not."""
        return self.assigned | self.pending

    def is_sure(self, at: float) -> bool:
        """Whether it cannot have been removed by then for being late."""
        is_in_time = self.revoking_since is None or at < self.revoking_since + self.rebalance_seconds
        return is_in_time and at < self.heard_at + self.session_seconds

    @property
    def ends_at(self) -> float:
        """When its session ends."""
        return self.heard_at + self.session_seconds

    def heard(self, at: float, session_seconds: float) -> None:
        """Its session begins anew."""
        self.heard_at, self.session_seconds = at, session_seconds

    def step(self, epoch: int, assigned: Iterable[Part] | None, lowest: Mapping[Part, int]) -> set[Part]:
        """An answer put it into this epoch with these partitions, or with those it had. What it lost.

        `lowest` tells of partitions how old a grant can be when nobody saw it made.
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
        if self.is_vague:  # what it was to let go may have been given to it again
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

    def become_vague(self, epoch: int, owned: Set[Part], lowest: Mapping[Part, int]) -> None:
        """A load found it like this after something may have happened."""
        had, high = self.owned, max(epoch, 0)
        low = {part: had[part].low if part in had else lowest.get(part, 0) for part in owned}
        self.assigned = {part: Grant(min(low[part], high), high) for part in owned}
        self.pending, self.epoch, self.is_vague, self.is_blurred = {}, epoch, True, False

    def may_be_another(self) -> None:
        """It may have been removed, and be another member with the same id or instance id by now."""
        self.assigned = {part: Grant(0, _ANY) for part in self.owned}
        self.pending, self.is_vague, self.is_blurred = {}, True, True

    def has_all_since(self, parts: Iterable[Part | None], epoch: int) -> bool:
        """Whether it surely has all of these since this epoch at the latest."""
        owned = {} if self.is_blurred else self.owned
        return all(part is not None and part in owned and owned[part].high <= epoch for part in parts)

    def may_have_all_since(self, parts: Iterable[Part | None], epoch: int) -> bool:
        """Whether it may have all of these since this epoch at the latest."""
        owned = self.owned
        return all(part is not None and part in owned and owned[part].low <= epoch for part in parts)


def parts_of(reported: Reported) -> set[Part]:
    """What a heartbeat says a member has."""
    return {(topic_id, one) for topic_id, each in reported for one in each}
