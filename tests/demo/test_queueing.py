"""What the demo says of the work queue notices each way in which it can be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from demo.queueing import DELIVERIES, DESKS, FLIGHT_COUNT, Delivery, Letter, delay_of, judge, queue_of

POISON = 50
FLIGHTS = set(range(100))

Deliveries = list[Delivery]


def before() -> Deliveries:
    """All flights but one are handled; that one comes as often as allowed."""
    handled = [Delivery(flight, 1, True) for flight in sorted(FLIGHTS - {POISON})]
    return handled + [Delivery(POISON, count, False) for count in range(1, DELIVERIES + 1)]


def after() -> Deliveries:
    return [Delivery(POISON, 1, True)]


def letter(**changes: str) -> Letter:
    headers = {"group": DESKS, "delivery.count": str(DELIVERIES)} | changes
    return Letter(POISON, {f"__dlq.errors.{name}": value for name, value in headers.items()})


def holds(one: Deliveries, other: Deliveries, letters: list[Letter]) -> list[bool]:
    return [check.holds for check in judge(one, other, letters, FLIGHTS, POISON)]


def test_a_queue_as_it_should_be_passes() -> None:
    assert holds(before(), after(), [letter()]) == [True] * 4


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda seen: seen[1:], [False, True, True, True]),
        (lambda seen: [*seen, seen[0]], [False, True, True, True]),
        (lambda seen: [*seen, Delivery(POISON, 4, True)], [False, False, True, True]),
        (lambda seen: seen[:-1], [True, False, True, True]),
    ],
    ids=["missing", "handled twice", "poison handled", "set aside too soon"],
)
def test_what_went_wrong_before_is_noticed(
    change: Callable[[Deliveries], Deliveries], expected: list[bool]
) -> None:
    assert holds(change(before()), after(), [letter()]) == expected


@pytest.mark.parametrize(
    "letters",
    [[], [letter(), letter()], [Letter(1, letter().headers)], [letter(group="others")]],
    ids=["none", "two", "another flight", "another group"],
)
def test_wrong_dead_letters_are_noticed(letters: list[Letter]) -> None:
    assert holds(before(), after(), letters) == [True, True, False, True]


@pytest.mark.parametrize(
    "seen",
    [[], [*after(), *after()], [Delivery(POISON, 1, False)], [*after(), Delivery(1, 1, True)]],
    ids=["nothing", "twice", "not handled", "others too"],
)
def test_what_went_wrong_after_is_noticed(seen: Deliveries) -> None:
    assert holds(before(), seen, [letter()]) == [True, True, True, False]


def test_only_a_mended_desk_handles_a_cancelled_flight() -> None:
    """The queue has one, in its middle."""
    fine = [(b"", b'{"id":%d,"dep_delay":2.0}' % number) for number in range(FLIGHT_COUNT + 5)]
    flights = [*fine[:3], (b"", b'{"id":70000,"dep_delay":null}'), *fine[3:]]
    queue, poison = queue_of(flights)
    assert (len(queue), poison) == (FLIGHT_COUNT + 1, 70_000)
    cancelled = queue[FLIGHT_COUNT // 2]
    assert delay_of(cancelled, is_mended=True) == 0.0
    assert delay_of(queue[0], is_mended=False) == 2.0
    with pytest.raises(TypeError):
        delay_of(cancelled, is_mended=False)
