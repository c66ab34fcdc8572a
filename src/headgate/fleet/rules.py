"""What an audit finds remarkable about a group: pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headgate.domain.ids import Millis
from headgate.fleet.facts import GroupFacts

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Finding(StrEnum):
    """A remarkable fact about a group. The value is the word that reports print."""

    EXPIRING = "expiring"
    """Offsets expire soon: the consumers would start where `auto.offset.reset` tells them."""
    LAGGING = "lagging"
    """There are more records to read than the rules allow."""
    STUCK = "stuck"
    """The group has members and records to read, but no offset was committed for long."""
    DEAD = "dead"
    """The group has had no members for long, or committed nothing for long if it never had any."""
    BACKWARDS = "backwards"
    """An offset was set back: by a reset, or by a consumer that had lost its partition."""
    MISSING_TOPIC = "missing-topic"
    """Offsets of a topic that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits. Durations are in ms."""

    expiring_within_ms: int = DAY_MS
    stuck_after_ms: int = HOUR_MS
    dead_after_ms: int = DAY_MS
    lag_above: int | None = None
    """None: no lag is too large."""
    backwards_within_ms: int = DAY_MS


def findings(facts: GroupFacts, rules: Rules, now: Millis) -> tuple[Finding, ...]:
    """Return what the rules find about a group at `now`, in the order of `Finding`."""
    found = _found(facts, rules, now)
    return tuple(finding for finding, is_found in found if is_found)


def _found(facts: GroupFacts, rules: Rules, now: Millis) -> Iterable[tuple[Finding, bool]]:
    lag = facts.lag or 0
    first_expiry, last_commit = facts.first_expiry_at, facts.last_commit_at
    is_silent = last_commit is not None and now - last_commit >= rules.stuck_after_ms
    idle_since = facts.empty_since if facts.empty_since is not None else last_commit
    is_idle = idle_since is not None and now - idle_since >= rules.dead_after_ms
    went_back_at = facts.backwards.last_at
    yield Finding.EXPIRING, first_expiry is not None and first_expiry - now <= rules.expiring_within_ms
    yield Finding.LAGGING, rules.lag_above is not None and lag > rules.lag_above
    yield Finding.STUCK, facts.has_members and lag > 0 and is_silent
    yield Finding.DEAD, not facts.has_members and is_idle
    yield Finding.BACKWARDS, went_back_at is not None and now - went_back_at <= rules.backwards_within_ms
    yield Finding.MISSING_TOPIC, bool(facts.missing_topics)
