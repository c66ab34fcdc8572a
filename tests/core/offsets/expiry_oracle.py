"""A second, simple statement of when offsets may and must expire (KIP-211, R0.3 to R0.12).

The oracle knows what an administrator can see: the groups with type and state, and the topics that their
members read. It is told of each commit. It does not know how the shard sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.consumer.commands import DescribedConsumerGroup
from headgate.domain.ids import Millis

Place = tuple[str, str, int]
"""A group, a topic and a partition."""


@dataclass(frozen=True)
class SeenGroup:
    """A group as an administrator sees it."""

    group_type: str
    state: str
    protocol_type: str
    reads: frozenset[str] | None
    """The topics that its members read; None if unknown."""

    @property
    def is_empty(self) -> bool:
        return self.state == "Empty"


@dataclass(frozen=True)
class KnownOffset:
    """A commit: its time, and its expiry time if the client sent one."""

    committed_at: Millis
    expires_at: Millis | None


@dataclass
class ExpiryOracle:
    """The known groups and offsets of a shard."""

    retention_ms: int
    own_retention_ms: dict[str, int] = field(default_factory=dict)
    """By group; -1: for ever."""
    offsets: dict[Place, KnownOffset] = field(default_factory=dict)
    groups: dict[str, SeenGroup] = field(default_factory=dict)
    empty_since: dict[str, Millis] = field(default_factory=dict)
    """For groups that had members and have none now."""

    def sees(self, groups: dict[str, SeenGroup], now: Millis) -> None:
        """Set the current groups."""
        for group_id, seen in groups.items():
            before = self.groups.get(group_id)
            if not seen.is_empty:
                self.empty_since.pop(group_id, None)
            elif before is not None and not before.is_empty:
                self.empty_since[group_id] = now
        for group_id in self.groups.keys() - groups.keys():
            self.empty_since.pop(group_id, None)
        self.groups = groups

    def is_expired(self, place: Place, now: Millis) -> bool:
        """Return whether an offset may expire now, and must expire soon."""
        group_id, topic, _ = place
        offset, group = self.offsets[place], self.groups.get(group_id)
        age_ms = now - offset.committed_at
        if group is not None and not group.is_empty:
            if group.group_type == "Classic" and (group.protocol_type, group.state) != ("consumer", "Stable"):
                return False
            if group.reads is None or topic in group.reads:
                return False
        elif group_id in self.empty_since:
            age_ms = now - self.empty_since[group_id]
        if offset.expires_at is not None:
            return now >= offset.expires_at
        retention_ms = self.own_retention_ms.get(group_id, self.retention_ms)
        return 0 <= retention_ms <= age_ms


def reads_of_consumer_group(described: DescribedConsumerGroup) -> frozenset[str]:
    """Return the topics that the members of a consumer group read by name."""
    return frozenset(name for member in described.members for name in member.subscribed_topic_names)
