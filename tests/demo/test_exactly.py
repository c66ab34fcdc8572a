"""What the demo says of the joined flights notices each way in which they can be wrong."""

from __future__ import annotations

import pytest
from demo.exactly import judge_both_topics

TOTAL = 100_000
RIGHT = {"read": TOTAL, "written": TOTAL + 4_000, "joined": TOTAL, "joined_flights": TOTAL}


def test_flights_that_came_once_each_pass() -> None:
    """All checks hold."""
    assert [check.holds for check in judge_both_topics(RIGHT, TOTAL)] == [True, True]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"read": TOTAL - 1}, [False, True]),
        ({"joined": TOTAL + 1}, [False, True]),
        ({"joined_flights": TOTAL - 1}, [False, True]),
        ({"joined": TOTAL - 1, "joined_flights": TOTAL - 1}, [False, True]),
        ({"written": TOTAL}, [True, False]),
    ],
)
def test_each_fault_is_noticed(changes: dict[str, int], expected: list[bool]) -> None:
    """By the check that it belongs to."""
    assert [check.holds for check in judge_both_topics(RIGHT | changes, TOTAL)] == expected
