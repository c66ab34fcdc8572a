"""Commands that do not belong to one kind of groups, and their results: ticks, lists and deletions.

A command has values only. Generated identifiers, such as a new member id, are part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.offsets.authors import Author
from headgate.domain.ids import GroupId, TopicName


@dataclass(slots=True, frozen=True)
class Tick:
    """Handle the deadlines that are due: the time of `next_deadline` has come. No reply."""


@dataclass(slots=True, frozen=True)
class SystemTimeMoved:
    """Set how far the system time is ahead of the time of commands. It has no effects."""

    ahead_ms: int


@dataclass(slots=True, frozen=True)
class ListGroups:
    """List the shard's groups; filters ignore case, empty ones match all groups. Reply: `ListedGroups`."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(slots=True, frozen=True)
class ListedGroup:
    """One group in a list of groups."""

    group_id: GroupId
    protocol_type: str
    state: str
    group_type: str


@dataclass(slots=True, frozen=True)
class ListedGroups:
    """Groups of one shard that match the filters."""

    groups: tuple[ListedGroup, ...]
    rest: object | None = None
    """The rest of the list, for `ListMoreGroups`; None if it is complete."""


@dataclass(slots=True, frozen=True)
class ListMoreGroups:
    """Continue a list of groups. Reply: `ListedGroups`, or a retriable error: the list must start again."""

    rest: object


@dataclass(slots=True, frozen=True)
class DeleteGroup:
    """Delete an empty group and its offsets. Reply: an `ErrorCode`."""

    group_id: GroupId
    author: Author | None = None
    """The client, to be recorded."""


@dataclass(slots=True, frozen=True)
class RetentionConfigured:
    """Set a group's own retention of offsets. It need not exist. Sent before the load too. No reply."""

    group_id: GroupId
    retention_ms: int | None
    """Negative: the offsets do not expire. None: the broker's setting applies."""


@dataclass(slots=True, frozen=True)
class DescribeExpiry:
    """Forecast the expiry of a group's offsets. Reply: `ExpiryForecast` (`core.expiry_forecast`), or
    GROUP_ID_NOT_FOUND.
    """

    group_id: GroupId


@dataclass(slots=True, frozen=True)
class ListExpiring:
    """Forecast the expiry of all groups without members. Reply: `ForecastSteps` (`core.expiry_forecast`)."""


@dataclass(slots=True, frozen=True)
class DeleteTopicOffsets:
    """Delete a deleted topic's offsets in every group. Reply, after the last one: `ErrorCode.NONE`.

    Until then nobody may commit offsets of another topic of that name.
    """

    topic: TopicName
