"""Events of a shard that people want to know of, for the log and the metrics.

Events are values. The shell sets `listener`. State never depends on events. An event is
reported when it is decided, before its records are durable, and not when a log is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from headgate.domain.ids import GroupId


class ExpiryReason(StrEnum):
    """Why offsets expired."""

    EMPTY_GROUP = "empty-group"
    """The group had no members for as long as its retention."""
    OLD_COMMIT = "old-commit"
    """The group never had members, and the commit is as old as its retention."""
    UNSUBSCRIBED_TOPIC = "unsubscribed-topic"
    """No member of the group subscribes to the topic, and the commit is as old as its retention."""
    COMMIT_RETENTION = "commit-retention"
    """The expiry time that the client sent with the commit."""


class OffsetsExpired(NamedTuple):
    """Offsets of a group were removed by expiry; those of a large group in several events."""

    group_id: GroupId
    offset_count: int
    reason: ExpiryReason
    retention_ms: int
    """The group's retention."""


class GroupExpired(NamedTuple):
    """A group without members was removed after the last of its offsets."""

    group_id: GroupId


Event = OffsetsExpired | GroupExpired


class Events:
    """Where a shard reports its events."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener: Callable[[Event], None] | None = None

    def report(self, event: Event) -> None:
        """Pass an event to the listener, if there is one."""
        if self.listener is not None:
            self.listener(event)
