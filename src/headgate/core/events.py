"""Events of a shard that people want to know of, for the log and the metrics.

Events are values. The shell sets `listener`. State never depends on events. An event is
reported when it is decided, before its records are durable, and not when a log is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from headgate.domain.ids import GroupId, MemberId


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


class GroupCreated(NamedTuple):
    """A group was created: by its first member, or by a commit without members."""

    group_id: GroupId
    group_type: str


class MemberJoined(NamedTuple):
    """A member joined a group."""

    group_id: GroupId
    member_id: MemberId
    client_id: str
    client_host: str


class Awaited(StrEnum):
    """What a classic group waits for."""

    REJOIN = "rejoin"
    SYNC = "sync"


class RemovalReason(StrEnum):
    """Why a member was removed from its group."""

    LEFT = "left"
    """It left, or an administrator removed it."""
    SESSION_TIMEOUT = "session-timeout"
    """It sent no heartbeat for as long as its session timeout."""
    DID_NOT_REJOIN = "did-not-rejoin"
    """It did not rejoin within the rebalance timeout."""
    DID_NOT_SYNC = "did-not-sync"
    """It did not ask for its assignment within the rebalance timeout."""
    REPLACED = "replaced"
    """Another client joined with its instance id and fences it; mostly the same one, after a restart."""
    DID_NOT_REVOKE = "did-not-revoke"
    """It did not revoke partitions within the rebalance timeout."""


class MemberRemoved(NamedTuple):
    """A member was removed. Its later requests are refused: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH or
    FENCED_INSTANCE_ID.
    """

    group_id: GroupId
    member_id: MemberId
    client_id: str
    client_host: str
    reason: RemovalReason
    client_reason: str | None = None
    """Why it left, in the words of the client that removed it (KIP-800)."""


class MemberAwaited(NamedTuple):
    """A classic group has been waiting for this member for long; the member sends heartbeats."""

    group_id: GroupId
    member_id: MemberId
    client_id: str
    client_host: str
    awaited: Awaited
    waited_ms: int


class GroupRebalanced(NamedTuple):
    """A group got a new generation (classic) or a new target assignment (consumer, share)."""

    group_id: GroupId
    epoch: int
    """The generation or the assignment epoch."""
    member_count: int
    duration_ms: int | None = None
    """Time for which the group waited for its members to join; None for a group that does not wait."""
    is_share: bool = False


class GroupDeleted(NamedTuple):
    """A group was deleted by request."""

    group_id: GroupId


class TransactionTimedOut(NamedTuple):
    """The coordinator aborts a transaction, because its producer did not end it in time."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    partition_count: int


Event = (
    OffsetsExpired
    | GroupExpired
    | GroupCreated
    | MemberJoined
    | MemberRemoved
    | MemberAwaited
    | GroupRebalanced
    | GroupDeleted
    | TransactionTimedOut
)


class Events:
    """Where a shard reports its events."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener: Callable[[Event], None] | None = None

    def report(self, event: Event) -> None:
        """Pass an event to the listener, if there is one."""
        if self.listener is not None:
            self.listener(event)
