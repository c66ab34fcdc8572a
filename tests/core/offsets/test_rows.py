"""The rows of the offset table: added and removed rows are counted, chained by group, and found by key."""

from __future__ import annotations

import numpy as np

from headgate.core.offsets.columns import NONE
from headgate.core.offsets.keys import GROUP_SHIFT
from headgate.core.offsets.rows import Rows


def key(group: int, place: int = 0) -> int:
    """Return the key of a partition of a group."""
    return group << GROUP_SHIFT | place


def rows_of(*keys: int, groups: int = 4) -> Rows:
    """Return rows for these keys, added one by one, with their positions as offsets."""
    rows = Rows()
    for group in range(groups):
        rows.add_group(group)
    for at, each in enumerate(keys):
        rows.put(each, at, at + 1, at + 1000)
    return rows


def put_each(rows: Rows, *keys: int, first: int = 0) -> list[int]:
    """Add many at once, with offsets that count up from `first`; return their rows."""
    offsets = np.arange(first, first + len(keys))
    epochs = (offsets + 1).astype(np.int32)
    found: list[int] = rows.put_each(np.array(keys, np.uint64), offsets, epochs, offsets + 1000).tolist()
    return found


def leave_each(rows: Rows, *keys: int) -> None:
    rows.leave_each_behind(np.array(keys, np.uint64))


_NUMBERINGS: dict[Rows, list[object]] = {}


def counted(rows: Rows) -> tuple[int, int, int, int, int]:
    """Return the counters; the last one counts changes of the numbering."""
    numberings = _NUMBERINGS.setdefault(rows, [rows.numbering])
    if numberings[-1] is not rows.numbering:
        numberings.append(rows.numbering)
    return len(rows), rows.arrivals, rows.departures, rows.group_count, len(numberings) - 1


def values(rows: Rows, row: int) -> tuple[int, int, int]:
    return rows.offsets[row], rows.epochs[row], rows.timestamps[row]


def test_one_by_one_everything_is_counted() -> None:
    """An overwrite is neither added nor removed; an offset that is added again counts twice."""
    rows = rows_of(key(0), key(0, 1), key(2))
    assert counted(rows) == (3, 3, 0, 2, 0)
    rows.put(key(0), 70, 71, 72)
    assert counted(rows) == (3, 3, 0, 2, 0)
    assert values(rows, rows.find(key(0))) == (70, 71, 72)
    rows.leave_behind(rows.find(key(0)))
    assert counted(rows) == (2, 3, 1, 2, 1)
    assert rows.find(key(0)) == NONE
    assert rows.find(key(3)) == NONE
    rows.put(key(0), 80, 81, 82)
    assert counted(rows) == (3, 4, 1, 2, 1)
    assert (rows.find(key(0)), values(rows, 0)) == (0, (80, 81, 82))
    assert rows.left_behind == 0


def test_many_at_a_time_the_same_is_counted() -> None:
    """Of equal keys the last one is valid; rows that were left behind are used again once."""
    rows = rows_of(key(0), key(0, 1), key(2))
    assert put_each(rows, key(1, 5), key(0), key(0, 7), key(0), first=10) == [4, 0, 3, 0]
    assert counted(rows) == (5, 5, 0, 3, 0)
    assert [values(rows, row) for row in (0, 3, 4)] == [(13, 14, 1013), (12, 13, 1012), (10, 11, 1010)]
    leave_each(rows, key(0), key(3, 9), key(1, 5))
    assert counted(rows) == (3, 5, 2, 3, 1)
    leave_each(rows, key(0))
    assert counted(rows) == (3, 5, 2, 3, 2)
    wanted = np.array([key(0), key(0, 7), key(3, 9)], np.uint64)
    assert rows.find_each(wanted).tolist() == [NONE, 3, NONE]
    assert rows.live_keys().tolist() == [key(0, 1), key(2), key(0, 7)]
    assert rows.is_live().tolist() == [False, True, True, True, False]
    assert put_each(rows, key(0), key(0), key(2), first=20) == [0, 0, 2]
    assert counted(rows) == (4, 6, 2, 3, 2)
    assert rows.left_behind == 1


