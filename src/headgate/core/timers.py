"""The names of a shard's deadlines."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple


class TimerKind(IntEnum):
    """What is to happen at a deadline. A number, because every heartbeat looks a timer up by it.

    A kind of groups may have an enumeration of its own beside this one, with numbers from 100 on.
    """

    SESSION = auto()
    """A member was not heard of: it is removed."""
    JOIN = auto()
    """A rebalance has waited long enough for its members."""
    SYNC = auto()
    """Members that joined have had long enough to ask for their assignment."""
    CONSUMER_SESSION = auto()
    """A member of a consumer group was not heard of: it is removed."""
    REVOCATION = auto()
    """A member of a consumer group has had long enough to let its partitions go."""
    MEMBER_JOIN = auto()
    """A classic member of a consumer group has had long enough to join again."""
    MEMBER_SYNC = auto()
    """A classic member of a consumer group has had long enough to ask for its assignment."""
    MEMBER_ID = auto()
    """A member id that a consumer group gave out is not expected back any more."""
    PATTERNS = auto()
    """The regular expressions of a consumer group are to be matched."""
    SWEEP = auto()
    """Expired offsets are looked for."""
    ERASE = auto()
    """Offsets of deleted topics are still to be removed."""
    DELETE = auto()
    """Groups are still to be deleted, on request."""
    RECLAIM = auto()
    """What removed offsets left behind is to be dropped."""


class Timer(NamedTuple):
    """One deadline of a shard; what it is not about stays empty."""

    kind: IntEnum
    group_id: str = ""
    member_id: str = ""
