"""The checker refuses what no single-threaded store could have answered, and nothing else."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from tests.linearizability.checker import ABSENT, Key, Operation, Value, find_contradiction

X, Y = ("flights", 0), ("flights", 1)


def commit(began: int, ended: int, number: int, *keys: Key, answered: bool = True) -> Operation:
    return Operation(f"commit {number}", began, ended, {}, dict.fromkeys(keys, number), answered)


def fetch(began: int, ended: int, found: dict[Key, Value]) -> Operation:
    return Operation(f"fetch {found}", began, ended, found)


def delete(began: int, ended: int, *keys: Key, answered: bool = True) -> Operation:
    return Operation("delete", began, ended, {}, dict.fromkeys(keys, ABSENT), answered)


WRONG = {
    "a stale read": [commit(1, 2, 1, X), commit(3, 4, 2, X), fetch(5, 6, {X: 1})],
    "an acknowledged commit lost in a crash": [commit(1, 2, 1, X), fetch(5, 6, {X: ABSENT})],
    "an older value back after a crash": [
        commit(1, 2, 1, X),
        commit(3, 4, 2, X),
        commit(5, 9, 3, X, answered=False),
        fetch(10, 11, {X: 1}),
    ],
    "a commit seen in part": [commit(1, 4, 1, X, Y), fetch(2, 3, {X: 1, Y: ABSENT})],
    "a commit seen in part for ever": [
        commit(1, 2, 1, X, Y),
        commit(3, 4, 2, X, Y),
        fetch(5, 6, {X: 1, Y: 2}),
    ],
    "an unanswered commit that happened in part": [
        commit(1, 5, 1, X, Y, answered=False),
        fetch(6, 7, {X: 1, Y: ABSENT}),
    ],
    "an unanswered commit that went away again": [
        commit(1, 9, 1, X, answered=False),
        fetch(2, 3, {X: 1}),
        fetch(4, 5, {X: ABSENT}),
    ],
    "an unanswered commit that happened after its server was gone": [
        commit(1, 5, 1, X, answered=False),
        fetch(6, 7, {X: ABSENT}),
        fetch(8, 9, {X: 1}),
    ],
    "a value before it was written": [fetch(1, 2, {X: 1}), commit(3, 4, 1, X)],
    "a value nobody wrote": [commit(1, 2, 1, X), fetch(3, 4, {X: 7})],
    "two readers who see two commits in different orders": [
        commit(1, 9, 1, X),
        commit(1, 9, 2, X),
        fetch(2, 3, {X: 1}),
        fetch(4, 5, {X: 2}),
        fetch(6, 7, {X: 1}),
    ],
    "two readers of whom each sees the other commit alone": [
        commit(1, 9, 1, X),
        commit(1, 9, 2, Y),
        fetch(2, 4, {X: 1, Y: ABSENT}),
        fetch(5, 7, {X: ABSENT, Y: 2}),
    ],
    "a deleted offset that came back": [
        commit(1, 2, 1, X),
        delete(3, 4, X),
        fetch(5, 6, {X: 1}),
    ],
    "a deletion in part": [commit(1, 2, 1, X, Y), delete(3, 4, X, Y), fetch(5, 6, {X: 1, Y: ABSENT})],
}

RIGHT = {
    "nothing": [],
    "one after the other": [commit(1, 2, 1, X), fetch(3, 4, {X: 1}), commit(5, 6, 2, X), fetch(7, 8, {X: 2})],
    "a read beside a commit sees it or not": [
        commit(1, 6, 1, X),
        fetch(2, 3, {X: ABSENT}),
        fetch(4, 5, {X: 1}),
        fetch(4, 5, {X: 1}),
    ],
    "commits beside each other in either order": [
        commit(1, 4, 1, X, Y),
        commit(2, 3, 2, X, Y),
        fetch(5, 6, {X: 1, Y: 1}),
    ],
    "an unanswered commit that happened": [commit(1, 5, 1, X, Y, answered=False), fetch(6, 7, {X: 1, Y: 1})],
    "an unanswered commit that did not": [
        commit(1, 2, 1, X),
        commit(3, 5, 2, X, answered=False),
        fetch(6, 7, {X: 1}),
    ],
    "an unanswered commit under another": [
        commit(1, 9, 1, X, Y, answered=False),
        commit(2, 3, 2, X),
        fetch(4, 5, {X: 2, Y: 1}),
    ],
    "an unanswered deletion that happened": [
        commit(1, 2, 1, X),
        delete(3, 6, X, answered=False),
        fetch(4, 5, {X: 1}),
        fetch(7, 8, {X: ABSENT}),
    ],
    "a read that sees another key only": [commit(1, 2, 1, X), fetch(3, 4, {Y: ABSENT})],
}


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses(name: str) -> None:
    """Each of these is a promise broken."""
    assert find_contradiction(WRONG[name]) is not None


@pytest.mark.parametrize("name", RIGHT)
def test_it_takes(name: str) -> None:
    """None of these is."""
    assert find_contradiction(RIGHT[name]) is None


def test_a_contradiction_says_what_was_read_and_what_was_there() -> None:
    """The operation that fits nowhere is named, with the keys that differ."""
    contradiction = find_contradiction(WRONG["an unanswered commit that happened in part"])
    assert contradiction is not None
    assert contradiction.operation.name.startswith("fetch")
    assert contradiction.differences in ({X: (1, ABSENT)}, {Y: (ABSENT, 1)})
    assert "read" in str(contradiction)


def by_trying_all(operations: list[Operation]) -> bool:
    """Linearizability by its definition: some order of some of them, each at a moment of its own."""
    maybe = [one for one in operations if not one.is_answered]
    sure = [one for one in operations if one.is_answered]
    for chosen in range(1 << len(maybe)):
        happened = sure + [one for at, one in enumerate(maybe) if chosen >> at & 1]
        if any(is_right(order) for order in permutations(happened)):
            return True
    return False


def is_right(order: tuple[Operation, ...]) -> bool:
    """Whether this order keeps to what was seen to be earlier, and every read finds what is there."""
    values: dict[Key, Value] = {}
    for at, one in enumerate(order):
        if any(later.ended < one.began for later in order[at + 1 :]):
            return False
        if any(values.get(key) != value for key, value in one.reads.items()):
            return False
        values |= one.writes
    return True


def some_history(random: Random) -> list[Operation]:
    """Up to six operations at random, whose reads are right about half the time."""
    operations: list[Operation] = []
    for number in range(1, random.randint(2, 7)):
        began = random.randrange(10)
        ended = began + random.randint(1, 6)
        keys = random.sample([X, Y], random.choice((1, 2)))
        kind = random.random()
        if kind < 0.45:
            operations.append(commit(began, ended, number, *keys, answered=random.random() < 0.7))
        elif kind < 0.55:
            operations.append(delete(began, ended, *keys, answered=random.random() < 0.7))
        elif kind < 0.65:
            found = {key: random.choice((ABSENT, *range(1, number))) for key in keys}
            operations.append(Operation("swap", began, ended, found, dict.fromkeys(keys, number)))
        else:
            value = random.choice((ABSENT, *range(1, 7)))
            operations.append(fetch(began, ended, dict.fromkeys(keys, value)))
    return operations


def test_it_agrees_with_the_definition_on_thousands_of_small_histories() -> None:
    """Whatever happened beside what, the search says what trying every order says."""
    random = Random(1)
    verdicts = {True: 0, False: 0}
    for _ in range(6000):
        history = some_history(random)
        is_linearizable = find_contradiction(history) is None
        assert is_linearizable == by_trying_all(history), history
        verdicts[is_linearizable] += 1
    assert min(verdicts.values()) > 1000


def test_long_histories_are_judged_quickly() -> None:
    """Thousands of operations of a few clients take no search at all where all is well, one lie is found."""
    random = Random(2)
    values: dict[Key, Value] = {}
    operations: list[Operation] = []
    keys = [("flights", index) for index in range(30)]
    for at in range(6000):
        touched = random.sample(keys, random.choice((1, 5, 30)))
        began, ended = 10 * at - random.randrange(40), 10 * at + random.randrange(40)
        if random.random() < 0.5:
            values |= dict.fromkeys(touched, at)
            operations.append(commit(began, ended, at, *touched))
        else:
            operations.append(fetch(began, ended, {key: values.get(key) for key in touched}))
    assert find_contradiction(operations) is None
    liar = next(at for at in range(5000, 6000) if len(operations[at].reads) == 5)
    read = dict(operations[liar].reads)
    read[next(iter(read))] = 17
    operations[liar] = fetch(operations[liar].began, operations[liar].ended, read)
    assert find_contradiction(operations) is not None
