"""When a committed offset expires (KIP-211): pure functions of plain values, for the coordinator and Spark.

* A group that had members and is empty: all its offsets, one retention after it became empty (R0.5).
* A group with members: nothing, but for topics its members do not read any more, one retention after the
  commit, and only while it is Stable and consists of consumers whose subscriptions can be read (R0.6, R0.9).
* A group that only ever committed: each offset one retention after its commit (R0.10).
* An offset that a client of old gave an expiry of its own: then, where an offset may expire at all (R0.11).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from headgate.domain.ids import Millis
from headgate.records.model import NO_EXPIRY, NO_TIMESTAMP

CONSUMER_PROTOCOL_TYPE = "consumer"
MINUTE_MS = 60_000
"""The unit of `offsets.retention.minutes`."""


class Aging(Enum):
    """From when a group's offsets age."""

    HELD = auto()
    """They do not."""
    SINCE_COMMIT = auto()
    SINCE_STATE = auto()
    """From when the group became empty."""


class GroupClock(NamedTuple):
    """How the offsets of one group age; `since` counts for SINCE_STATE alone."""

    aging: Aging
    since: Millis = NO_TIMESTAMP


def group_clock(
    *,
    protocol_type: str,
    is_empty: bool,
    is_stable: bool,
    state_timestamp: Millis,
    knows_subscription: bool,
) -> GroupClock:
    """How a group's offsets age. `protocol_type` is "" for a group that only ever committed."""
    if not protocol_type:
        return GroupClock(Aging.SINCE_COMMIT)
    if is_empty:
        if state_timestamp == NO_TIMESTAMP:  # written before there was one (R0.3)
            return GroupClock(Aging.SINCE_COMMIT)
        return GroupClock(Aging.SINCE_STATE, state_timestamp)
    if is_stable and protocol_type == CONSUMER_PROTOCOL_TYPE and knows_subscription:
        return GroupClock(Aging.SINCE_COMMIT)
    return GroupClock(Aging.HELD)


def is_expired(
    clock: GroupClock, commit_timestamp: Millis, expire_timestamp: Millis, now: Millis, retention_ms: int
) -> bool:
    """Whether an offset of a topic that the group does not read is expired."""
    if clock.aging is Aging.HELD:
        return False
    if expire_timestamp != NO_EXPIRY:
        return now >= expire_timestamp
    since = clock.since if clock.aging is Aging.SINCE_STATE else commit_timestamp
    return now - since >= retention_ms
