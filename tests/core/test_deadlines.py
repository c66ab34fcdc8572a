"""Deadlines: due keys are returned once, in order, however often they were moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.deadlines import Deadlines
from headgate.domain.ids import Millis


def ms(value: int) -> Millis:
    return Millis(value)


def test_keys_are_popped_in_order_when_they_are_due() -> None:
    """Not a millisecond earlier."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", ms(20))
    deadlines.set("early", ms(10))
    assert deadlines.next() == 10
    assert deadlines.pop(ms(9)) is None
    assert deadlines.pop(ms(10)) == "early"
    assert deadlines.pop(ms(10)) is None
    assert deadlines.next() == 20


def test_a_moved_deadline_is_due_at_its_last_time() -> None:
    """Moved to a later or an earlier time."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", ms(10))
    deadlines.set("a", ms(30))
    assert deadlines.peek(ms(29)) is None
    assert deadlines.next() == 30
    deadlines.set("a", ms(20))
    assert deadlines.next() == 20
    assert deadlines.pop(ms(19)) is None
    assert deadlines.pop(ms(20)) == "a"
    assert deadlines.pop(ms(1000)) is None


def test_a_cancelled_deadline_is_never_due() -> None:
    """Also if it was moved before."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", ms(10))
    deadlines.set("a", ms(5))
    deadlines.cancel("a")
    assert deadlines.next() is None
    assert deadlines.pop(ms(100)) is None


def test_ten_thousand_heartbeats_leave_one_entry() -> None:
    """Restarting a session timer does not grow the heap."""
    deadlines: Deadlines[str] = Deadlines()
    for beat in range(10_000):
        deadlines.set("member", ms(beat))
    assert len(deadlines._heap) == 1


def test_cancelled_entries_are_removed() -> None:
    """Before they far outnumber the rest."""
    deadlines: Deadlines[int] = Deadlines()
    for member in range(10_000):
        deadlines.set(member, ms(1_000_000 + member))
        deadlines.cancel(member)
    assert len(deadlines._heap) < 200


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("pop"), st.just(0), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(steps)
def test_deadlines_agree_with_a_dict(
    script: list[tuple[str, int, int]],
) -> None:
    """With the minimum of all times as the model."""
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for action, key, value in script:
        if action == "set":
            deadlines.set(key, ms(value))
            model[key] = value
        elif action == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            expected = deadlines.peek(ms(value))
            popped = deadlines.pop(ms(value))
            assert popped == expected
            if popped is None:
                assert all(due > value for due in model.values())
            else:
                assert model[popped] == min(model.values()) <= value
                del model[popped]
        assert len(deadlines) == len(model)
        following = deadlines.next()
        assert (following is None) == (not model)
        assert following is None or following <= min(model.values())


def test_every_key_is_popped_at_its_time_by_following_next() -> None:
    """With few wake-ups for ten thousand heartbeats."""
    deadlines: Deadlines[int] = Deadlines()
    wakes = 0
    for now in range(10_000):
        deadlines.set(now % 100, ms(now + 450))
        while (wake_at := deadlines.next()) is not None and wake_at <= now:
            wakes += 1
            assert deadlines.pop(ms(now)) is None
    assert 0 < wakes < 10_000 / 3
    assert [deadlines.pop(ms(20_000)) for _ in range(100)] == list(range(100))
    assert deadlines.next() is None


def test_a_key_that_is_set_again_is_not_due_twice_in_a_tick() -> None:
    """A tick ends, whatever times are set in it."""
    deadlines: Deadlines[str] = Deadlines()
    for key in ("a", "b"):
        deadlines.set(key, ms(10))
    popped = []
    deadlines.begin_tick(ms(500))
    while (due := deadlines.pop(ms(500))) is not None:
        popped.append(due)
        deadlines.set(due, ms(5))
    assert popped == ["a", "b"]
    deadlines.end_tick()
    assert deadlines.next() == 501
    deadlines.set("c", ms(500))
    assert deadlines.next() == 500


def test_peek_removes_nothing() -> None:
    """It returns the same key each time, also a moved one."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("moved", ms(5))
    deadlines.set("moved", ms(30))
    deadlines.set("a", ms(20))
    assert [deadlines.peek(ms(19)), deadlines.peek(ms(20)), deadlines.peek(ms(40))] == [None, "a", "a"]
    assert deadlines.pop(ms(40)) == "a"
    assert deadlines.peek(ms(40)) == "moved"


def test_cleaning_keeps_keys_and_times() -> None:
    """Moved keys at their last time; those due together in the order they were set."""
    deadlines: Deadlines[int] = Deadlines()
    for key in range(20):
        deadlines.set(key, ms(100))
    deadlines.set(5, ms(300))
    deadlines.set(6, ms(50))
    for key in range(20, 200):
        deadlines.set(key, ms(70))
        deadlines.cancel(key)
    assert len(deadlines) == 20
    assert len(deadlines._heap) <= 64 + 2 * 20 + 1
    assert [deadlines.due_at(key) for key in (4, 5, 6, 20)] == [100, 300, 50, None]
    assert [deadlines.pop(ms(60)), deadlines.pop(ms(99))] == [6, None]
    assert [deadlines.pop(ms(100)) for _ in range(19)] == [*range(5), *range(7, 20), None]
    assert [deadlines.pop(ms(299)), deadlines.pop(ms(300)), deadlines.next()] == [None, 5, None]


def test_the_number_of_outdated_entries_is_limited() -> None:
    """64, and two for each key."""
    deadlines: Deadlines[int] = Deadlines()
    deadlines.set(-1, ms(1))
    sizes = []
    for key in range(66):
        deadlines.set(key, ms(5))
        deadlines.cancel(key)
        sizes.append(len(deadlines._heap))
    assert sizes == [*range(2, 67), 1]
    deadlines.cancel(99)
    assert deadlines.pop(ms(1)) == -1
