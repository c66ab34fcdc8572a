"""When a committed offset expires (KIP-211): pure functions of plain values, for the coordinator and Spark.

* An empty group that had members: all its offsets, one retention after it became empty (R0.5).
* A group with members: only offsets of topics without a subscribed member, one retention after the commit,
  and only while the group is Stable and consists of consumers with readable subscriptions (R0.6, R0.9).
* A group that only ever committed: each offset, one retention after its commit (R0.10).
* An offset with an expiry time of its own, from an old client: at that time, where offsets of the group may
  expire (R0.11).
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
    """The start of the retention of a group's offsets."""

    HELD = auto()
    """They do not expire."""
    SINCE_COMMIT = auto()
    SINCE_STATE = auto()
    """The time when the group became empty."""


class GroupClock(NamedTuple):
    """The start of the retention of one group's offsets; `since` applies to SINCE_STATE alone."""

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
    """Return how a group's offsets expire. `protocol_type` is "" for a group that only ever committed."""
    if not protocol_type:
        return GroupClock(Aging.SINCE_COMMIT)
    if is_empty:
        if state_timestamp == NO_TIMESTAMP:  # from a record version without this time (R0.3)
            return GroupClock(Aging.SINCE_COMMIT)
        return GroupClock(Aging.SINCE_STATE, state_timestamp)
    if is_stable and protocol_type == CONSUMER_PROTOCOL_TYPE and knows_subscription:
        return GroupClock(Aging.SINCE_COMMIT)
    return GroupClock(Aging.HELD)


def expires_at(
    clock: GroupClock, commit_timestamp: Millis, expire_timestamp: Millis, retention_ms: int
) -> Millis | None:
    """Return when an offset of a topic without a subscribed member expires if nothing changes; None: never.

    The next sweep after that time removes it. With a negative retention, only offsets with an expiry time of
    their own expire.
    """
    if clock.aging is Aging.HELD:
        return None
    if expire_timestamp != NO_EXPIRY:
        return expire_timestamp
    if retention_ms < 0:
        return None
    since = clock.since if clock.aging is Aging.SINCE_STATE else commit_timestamp
    return Millis(since + retention_ms)


def is_expired(
    clock: GroupClock, commit_timestamp: Millis, expire_timestamp: Millis, now: Millis, retention_ms: int
) -> bool:
    """Return whether an offset of a topic without a subscribed member is expired."""
    at = expires_at(clock, commit_timestamp, expire_timestamp, retention_ms)
    return at is not None and now >= at
