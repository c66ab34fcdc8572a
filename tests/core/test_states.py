"""The tables of the states' transitions, and the document that shows them."""

from __future__ import annotations

import pytest
from tools.state_diagrams import DOCUMENT, document

from headgate.core.consumer.member_state import TRANSITIONS
from headgate.records import MemberState


@pytest.mark.interpreted
def test_the_diagrams_are_those_of_the_tables() -> None:
    """After a change of a table `python tools/state_diagrams.py` draws them again."""
    assert DOCUMENT.read_text() == document()


def test_the_table_of_members_is_complete() -> None:
    """Every state has its transitions; no member of this version reaches the unknown one."""
    assert set(TRANSITIONS) == set(MemberState)
    reached = {state for following in TRANSITIONS.values() for state in following}
    assert reached == set(MemberState) - {MemberState.UNKNOWN}
    assert all(state not in following for state, following in TRANSITIONS.items())
