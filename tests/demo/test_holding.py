"""What the demo says of a partition that is held back notices each way in which it can be wrong."""

from __future__ import annotations

import pytest
from demo.holding import HELD, Sighting, judge

OTHERS = [partition for partition in range(3) if partition != HELD]
RELEASED_AT, RESUMED_AT = 2.0, 4.0


def sightings() -> list[Sighting]:
    """Ten flights of each airport; the last four of the held one that were read before are read again."""
    seen = [Sighting(0.6 * number, partition, number) for partition in OTHERS for number in range(10)]
    seen += [Sighting(0.2 * number, HELD, number) for number in range(6)]
    seen += [Sighting(5 + 0.1 * number, HELD, number) for number in range(2, 10)]
    return sorted(seen)


def holds(seen: list[Sighting]) -> list[bool]:
    """The outcome of each check."""
    produced = dict.fromkeys(range(3), 10)
    return [check.holds for check in judge(sorted(seen), produced, 2, RELEASED_AT, RESUMED_AT)]


def test_a_pause_as_it_should_be_passes() -> None:
    assert holds(sightings()) == [True, True, True]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda seen: [*seen, Sighting(3.0, HELD, 6)], [False, True, True]),
        (
            lambda seen: [one for one in seen if one.partition == HELD or not 1 < one.at < 4],
            [True, False, False],
        ),
        (lambda seen: [*seen, Sighting(6.0, HELD, 1)], [True, True, False]),
        (lambda seen: [one for one in seen if one[1:] != (HELD, 9)], [True, True, False]),
        (lambda seen: [*seen, Sighting(6.0, HELD, 3)], [True, True, False]),
    ],
    ids=["read while held", "others wait", "too far back", "missing", "three times"],
)
def test_a_pause_that_went_wrong_is_noticed(change: object, expected: list[bool]) -> None:
    assert callable(change)
    assert holds(change(sightings())) == expected
