"""What an assignor is given and what it gives back.

An assignor is a pure function from a `GroupSpec` to every member's target. Its rules:

1. Every partition of every topic that some member subscribes to has exactly one owner among its subscribers.
2. A member is given only partitions of topics it subscribes to; every member has an entry, if an empty one.
3. The same spec gives the same answer, in whatever order its mappings and sets are iterated.
4. Racks are carried along and not looked at: there is one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from headgate.domain.ids import InstanceId, MemberId, TopicId

Partitions: TypeAlias = tuple[int, ...]
"""Partition indexes of one topic, ascending, each once."""

Assignment: TypeAlias = Mapping[TopicId, Partitions]
"""What one member owns; a topic of which it owns nothing has no entry."""


@dataclass(slots=True, kw_only=True)
class MemberSubscription:
    """One member as an assignor sees it."""

    topics: frozenset[TopicId]
    """What it subscribes to, by name and by regular expression together. Members that subscribe alike are
    found faster when they share one set."""
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    current: Assignment = field(default_factory=dict)
    """Its present target, which a sticky assignor keeps as far as it can. It may name topics that it no
    longer subscribes to, and partitions that are gone or that another member has too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[MemberId, MemberSubscription]
    partition_counts: Mapping[TopicId, int]
    """How many partitions each topic has. A topic that is not here does not exist: nobody is given it."""


class Assignor(Protocol):
    """Decides every member's target; members of the spec and of the answer are the same."""

    def __call__(self, spec: GroupSpec) -> Mapping[MemberId, Assignment]: ...
