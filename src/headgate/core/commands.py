"""Commands that are not one group type's own, and their results: the tick of time, and groups as a whole.

A command carries values only. Identifiers a machine may need (a new member id) come in with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.domain.ids import GroupId, TopicName


@dataclass(slots=True, frozen=True)
class Tick:
    """The time has come that `next_deadline` asked for. No reply."""


@dataclass(slots=True, frozen=True)
class SystemTimeMoved:
    """The system's time is so far ahead of the time that comes with commands. It has no effects."""

    ahead_ms: int


@dataclass(slots=True, frozen=True)
class ListGroups:
    """Which groups the shard holds; filters ignore case, empty ones let all pass. Reply: `ListedGroups`."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(slots=True, frozen=True)
class ListedGroup:
    """One line of a list of groups."""

    group_id: GroupId
    protocol_type: str
    state: str
    group_type: str


@dataclass(slots=True, frozen=True)
class ListedGroups:
    """Groups of one shard that pass the filters."""

    groups: tuple[ListedGroup, ...]
    rest: object | None = None
    """There may be more: what `ListMoreGroups` goes on with."""


@dataclass(slots=True, frozen=True)
class ListMoreGroups:
    """Go on with a list of groups. Reply: `ListedGroups`, or an error: it is to begin anew."""

    rest: object


@dataclass(slots=True, frozen=True)
class DeleteGroup:
    """Delete an empty group and its offsets. Reply: an `ErrorCode`."""

    group_id: GroupId


@dataclass(slots=True, frozen=True)
class DeleteTopicOffsets:
    """A topic is gone: so are its offsets in every group. Reply, after the last one: `ErrorCode.NONE`.

    Until then nobody may commit offsets of another topic of that name.
    """

    topic: TopicName
