"""The offset table: it behaves like a dict, loses nothing, leaks nothing, and stays small (R3.6)."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shard_states import offsets_of_topic

from headgate.core.offsets import names, reclaiming
from headgate.core.offsets import table as tables
from headgate.core.offsets.key_names import KeyNames
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.table import OffsetTable
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import OffsetCommit

Place = tuple[str, str, int]


def offset_at(place: Place, offset: int, metadata: str = "", expire_timestamp: int = -1) -> OffsetCommit:
    """Return a commit whose other fields follow from the offset."""
    group_id, topic, partition = place
    return OffsetCommit(
        GroupId(group_id),
        TopicName(topic),
        partition,
        offset,
        offset % 7 - 1,
        metadata,
        Millis(1000 + offset),
        Millis(expire_timestamp),
    )


def stored(commit: OffsetCommit) -> StoredOffset:
    """Return the offset that the table must return for a commit."""
    return StoredOffset(
        commit.offset, commit.leader_epoch, commit.metadata, commit.commit_timestamp, commit.expire_timestamp
    )


def find(table: OffsetTable, place: Place) -> StoredOffset | None:
    """Return the committed offset of a place."""
    return table.get(GroupId(place[0]), TopicName(place[1]), place[2])


def remove(table: OffsetTable, place: Place) -> bool:
    """Remove the offset of a place; return whether there was one."""
    return table.remove(GroupId(place[0]), TopicName(place[1]), place[2])


def test_names_are_looked_up_once_for_many_partitions_with_high_numbers() -> None:
    """Of a topic or group that is not known, too: a request may have a million of them."""
    table = OffsetTable()
    high = range(1 << 18, (1 << 18) + 500)
    table.put(offset_at(("g", "t", high[7]), 5))
    for group_id, topic in (("g", "t"), ("g", "unknown"), ("unknown", "t")):
        with patch.object(KeyNames, "_find", autospec=True, side_effect=KeyNames._find) as look_ups:
            found = table.get_each(GroupId(group_id), TopicName(topic), [*range(500), *high, -1, -2])
        assert look_ups.call_count <= 4
        there = {partition: one.offset for partition, one in found if one is not None}
        assert there == ({high[7]: 5} if (group_id, topic) == ("g", "t") else {})


places = st.tuples(
    st.sampled_from(["", "g1", "g2", "grüppe", "g1\x00"]),
    st.sampled_from(["t1", "t2", "", "t1\x00", "täma"]),
    st.sampled_from([0, 1, 2, 262_143, 262_144, 2**31 - 1, -1, -(2**31)]),
)
actions = st.one_of(
    st.tuples(
        st.just("put"),
        places,
        st.integers(-(2**63), 2**63 - 1100),
        st.sampled_from(["", "", "note"]),
        st.sampled_from([-1, -1, 5]),
    ),
    st.tuples(st.just("remove"), places, st.just(0), st.just(""), st.just(-1)),
    st.tuples(st.just("forget"), places, st.just(0), st.just(""), st.just(-1)),
)


@given(st.lists(actions, max_size=80), st.sampled_from([1, 3, 1024]))
@settings(deadline=None)
def test_the_table_behaves_like_a_dict(
    script: list[tuple[str, Place, int, str, int]], left_behind: int
) -> None:
    """Puts, removals, reused rows and forgotten groups, with names and partitions at the limits.

    Rows left behind are dropped almost at once, at intervals, or not at all.
    """
    with patch.object(tables, "_ROWS_LEFT_BEHIND", left_behind):
        table = OffsetTable()
    with (
        patch.object(tables, "_ROWS_LEFT_BEHIND", left_behind),
        patch.object(tables, "_LEFT_BEHIND_A_STEP", 1),
        patch.object(tables, "_RECLAIMED_AT_ONCE", 2),
        patch.object(names, "_LEAST_UNTIDY", 1),
        patch.object(reclaiming, "_FOUND_OUT_AT_ONCE", 3),
        patch.object(reclaiming, "_LOOKED_THROUGH_AT_ONCE", 3),
    ):
        model, known = play(table, script)
        for place in {*model, ("g2", "t2", 0), ("none", "t1", 0), ("g1", "none", 1)}:
            group_id, topic, _partition = place
            assert find(table, place) == model.get(place)
            assert table.has_group(GroupId(group_id)) == (group_id in known)
            assert {
                (topic, partition): entry for topic, partition, entry in table.offsets_of(GroupId(group_id))
            } == {(one[1], one[2]): entry for one, entry in model.items() if one[0] == group_id}
            assert offsets_of_topic(table, TopicName(topic)) == sorted(
                (one[0], one[2]) for one in model if one[1] == topic
            )
        assert table.topics_with_offsets() == {place[1] for place in model}
        assert set(table.group_ids()) == known


def play(
    table: OffsetTable, script: list[tuple[str, Place, int, str, int]]
) -> tuple[dict[Place, StoredOffset], set[str]]:
    """Apply the script to the table and a dict, and count at every step; return the dict, and the groups."""
    model: dict[Place, StoredOffset] = {}
    known: set[str] = set()
    for action, place, offset, metadata, expire in script:
        if action == "put":
            commit = offset_at(place, offset, metadata, expire)
            table.put(commit)
            model[place] = stored(commit)
            known.add(place[0])
        elif action == "remove":
            assert remove(table, place) == (model.pop(place, None) is not None)
        else:
            table.forget_group(GroupId(place[0]))
            known.discard(place[0])
        assert len(table) == len(model)
        assert table.group_count == len(known)
    return model, known


def test_growing_loses_nothing() -> None:
    """After many rebuilds of the index every offset is found."""
    table = OffsetTable()
    places = [(f"group-{index % 97}", f"topic-{index % 13}", index) for index in range(20_000)]
    for number, place in enumerate(places):
        table.put(offset_at(place, number))
    assert all(find(table, place) == stored(offset_at(place, number)) for number, place in enumerate(places))
    assert len(table.offsets_of(GroupId("group-5"))) == sum(place[0] == "group-5" for place in places)


def test_mass_removal_keeps_the_rest_and_gives_back_the_room() -> None:
    """After nine of ten groups are removed, the others are complete, and the columns are smaller."""
    table = OffsetTable()
    places = [(f"group-{index // 3}", f"topic-{index // 300}", index % 3) for index in range(30_000)]
    for number, place in enumerate(places):
        table.put(offset_at(place, number, "note" if number % 10 == 0 else "", 5 if number % 20 == 0 else -1))
    kept = {place: find(table, place) for place in places if int(place[0][6:]) % 10 == 0}
    for place in places:
        if place not in kept:
            assert remove(table, place)
    for group in range(10_000):
        if group % 10:
            table.forget_group(GroupId(f"group-{group}"))
    while table.reclaim():
        pass
    # Rows are dropped when more than an eighth are left behind; then memory is released.
    assert len(table) == len(kept)
    assert len(table._rows.keys) < len(kept) * 1.2 + 2000
    assert len(table._rows.index._slots) < len(kept) * 6
    assert all(find(table, place) == entry for place, entry in kept.items())
    assert table.group_count == 1000
    assert sorted(table.group_ids()) == sorted(f"group-{group}" for group in range(0, 10_000, 10))


def test_what_is_left_behind_is_dropped_a_little_at_a_time() -> None:
    """No step drops more than some hundred rows, however many are left behind, and all others are found."""
    table = OffsetTable()
    places = [(f"group-{index // 300}", f"topic-{index % 7}", index % 300) for index in range(12_000)]
    for number, place in enumerate(places):
        table.put(offset_at(place, number))
    gone, kept = places[1000:9000], places[:1000] + places[9000:]
    with patch.object(tables, "_ROWS_LEFT_BEHIND", 1 << 30):
        parts = table.image()
        next(parts)
        for place in gone:
            assert remove(table, place)
        parts.close()
    steps, rows = 0, len(table._rows.keys)
    assert rows == len(places)
    while table.reclaim():
        assert rows - len(table._rows.keys) <= 512
        steps, rows = steps + 1, len(table._rows.keys)
        assert all(find(table, place) is not None for place in kept[steps % 50 :: 50])
        table.put(offset_at((f"new-{steps}", "topic-new", steps), steps))
    assert steps >= len(gone) // 512
    assert len(table._rows.keys) == len(kept) + steps
    assert all(find(table, place) is None for place in gone[::10])
    assert len(table.offsets_of(GroupId("group-0"))) == 300


def test_partitions_committed_and_deleted_for_ever_do_not_leak() -> None:
    """The same partitions reuse their rows; rows of new ones are dropped after their removal."""
    table = OffsetTable()
    for turn in range(20_000):
        same, passing = ("g", "t", turn % 10), (f"group-{turn}", f"topic-{turn}", 0)
        for place in (same, passing):
            table.put(offset_at(place, turn, "note"))
            assert remove(table, place)
        table.forget_group(GroupId(passing[0]))
    assert len(table) == 0
    assert len(table._rows.keys) < 3000
    assert len(table._names.groups) < 3000
    assert len(table._names.topics) < 3000
    assert not table._aside


def test_a_group_outlives_its_last_offset() -> None:
    """It is forgotten only on request, as observed in Kafka 4.3.1."""
    table = OffsetTable()
    table.put(offset_at(("g", "t", 0), 1))
    remove(table, ("g", "t", 0))
    assert table.has_group(GroupId("g"))
    table.forget_group(GroupId("g"))
    assert not table.has_group(GroupId("g"))


def test_offsets_outlive_a_forgotten_group() -> None:
    """A group that changes its type keeps its offsets, as observed in Kafka 4.3.1."""
    table = OffsetTable()
    table.put(offset_at(("g", "t", 0), 1))
    table.forget_group(GroupId("g"))
    assert not table.has_group(GroupId("g"))
    assert find(table, ("g", "t", 0)) is not None
    assert len(table.offsets_of(GroupId("g"))) == 1
    table.put(offset_at(("g", "t", 1), 1))
    assert table.has_group(GroupId("g"))
    assert len(table.offsets_of(GroupId("g"))) == 2


def test_groups_to_sweep_are_those_with_something_old_or_nothing_at_all() -> None:
    """Old offsets, offsets with their own expiry time, no offsets: each makes a candidate, nothing else does.

    A forgotten group with offsets has changed its type; one without offsets is gone.
    """
    table = OffsetTable()
    table.put(offset_at(("old", "t", 0), 10))
    table.put(offset_at(("old", "t", 1), 900))
    table.put(offset_at(("young", "t", 0), 900))
    table.put(offset_at(("own", "t", 0), 900, expire_timestamp=5))
    table.put(offset_at(("bare", "t", 0), 900))
    remove(table, ("bare", "t", 0))
    table.put(offset_at(("forgotten", "t", 0), 10))
    table.forget_group(GroupId("forgotten"))
    table.put(offset_at(("gone", "t", 0), 10))
    remove(table, ("gone", "t", 0))
    table.forget_group(GroupId("gone"))
    looking = table.groups_to_sweep(Millis(1500))
    while looking.step():
        pass
    assert sorted(table.group_ids_of(looking.groups())) == ["bare", "forgotten", "old", "own"]


MEASURE = """
import tracemalloc
from headgate.core.offsets import names, reclaiming
from headgate.core.offsets import table as tables
from headgate.core.offsets.table import OffsetTable
from headgate.records import OffsetCommit

COUNT = {count}
warm = OffsetTable()
for index in range(1000):
    warm.put(OffsetCommit("g", "t", index, index, -1, "", 1_700_000_000_000))
del warm
tracemalloc.start()
table = OffsetTable()
for index in range(COUNT):
    group, topic, partition = {place}
    table.put(OffsetCommit(group, topic, partition, index, -1, "", 1_700_000_000_000 + index))
del group, topic, partition
held, _ = tracemalloc.get_traced_memory()
assert len(table) == COUNT
print(held / COUNT)
"""


@pytest.mark.parametrize(
    "place",
    [
        'f"analytics-{index % 5}", "orders-v1", index // 5',
        'f"service-group-{index // 3:06d}", "orders-v1", index % 3',
        'f"service-group-{index % 500:06d}", f"orders-of-tenant-{index // 500:06d}", 0',
        '"mirror", f"topic-{index:06d}", 0',
    ],
    ids=["few big groups", "many small groups", "one partition a topic", "every topic read once"],
)
def test_an_offset_takes_at_most_64_bytes(place: str) -> None:
    """All memory that the interpreter allocated and still holds (R3.6, invariant 6)."""
    script = MEASURE.format(count=100_000, place=place)
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True
    )
    assert float(run.stdout) <= 64
