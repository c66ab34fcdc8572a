"""The range assignor: consecutive partitions, the same ones of co-partitioned topics."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from tests.core.assignors.specs import (
    check_every_partition_has_one_subscribed_owner,
    few,
    group,
    groups,
    is_satisfied_by,
    member,
    owned,
    readable,
)

from headgate.core.assignors.contract import AssignablePartitions, GroupSpec
from headgate.core.assignors.ranges import assign_ranges


@few
@given(groups())
def test_every_partition_has_one_owner_that_subscribes_to_it(spec: GroupSpec) -> None:
    """Whatever the members have now."""
    check_every_partition_has_one_subscribed_owner(spec, assign_ranges(spec))


@few
@given(groups())
def test_ranges_are_consecutive_and_differ_by_one_at_most(spec: GroupSpec) -> None:
    """Every subscriber gets partitions as long as there are enough."""
    spec = replace(
        spec, assignable={topic: AssignablePartitions(one.count) for topic, one in spec.assignable.items()}
    )
    targets = assign_ranges(spec)
    for topic, assignable in spec.assignable.items():
        ranges = [target.get(topic, ()) for m, target in targets.items() if topic in spec.members[m].topics]
        for partitions in ranges:
            assert not partitions or partitions == tuple(range(partitions[0], partitions[-1] + 1))
        if ranges:
            sizes = [len(partitions) for partitions in ranges]
            assert max(sizes) - min(sizes) <= 1
            assert sum(sizes) == len(assignable)


@few
@given(groups())
def test_topics_with_the_same_subscribers_and_size_are_co_partitioned(spec: GroupSpec) -> None:
    """The owner of a partition of one has the same partition of the other."""
    targets = assign_ranges(spec)
    seen: dict[tuple[object, int, int], object] = {}
    for topic, assignable in spec.assignable.items():
        readers = frozenset(m for m, one in spec.members.items() if topic in one.topics)
        owner = {p: m for m, target in targets.items() for p in target.get(topic, ())}
        for partition, member_id in owner.items():
            assert seen.setdefault((readers, assignable.count, partition), member_id) == member_id


@few
@given(groups())
def test_withheld_partitions_do_not_move_others(spec: GroupSpec) -> None:
    """The ranges are those of the whole topics, without them."""
    whole = replace(
        spec, assignable={topic: AssignablePartitions(one.count) for topic, one in spec.assignable.items()}
    )
    expected = {
        where: m for where, m in owned(assign_ranges(whole)).items() if where[1] in spec.assignable[where[0]]
    }
    assert owned(assign_ranges(spec)) == expected


@few
@given(groups())
def test_its_own_assignment_is_stable(spec: GroupSpec) -> None:
    """A second call returns the same objects."""
    assert is_satisfied_by(assign_ranges, spec)


def test_the_first_members_have_the_larger_ranges() -> None:
    """Seven partitions, and two, among three members: by member id, the larger ranges first."""
    spec = group({"t": 7, "u": 2}, b=member("tu"), c=member("tu"), a=member("tu"))
    assert readable(assign_ranges(spec)) == {
        "a": {"t": [0, 1, 2], "u": [0]},
        "b": {"t": [3, 4], "u": [1]},
        "c": {"t": [5, 6]},
    }


def test_static_members_come_first_by_instance_id() -> None:
    """A static member with a new member id keeps its ranges."""
    others = {"m1": member("t", instance_id="i2"), "m5": member("t"), "m0": member("t")}
    before = group({"t": 4}, m9=member("t", instance_id="i1"), **others)
    assert readable(assign_ranges(before)) == {
        "m9": {"t": [0]},
        "m1": {"t": [1]},
        "m0": {"t": [2]},
        "m5": {"t": [3]},
    }
    returned = group({"t": 4}, m2=member("t", instance_id="i1"), **others)
    assert readable(assign_ranges(returned))["m2"] == {"t": [0]}


def test_each_topic_is_divided_among_its_own_subscribers() -> None:
    """Subscribers of one topic do not affect the ranges of another."""
    spec = group({"t": 4, "u": 4}, a=member("t"), b=member("tu"), c=member("u"))
    assert readable(assign_ranges(spec)) == {
        "a": {"t": [0, 1]},
        "b": {"t": [2, 3], "u": [0, 1]},
        "c": {"u": [2, 3]},
    }


def test_an_unknown_topic_is_not_assigned() -> None:
    """It does not affect the others."""
    spec = group({"t": 1}, a=member(["t", "gone"], {"gone": [0]}))
    assert readable(assign_ranges(spec)) == {"a": {"t": [0]}}
