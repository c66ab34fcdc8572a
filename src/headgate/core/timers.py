"""The deadlines of a shard."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple


class TimerKind(IntEnum):
    """The kind of a deadline. It is a number, because every heartbeat looks a timer up by it.

    A kind of groups may have its own enumeration besides, with numbers from 100 on.
    """

    SESSION = auto()
    """The session of a classic member has expired: remove it."""
    JOIN = auto()
    """End the wait of a rebalance for joins."""
    SYNC = auto()
    """Remove members that joined and have not synced."""
    CONSUMER_SESSION = auto()
    """The session of a member of a consumer group has expired: remove it."""
    REVOCATION = auto()
    """Remove a member of a consumer group that has not revoked partitions in time."""
    MEMBER_JOIN = auto()
    """Remove a classic member of a consumer group that has not rejoined in time."""
    MEMBER_SYNC = auto()
    """Remove a classic member of a consumer group that has not synced in time."""
    MEMBER_ID = auto()
    """Forget a member id that a consumer group gave out and that was not used."""
    PATTERNS = auto()
    """Match the regular expressions of a consumer group."""
    SWEEP = auto()
    """Find expired offsets."""
    ERASE = auto()
    """Continue the removal of deleted topics' offsets."""
    DELETE = auto()
    """Continue the deletion of groups on request."""
    RECLAIM = auto()
    """Free the space of removed offsets."""


class Timer(NamedTuple):
    """One deadline of a shard; fields that do not apply are empty."""

    kind: IntEnum
    group_id: str = ""
    member_id: str = ""
