"""The index of the offset table: every row is found, also while the index grows."""

from __future__ import annotations

from array import array
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.offsets import row_index
from headgate.core.offsets.row_index import NOT_FOUND, RowIndex


class Pair:
    """An index, and a dict with its expected contents."""

    def __init__(self) -> None:
        self.index = RowIndex()
        self.keys = array("Q")
        self.rows: dict[int, int] = {}

    def add(self, key: int) -> None:
        """Add a row."""
        row = len(self.keys)
        if row >= self.index.full_at:
            self.index.make_room(row + 1, self.keys)
        self.keys.append(key)
        self.index.add(row, key)
        self.rows[key] = row

    def add_each(self, keys: list[int]) -> None:
        """Add many rows at once."""
        first, wanted = len(self.keys), np.array(keys, np.uint64)
        if first + len(keys) >= self.index.full_at:
            self.index.make_room(first + len(keys), self.keys)
        self.keys.frombytes(wanted.tobytes())
        self.index.add_each(np.arange(first, first + len(keys)), wanted)
        self.rows.update(zip(keys, range(first, first + len(keys)), strict=True))

    def drop(self, key: int) -> None:
        """Drop a row; the last row takes its number."""
        row, last = self.rows.pop(key), len(self.keys) - 1
        self.index.discard(row, self.keys)
        if row != last:
            self.index.replace(last, row, self.keys[last])
            self.keys[row] = self.keys[last]
            self.rows[self.keys[row]] = row
        self.keys.pop()

    def misfound(self) -> list[int]:
        """Return keys that are not found, singly or together, or that are found but do not exist."""
        index = self.index
        wrong = [key for key, row in self.rows.items() if index.find(key, self.keys) != row]
        wanted = [*self.rows, *(key ^ 1 << 62 for key in self.rows)]
        found = index.find_each(np.array(wanted, np.uint64), self.keys).tolist()
        return wrong + [
            key for key, row in zip(wanted, found, strict=True) if row != self.rows.get(key, NOT_FOUND)
        ]


keys = st.lists(st.integers(0, 2**64 - 1), max_size=60, unique=True)


@given(st.lists(keys, max_size=12), st.sampled_from([0, 1 << 13]))
@settings(deadline=None, max_examples=60)
def test_rows_are_found_whatever_came_one_by_one_or_together(script: list[list[int]], at_once: int) -> None:
    """Keys of any kind, half of them in bulk, with growth in steps and at once."""
    with patch.object(row_index, "_MOVED_AT_ONCE", at_once):
        pair = Pair()
        for number, some in enumerate(script):
            new = [key for key in some if key not in pair.rows]
            if number % 2:
                pair.add_each(new)
            else:
                for key in new:
                    pair.add(key)
            assert pair.misfound() == []


@pytest.mark.parametrize("shape", ["random", "packed"])
def test_rows_are_found_while_the_index_grows(shape: str) -> None:
    """After each step of several growths."""
    random = np.random.default_rng(5)
    count = 6000
    if shape == "random":
        wanted = random.integers(0, 2**63, count).tolist()
    else:
        wanted = [group << 40 | partition for group in range(count // 100) for partition in range(100)]
    with patch.object(row_index, "_MOVED_AT_ONCE", 0), patch.object(row_index, "_ROWS_A_STEP", 16):
        pair = Pair()
        grew = 0
        for number, key in enumerate(wanted):
            pair.add(key)
            grew += pair.index.is_moving
            if number % 499 == 0:
                assert pair.misfound() == []
        assert pair.misfound() == []
    assert grew > count // 4, "the steps are what is tested"


@given(st.lists(st.tuples(st.booleans(), keys), max_size=12), st.sampled_from([3, 40]))
@settings(deadline=None, max_examples=100)
def test_rows_are_found_while_others_go_and_the_index_shrinks_and_grows(
    script: list[tuple[bool, list[int]]], slots_a_step: int
) -> None:
    """A shrinking that is interrupted by new rows becomes a growth; no row is ever lost."""
    with (
        patch.object(row_index, "_MOVED_AT_ONCE", 0),
        patch.object(row_index, "_ROWS_A_STEP", 2),
        patch.object(row_index, "_SMALLEST", 4),
    ):
        pair = Pair()
        for comes, some in script:
            for key in some if comes else list(pair.rows)[: 2 * len(some)]:
                if not comes:
                    pair.drop(key)
                    pair.index.shrink(len(pair.keys), slots_a_step, pair.keys)
                elif key not in pair.rows:
                    pair.add(key)
            assert pair.misfound() == []


def test_the_smallest_index_grows_too() -> None:
    """Also where 1.2 times the slots is the same number."""
    for slots in range(1, 7):
        with patch.object(row_index, "_SMALLEST", slots), patch.object(row_index, "_MOVED_AT_ONCE", 0):
            pair = Pair()
            for key in range(20):
                pair.add(key << 30)
                assert len(pair.keys) <= pair.index.full_at
            assert pair.misfound() == []


def test_an_index_that_lost_most_of_its_rows_gives_back_its_slots() -> None:
    """In steps, during which every row is found."""
    pair = Pair()
    pair.add_each(np.random.default_rng(7).integers(0, 2**63, 60_000).tolist())
    for key in list(pair.rows)[:50_000]:
        pair.drop(key)
    steps = 0
    while steps == 0 or pair.index.is_moving:
        pair.index.shrink(len(pair.keys), 4096, pair.keys)
        steps += 1
        assert all(pair.index.find(key, pair.keys) == row for key, row in list(pair.rows.items())[::97])
    assert pair.misfound() == []
    assert steps > 10
    assert len(pair.index._slots) < 2 * len(pair.keys)


def test_many_rows_that_come_while_the_index_grows_have_room() -> None:
    """Growth for one row does not suffice for thousands: they would collide."""
    random = np.random.default_rng(8)
    pair = Pair()
    while not (pair.index.is_moving and len(pair.keys) > 15_000):
        pair.add(int(random.integers(0, 2**63)))
    pair.add_each(random.integers(0, 2**63, 15_000).tolist())
    assert len(pair.keys) < 0.8 * len(pair.index._slots)
    assert pair.misfound() == []


def test_no_step_of_growth_moves_much() -> None:
    """Whatever the size of the index, one new row waits for a few thousand moved slots at most."""
    pair = Pair()
    moved: list[int] = []
    move = RowIndex._move_up

    def watch(index: RowIndex, count: int, held: array[int]) -> None:
        moved.append(min(count, index._low_slots))
        move(index, count, held)

    with patch.object(RowIndex, "_move_up", watch):
        for key in np.random.default_rng(6).integers(0, 2**63, 120_000).tolist():
            pair.add(key)
    assert max(moved) <= 1 << 13
    assert len(pair.index._slots) < 2.3 * len(pair.keys)
