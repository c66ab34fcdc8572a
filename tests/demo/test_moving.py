"""What members counted must be every flight once; the demo finds any that were left out or read twice."""

from __future__ import annotations

import pytest
from demo.balanced import Stretch
from demo.moving import gaps

ENDS = {0: 10, 1: 0, 2: 7}
WHOLE = [Stretch(0, 4, 10), Stretch(2, 0, 7), Stretch(0, 0, 4)]


def test_stretches_that_follow_one_another_leave_nothing_out() -> None:
    """In whatever order, and whoever read them."""
    assert gaps(WHOLE, ENDS) == []


@pytest.mark.parametrize(
    ("counted", "problem"),
    [
        ([*WHOLE[:2], Stretch(0, 0, 3)], "partition 0: 3 is followed by 4"),
        ([*WHOLE[:2], Stretch(0, 0, 5)], "partition 0: 5 is followed by 4"),
        ([*WHOLE, WHOLE[1]], "partition 2: 7 is followed by 0"),
        (WHOLE[1:], "partition 0: ends at 4, not 10"),
        ([WHOLE[0], WHOLE[2]], "partition 2: ends at 0, not 7"),
    ],
    ids=["a gap", "an overlap", "the same twice", "the last left out", "a whole partition left out"],
)
def test_what_is_left_out_or_counted_twice_is_found(counted: list[Stretch], problem: str) -> None:
    """With the place where it is."""
    assert problem in gaps(counted, ENDS)
