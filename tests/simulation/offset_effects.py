"""The effects of requests on a group's offsets, and further input of the offset model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Request

from headgate.core.offsets.commands import CommitIndex

Key = tuple[str, int]
"""Topic and partition."""


class Value(NamedTuple):
    """A committed offset in the model; `expires_ms` is -1 if the retention decides."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    committed_at: float = 0.0
    """In steady time, in seconds; two commits while the clock stands still may differ only in this."""

    def is_said_by(self, other: Value | None) -> bool:
        """Return whether a record of the other value has the same content."""
        return other is not None and self[:5] == other[:5]


Offsets = dict[Key, Value]


@dataclass(frozen=True)
class Rules:
    """The settings that the model knows."""

    retention_ms: int
    sweep_interval_ms: int
    metadata_limit: int
    time: SimulatedTime


@dataclass(eq=False)
class Effect:
    """The effect of an accepted request on its group."""

    request: Request
    puts: Offsets = field(default_factory=dict)
    drops: frozenset[Key] = frozenset()
    drops_all: bool = False
    conditions: dict[Key, int] = field(default_factory=dict)
    """Offsets that the group must have for the effect; `NOTHING_COMMITTED`: none."""
    is_conditional: bool = False
    """It takes effect as a whole or not at all."""
    too_large: frozenset[CommitIndex] = frozenset()
    """Positions of partitions whose metadata is too long."""
    may_be_refused: bool = False
    """The group may have had members, which decide: only a reply tells."""

    def on(self, offsets: Offsets) -> Offsets:
        """Return the group's offsets after the effect."""
        if self.drops_all:
            return {}
        return {key: value for key, value in offsets.items() if key not in self.drops} | self.puts


@dataclass
class MemberGroups:
    """What the model of the members knows that affects offsets."""

    may_have_record: dict[str, int] = field(default_factory=dict)
    """Groups with a join since they were last deleted, and the last such request."""
    seen_alive_at: dict[str, float] = field(default_factory=dict)
    """The last time when a group certainly had members that survive a crash."""
    absent_until: dict[str, float] = field(default_factory=dict)
    """The next such time, if it was so much later that offsets may have expired between."""

    balanced: set[str] = field(default_factory=set)
    """Consumer groups: an offset of a topic without a subscribed member expires after its commit."""

    held_since: dict[str, Callable[[], float | None]] = field(default_factory=dict)
    """For each group that can be paused, since when its pauses have held its offsets; None if none do."""

    def held_by(self, group_id: str, at: float) -> float:
        """Return the last time until then when an offset of the group may have expired."""
        return min(at, self._held_since(group_id))

    def _held_since(self, group_id: str) -> float:
        since = self.held_since[group_id]() if group_id in self.held_since else None
        return inf if since is None else since

    def saw_alive(self, group_id: str, at: float, rules: Rules) -> None:
        """Note that the group had such members at that time."""
        seen_at = self.seen_alive_at.get(group_id)
        is_held = seen_at is not None and self._held_since(group_id) <= seen_at
        if not is_held and (seen_at is None or rules.time.largest_rise(seen_at, at) >= rules.retention_ms):
            self.absent_until[group_id] = at
        self.seen_alive_at[group_id] = max(seen_at or 0.0, at)
