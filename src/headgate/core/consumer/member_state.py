"""The transitions between the states of a member of a consumer group. Any other is a bug.

The states (`MemberState`) are part of the records; `reconcile.py` has the conditions of the transitions.
`docs/states.md` has the diagram, which `tools/state_diagrams.py` draws from the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.records import MemberState

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    MemberState.STABLE: frozenset({MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}),
    MemberState.UNREVOKED_PARTITIONS: frozenset({MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS}),
    MemberState.UNRELEASED_PARTITIONS: frozenset({MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS}),
    MemberState.UNKNOWN: frozenset({MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS}),
}
"""The states that may follow each state, beside itself. A new member is stable."""
