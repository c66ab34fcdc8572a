"""What the demo says of the rewound stream notices each way in which it can be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from demo.rewinding import BACK_BY, REWOUND, judge
from demo.story import GROUP, LAKE

TOTAL, TARGET = 100_000, 500


def summary(**changes: Any) -> dict[str, Any]:
    """The summary of a stream whose one partition was read twice from the target on."""
    again = {"partition": REWOUND, "first": TARGET, "last": TARGET + BACK_BY - 1, "count": BACK_BY}
    found: dict[str, Any] = {
        "rows": TOTAL + BACK_BY,
        "flights": TOTAL,
        "same_epoch": 0,
        "again": [again | changes],
    }
    found["reported"] = [GROUP, LAKE]
    return found | {name: value for name, value in changes.items() if name in found}


def test_a_rewind_as_it_should_be_passes() -> None:
    """All checks hold."""
    assert [check.holds for check in judge(summary(), TOTAL, TARGET)] == [True, True, True, True]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"flights": TOTAL - 1}, [False, True, True, True]),
        ({"rows": TOTAL}, [True, False, True, True]),
        ({"first": TARGET - 1}, [True, False, True, True]),
        ({"partition": REWOUND + 1}, [True, False, True, True]),
        ({"count": BACK_BY - 1}, [True, False, True, True]),
        ({"again": []}, [True, False, True, True]),
        ({"same_epoch": 3}, [True, True, False, True]),
        ({"reported": [LAKE]}, [True, True, True, False]),
    ],
)
def test_each_fault_is_noticed(changes: dict[str, Any], expected: list[bool]) -> None:
    """By the check that it belongs to."""
    assert [check.holds for check in judge(summary(**changes), TOTAL, TARGET)] == expected
