"""Interned names: ids are stable until they are released, and the space of released text is reused."""

from __future__ import annotations

import itertools
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.offsets import names as names_module
from headgate.core.offsets.names import Names, _crc32_each, _slots_for

some_names = st.sampled_from(["", "a", "b", "ab", "grüppe", "x" * 300, *map(str, range(30))]).map(str.encode)
actions = st.tuples(st.sampled_from(["intern", "intern", "release", "tidy"]), some_names)


def check(names: Names, model: dict[bytes, int]) -> None:
    """Check that every name has its id, and that no other name exists."""
    assert len(names) == len(model)
    for name, name_id in model.items():
        assert names.find(name) == name_id
        assert names.text(name_id) == name
    assert names.find(b"never") is None
    assert int(names.is_named().sum()) == len(model)


def copy_of(names: Names, part_bytes: int) -> Names:
    """Return the names restored from the parts of an image."""
    copy = Names()
    for ids, text in names.parts(part_bytes):
        copy.restore(ids, text)
    for _ in copy.restored():
        pass
    return copy


@given(st.lists(actions, max_size=80), st.sampled_from([1, 7, 10_000]))
@settings(deadline=None, max_examples=200)
def test_names_behave_like_a_dict(script: list[tuple[str, bytes]], part_bytes: int) -> None:
    """Names are added, released and added again while text is moved; an image is right at any time."""
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
    """Ids and text of released names are reused."""
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
    """A thousand new names rebuild a few segments, not all of them."""
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
    """It does not return another name's text."""
    names = Names()
    name_id = names.intern(b"gone")
    names.release([name_id])
    with pytest.raises(LookupError):
        names.text(name_id)


def test_a_segment_has_room_for_one_more_name_and_not_for_many() -> None:
    """Below 128 names for some 60 % more, above for 12 %; each segment has its own sizes."""
    assert {_slots_for(count, segment) for count in range(6) for segment in (0, 64, 127)} == {8}
    for count in (6, 7, 50, 126, 127, 128, 129, 1000, 100_000):
        growth = 1.6 if count < 128 else 1.12
        needed = (count + 1) / 0.77
        sizes = [_slots_for(count, segment) for segment in range(128)]
        assert all(needed < slots < growth * needed + 1 for slots in sizes)
        assert max(sizes) >= min(sizes) + (growth - 1) * needed * 0.9 - 1
        assert sum(a != b for a, b in itertools.pairwise(sizes)) >= min(127, needed * 0.11)


def test_names_are_hashed_together_as_each_alone() -> None:
    """For any length around 256 bytes, at any position, with any number of equal lengths."""
    texts = [
        b"",
        b"a",
        b"ab",
        "\u00ff".encode(),
        b"y" * 254,
        b"y" * 255,
        b"y" * 256,
        b"z" * 257,
        b"z" * 600,
        b"",
    ]
    arena = bytearray(b"".join(text + b"\xfe" for text in texts))
    places = np.cumsum([0, *(len(text) + 1 for text in texts[:-1])]).astype(np.uint32)
    assert _crc32_each(arena, places).tolist() == [crc32(text) for text in texts]
    for at, text in enumerate(texts):
        assert _crc32_each(arena, places[at : at + 1]).tolist() == [crc32(text)]


def test_text_is_tidied_only_when_enough_of_it_is_gone() -> None:
    """More than a quarter and 4 KiB; then all of it, some names at a time, and no more."""
    names = Names()
    ids = [names.intern(b"%09d" % number) for number in range(4000)]  # 10 bytes each
    names.release(ids[:1409])
    assert (names._gone, names.tidy(1)) == (14_090, False)
    names.release(ids[1409:1410])
    names.intern(b"1234567890123456789012345")
    assert not names.tidy(1), "26 bytes more, and a quarter of them is 6"
    names.release(ids[1410:1411])
    assert [names.tidy(4000) for _ in range(3)] == [True, False, False]
    assert (names._gone, len(names._arena), len(names)) == (0, 40_026 - 14_110, 4000 - 1411 + 1)
    assert [names.text(name_id) for name_id in ids[1411:]] == [b"%09d" % at for at in range(1411, 4000)]
    with pytest.raises(LookupError):
        names.text(ids[1410])


def test_parts_of_an_image_are_as_large_as_is_asked_for() -> None:
    """Each has the names that begin in its share of the text, in order, with their end bytes."""
    names = Names()
    ids = [names.intern(text) for text in (b"aa", b"bb", b"c" * 10, b"", b"d")]
    names.release(ids[1:2])
    parts = [(ids.tolist(), text) for ids, text in names.parts(9)]
    assert parts == [([0, 2], b"aa\xfe" + b"c" * 10 + b"\xfe"), ([3], b"\xfe"), ([4], b"d\xfe")]
    assert [ids.tolist() for ids, _ in names.parts(3)] == [[0], [2], [3], [4]]
    copy = copy_of(names, 6)
    assert (len(copy), copy.id_count, copy.intern(b"new")) == (4, 5, 1)


@pytest.mark.parametrize("text", [b"", b"a", b"a\xfe", b"a\xfeb", b"a\xfeb\xfec", b"a\xfeb\xfec\xfe"])
def test_an_image_with_more_or_fewer_names_than_ids_is_refused(text: bytes) -> None:
    """So is one whose last name has no end byte."""
    with pytest.raises(ValueError, match="there are not as many names as ids"):
        Names().restore(np.array([0, 1], np.uint32), text)


def test_an_image_of_nothing_is_nothing() -> None:
    """No ids and no text."""
    names = Names()
    names.restore(np.array([], np.uint32), b"")
    assert list(names.restored()) != []
    assert (len(names), names.id_count, names.find(b"")) == (0, 0, None)


def test_a_search_that_reaches_the_last_slot_continues_at_the_first() -> None:
    """Names whose home is the last slot of their segment are found, also after a rebuild."""
    last_home = [
        name
        for name in (b"%d" % number for number in range(20_000))
        if crc32(name) % 128 == 3 and crc32(name) * 8 >> 32 == 7
    ][:5]
    names = Names()
    ids = [names.intern(name) for name in last_home]
    assert list(names._indexes[3]) == [*ids[1:], *[0xFFFFFFFF] * 3, ids[0]]
    names._build_segment(3)
    assert [names.find(name) for name in last_home] == ids
    assert sorted(names._indexes[3]) == sorted([*ids, *[0xFFFFFFFF] * 3])
    assert len(copy_of(names, 100)) == len(ids)
    assert names._counts[3] == 5


def test_a_segment_grows_when_it_is_full_and_is_rebuilt_when_names_are_gone() -> None:
    """At more than 77 % of its slots in use, released ones included; and when half are released."""
    same = [name for name in (b"%d" % number for number in range(20_000)) if crc32(name) % 128 == 5]
    names = Names()
    ids = [names.intern(name) for name in same[:6]]
    assert len(names._indexes[5]) == 8
    names.release(ids[:5])
    assert (names._counts[5], names._released[5]) == (6, 5), "the smallest is left as it is"
    names.intern(same[6])
    assert (names._counts[5], names._released[5], len(names._indexes[5])) == (2, 0, 8)
    ids = [names.intern(name) for name in same[:60]]
    slots = len(names._indexes[5])
    assert names._counts[5] == 60
    names.release(ids[: slots // 2])
    assert names._released[5] == slots // 2
    names.release(ids[slots // 2 : slots // 2 + 1])
    assert names._released[5] == 0
    assert names._counts[5] == 60 - slots // 2 - 1
