"""The states of a classic group and every way from one to another.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲            │    ▲   ▲               │                  │
      └────────────┘    │   └───────────────┘                  │
                        └──────────────────────────────────────┘

Every state may become Dead: the group is deleted. All transitions are in `TRANSITIONS`; a group that is asked
for another one has a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """A state, with the name clients see."""

    EMPTY = "Empty"
    """No members. Offsets may be there, and expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again; joins are parked until all have, or time is up."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation has begun; syncs are parked until the leader brings the assignment."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """Gone."""


TRANSITIONS: Mapping[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""State to the states that may follow."""

MAY_REBALANCE = frozenset(
    state for state, following in TRANSITIONS.items() if ClassicState.PREPARING_REBALANCE in following
)
