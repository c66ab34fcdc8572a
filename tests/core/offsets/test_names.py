"""Interned names: ids stay what they are until they are released, and released text gives back its room."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.offsets import names as names_module
from headgate.core.offsets.names import Names

some_names = st.sampled_from(["", "a", "b", "ab", "grüppe", "x" * 300, *map(str, range(30))]).map(str.encode)
actions = st.tuples(st.sampled_from(["intern", "intern", "release", "tidy"]), some_names)


def check(names: Names, model: dict[bytes, int]) -> None:
    """Every name has the id it had, and no other name is there."""
    assert len(names) == len(model)
    for name, name_id in model.items():
        assert names.find(name) == name_id
        assert names.text(name_id) == name
    assert names.find(b"never") is None
    assert int(names.is_named().sum()) == len(model)


def copy_of(names: Names, part_bytes: int) -> Names:
    """What the parts of an image make."""
    copy = Names()
    for ids, text in names.parts(part_bytes):
        copy.restore(ids, text)
    for _ in copy.restored():
        pass
    return copy


@given(st.lists(actions, max_size=80), st.sampled_from([1, 7, 10_000]))
@settings(deadline=None, max_examples=200)
def test_names_behave_like_a_dict(script: list[tuple[str, bytes]], part_bytes: int) -> None:
    """Names come, go and come again while text is moved about; an image says the same at any time."""
    with patch.object(names_module, "_LEAST_UNTIDY", 1), patch.object(names_module, "_SMALLEST_INDEX", 2):
        names, model = Names(), dict[bytes, int]()
        for action, name in script:
            if action == "intern":
                name_id = names.intern(name)
                assert model.setdefault(name, name_id) == name_id
            elif action == "release" and name in model:
                names.release([model.pop(name)])
                assert names.find(name) is None
            elif action == "tidy":
                names.tidy(2)
        assert len(set(model.values())) == len(model)
        check(names, model)
        copy = copy_of(names, part_bytes)
        check(copy, model)
        assert copy.intern(b"one more") not in model.values()


def test_names_that_come_and_go_for_ever_take_no_more_room() -> None:
    """Ids and text of names that are gone are those of names to come."""
    names = Names()
    held = [names.intern(b"name-%d" % number) for number in range(5000)]
    for number in range(5000, 60_000):
        names.release([held[number % 5000]])
        held[number % 5000] = names.intern(b"name-%d" % number)
        names.tidy(4)
    assert names.id_count == 5000
    assert len(names._arena) < 2 * 5000 * len(b"name-60000+")
    assert sum(map(len, names._indexes)) < 3 * 5000
    assert all(names.text(held[number % 5000]) == b"name-%d" % number for number in range(55_000, 60_000))


def test_segments_of_the_index_do_not_grow_all_at_once() -> None:
    """A thousand new names have a few segments made anew, not all of them."""
    names = Names()
    built: list[int] = []
    build = Names._build_segment

    def watch(self: Names, segment: int) -> None:
        built.append(segment)
        build(self, segment)

    for number in range(100_000):
        names.intern(b"name-%d" % number)
    with patch.object(Names, "_build_segment", watch):
        most = 0
        for number in range(100_000, 120_000):
            if not number % 1000:
                most, built[:] = max(most, len(built)), []
            names.intern(b"name-%d" % number)
    assert 0 < most < 40


def test_the_id_of_a_name_that_is_gone_says_so() -> None:
    """Its text is not somebody else's."""
    names = Names()
    name_id = names.intern(b"gone")
    names.release([name_id])
    with pytest.raises(LookupError):
        names.text(name_id)
