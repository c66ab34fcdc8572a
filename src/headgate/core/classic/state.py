"""The states of a classic group. `TRANSITIONS` has all transitions; any other is a bug.

`docs/states.md` has the diagram, which `tools/state_diagrams.py` draws from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """A state, with its name in the protocol."""

    EMPTY = "Empty"
    """No members. The group may have offsets, which expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must rejoin; joins are parked until all have joined or the timeout expires."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation has started; syncs are parked until the leader sends the assignment."""
    STABLE = "Stable"
    """Every member can get its assignment."""
    DEAD = "Dead"
    """Deleted."""


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
"""The states that may follow each state."""

MAY_REBALANCE = frozenset(
    state for state, following in TRANSITIONS.items() if ClassicState.PREPARING_REBALANCE in following
)
