"""What requests do to the offsets of a group, and what the model of offsets knows beside that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Request

from headgate.core.offsets.commands import Place

Key = tuple[str, int]
"""Topic and partition."""


class Value(NamedTuple):
    """A committed offset as the model remembers it; `expires_ms` is -1 where retention decides."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    committed_at: float = 0.0
    """By steady time, in seconds; two commits while the clock stands still may differ in nothing else."""

    def is_said_by(self, other: Value | None) -> bool:
        """Whether a record of the other one says the same."""
        return other is not None and self[:5] == other[:5]


Offsets = dict[Key, Value]


@dataclass(frozen=True)
class Rules:
    """The settings the model knows."""

    retention_ms: int
    sweep_interval_ms: int
    metadata_limit: int
    time: SimulatedTime


@dataclass(eq=False)
class Effect:
    """What an accepted request does to its group."""

    request: Request
    puts: Offsets = field(default_factory=dict)
    drops: frozenset[Key] = frozenset()
    drops_all: bool = False
    conditions: dict[Key, int] = field(default_factory=dict)
    """Offsets that have to be the group's for it to happen; `NOTHING_COMMITTED`: none."""
    is_conditional: bool = False
    """It happens as a whole or not at all."""
    too_large: frozenset[Place] = frozenset()
    """Where metadata is too long."""
    may_be_refused: bool = False
    """The group may have had members who had to be asked: only a reply tells."""

    def on(self, offsets: Offsets) -> Offsets:
        """The group's offsets after it."""
        if self.drops_all:
            return {}
        return {key: value for key, value in offsets.items() if key not in self.drops} | self.puts


@dataclass
class MemberGroups:
    """What the model of the members knows that matters to offsets."""

    may_have_record: dict[str, int] = field(default_factory=dict)
    """Groups somebody wanted to join since they were last deleted, and the last such request."""
    seen_alive_at: dict[str, float] = field(default_factory=dict)
    """When a group was last known to have members whom a crash would not make forgotten."""
    absent_until: dict[str, float] = field(default_factory=dict)
    """When that was so again after so long a time that what was committed before may have expired."""

    balanced: set[str] = field(default_factory=set)
    """Groups that the server balances: an offset of a topic that nobody reads ages since its commit."""

    def saw_alive(self, group_id: str, at: float, rules: Rules) -> None:
        """The group had such members then."""
        seen_at = self.seen_alive_at.get(group_id)
        if seen_at is None or rules.time.largest_rise(seen_at, at) >= rules.retention_ms:
            self.absent_until[group_id] = at
        self.seen_alive_at[group_id] = max(seen_at or 0.0, at)
