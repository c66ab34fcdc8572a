"""The demo's main check finds an offset that moved back, and only that."""

from __future__ import annotations

import json

from demo.journal import Acknowledged, Fetched, Journal


def test_a_fetch_below_what_was_acknowledged_before_is_found() -> None:
    """Whoever committed and whoever fetches: the machine's clock orders them."""
    journal = Journal(
        acknowledged=[Acknowledged(0, 10, at=1.0), Acknowledged(0, 20, at=2.0), Acknowledged(1, 5, at=1.0)],
        fetched=[Fetched(0, 10, asked_at=1.5), Fetched(0, 10, asked_at=2.5), Fetched(1, 5, asked_at=3.0)],
    )
    (problem,) = journal.steps_back()
    assert "partition 0: 20 acknowledged, 10 fetched" in problem


def test_a_fetch_may_be_ahead_or_overlap_with_the_commit() -> None:
    """More than was acknowledged is fine, and so is less when it was asked before the acknowledgement."""
    journal = Journal(
        acknowledged=[Acknowledged(0, 10, at=1.0), Acknowledged(0, 20, at=2.0)],
        fetched=[Fetched(0, 20, asked_at=1.5), Fetched(0, 10, asked_at=1.9), Fetched(0, 30, asked_at=5.0)],
    )
    assert journal.steps_back() == []


def test_a_lost_partition_is_a_step_back() -> None:
    """A coordinator that forgot everything answers -1 or nothing at all, which the demo counts as 0."""
    journal = Journal(acknowledged=[Acknowledged(3, 1, at=1.0)], fetched=[Fetched(3, 0, asked_at=2.0)])
    assert len(journal.steps_back()) == 1


def test_lines_of_members_add_up() -> None:
    """What members write is what the journal knows; the highest acknowledged offset counts as committed."""
    journal = Journal()
    for entry in (
        {"kind": "assignment", "partitions": [0, 1]},
        {"kind": "read", "count": 7},
        {"kind": "acknowledged", "offsets": [[0, 4], [1, 3]], "at": 1.0},
        {"kind": "acknowledged", "offsets": [[0, 2]], "at": 2.0},
        {"kind": "fetched", "offsets": [[0, 4]], "asked_at": 3.0},
        {"kind": "refused", "reason": "away"},
    ):
        journal.take("aiokafka", json.dumps(entry))
    assert journal.assignments == {"aiokafka": [0, 1]}
    assert journal.read == {"aiokafka": 7}
    assert journal.committed == {0: 4, 1: 3}
    assert journal.fetched == [Fetched(0, 4, 3.0)]
    assert journal.refusals == ["aiokafka: away"]