def test_a_group_has_its_live_rows_whichever_went() -> None:
    """For removals at the start, at the end and inside its chain; `walk` yields NONE for these rows."""
    for gone in ((), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        rows = rows_of(key(1), key(0, 9), key(1, 1), key(1, 2))
        places = [rows.find(key(1, at)) for at in range(3)]
        for at in gone:
            rows.leave_behind(places[at])
        live = [row for at, row in enumerate(places) if at not in gone]
        assert sorted(rows.of_group(1)) == live
        assert sorted(rows.walk(1)) == [NONE] * len(gone) + live
        assert rows.has_any(1) is bool(live)
        assert list(rows.of_group(0)) == list(rows.walk(0)) == [1]
        assert list(rows.of_group(2)) == list(rows.walk(2)) == []
        assert (rows.has_any(0), rows.has_any(2)) == (True, False)


def test_chains_are_the_same_however_the_rows_came() -> None:
    """In bulk, groups may be in any order, and new, known or forgotten."""
    keys = [key(2), key(0, 3), key(2, 1), key(1), key(0, 4), key(3, 8), key(3, 9)]
    for order in (keys, sorted(keys), sorted(keys, reverse=True)):
        rows = rows_of(key(0), key(1, 7), key(2, 7))
        rows.forget(1)
        put_each(rows, *order)
        for group in range(4):
            found = sorted(rows.keys[row] for row in rows.of_group(group))
            assert found == sorted(
                {each for each in (*order, key(0), key(1, 7), key(2, 7)) if each >> GROUP_SHIFT == group}
            )
        assert rows.known_groups().tolist() == [True] * 4
        assert rows.group_count == 4


def test_a_group_is_known_from_its_first_commit_until_it_is_forgotten() -> None:
    """Its rows remain; forgetting it again changes nothing, and a commit makes it known again."""
    rows = rows_of(key(0), key(1), groups=3)
    assert [rows.is_known(group) for group in range(3)] == [True, True, False]
    assert [rows.is_unused(group) for group in range(3)] == [False, False, True]
    assert counted(rows) == (2, 2, 0, 2, 0)
    for _ in range(2):
        rows.forget(0)
        assert counted(rows) == (2, 2, 0, 1, 1)
    rows.forget(2)
    assert counted(rows) == (2, 2, 0, 1, 1)
    assert rows.known_groups().tolist() == [False, True, False]
    assert list(rows.of_group(0)) == list(rows.walk(0)) == [0]
    assert rows.has_any(0)
    assert rows.forgotten_groups() == [0]
    rows.put(key(0, 1), 1, 1, 1)
    assert (rows.is_known(0), rows.group_count, rows.forgotten_groups()) == (True, 2, [])
    assert sorted(rows.of_group(0)) == [0, 2]
    rows.forget(1)
    rows.leave_behind(1)
    assert rows.forgotten_groups() == []
    assert not rows.is_unused(1)
    rows.add_group(0)
    assert len(rows.heads) == 3


def test_rows_of_a_forgotten_group_leave_it_forgotten() -> None:
    """Appended rows do not change whether a group is known."""
    rows = rows_of(key(0), groups=2)
    rows.forget(0)
    nothing = np.zeros(2, np.int64)
    rows.append_each(np.array([key(0, 1), key(1)], np.uint64), nothing, nothing.astype(np.int32), nothing)
    assert rows.known_groups().tolist() == [False, False]
    assert (sorted(rows.of_group(0)), list(rows.of_group(1))) == ([0, 1], [2])
    assert rows.forgotten_groups() == [0, 1]
    assert rows.group_count == 0
    rows.know_each(np.array([key(1), key(1, 5)], np.uint64))
    assert (rows.known_groups().tolist(), rows.group_count) == ([False, True], 1)
