"""The input and output of assignors.

An assignor is a pure function from a `GroupSpec` to the target assignment of every member. Its rules:

1. Every assignable partition of every topic with a subscriber has exactly one owner among its subscribers. A
   partition that may not be assigned, because it is paused, has none.
2. A member gets only partitions of topics it subscribes to; every member has an entry, possibly an empty one.
3. The result depends only on the spec, not on the iteration order of its mappings and sets.
4. Racks are part of the spec but are not used: there is one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from headgate.domain.ids import InstanceId, MemberId, TopicId

Partitions: TypeAlias = tuple[int, ...]
"""Partition indexes of one topic, ascending, without duplicates."""

Assignment: TypeAlias = Mapping[TopicId, Partitions]
"""Partitions of one member; topics without partitions have no entry."""


@dataclass(slots=True, kw_only=True)
class MemberSubscription:
    """One member in the input of an assignor."""

    topics: frozenset[TopicId]
    """Topics of its subscription, by names and by regular expression. Assignors are faster if members with
    equal subscriptions share one set.
    """
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    current: Assignment = field(default_factory=dict)
    """Its present target assignment, which a sticky assignor keeps as far as possible. It may contain topics
    that it no longer subscribes to, and partitions that no longer exist or that another member has too.
    """


@dataclass(frozen=True, slots=True)
class AssignablePartitions:
    """The partitions of a topic that may be assigned: those below `count` that are not in `withheld`."""

    count: int
    """Number of partitions of the topic."""
    withheld: frozenset[int] = frozenset()
    """Partitions of the topic that must not be assigned."""

    def __len__(self) -> int:
        return self.count - len(self.withheld)

    def __iter__(self) -> Iterator[int]:
        # The difference of two sets is several times faster than a look at each partition.
        return iter(sorted(frozenset(range(self.count)) - self.withheld))

    def __contains__(self, partition: object) -> bool:
        return partition in range(self.count) and partition not in self.withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """The input of an assignor."""

    members: Mapping[MemberId, MemberSubscription]
    assignable: Mapping[TopicId, AssignablePartitions]
    """The partitions of each topic. A topic without an entry does not exist, and is not assigned."""


class Assignor(Protocol):
    """Computes the target assignment of every member of the spec."""

    def __call__(self, spec: GroupSpec) -> Mapping[MemberId, Assignment]: ...
