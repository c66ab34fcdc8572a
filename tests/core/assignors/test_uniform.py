"""The uniform assignor: as even as the subscriptions allow, with as few moves as possible."""

from __future__ import annotations

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.assignors.specs import (
    after,
    check_every_partition_has_one_subscribed_owner,
    currently,
    few,
    group,
    groups,
    is_satisfied_by,
    load,
    member,
    owned,
    readable,
)

from headgate.core.assignors.contract import GroupSpec, MemberSubscription
from headgate.core.assignors.uniform import assign_uniformly
from headgate.domain.ids import MemberId


def _shuffled(spec: GroupSpec) -> GroupSpec:
    """The same group, every mapping built the other way round."""
    return GroupSpec(
        members={
            member_id: MemberSubscription(
                topics=frozenset(sorted(one.topics, reverse=True)),
                instance_id=one.instance_id,
                current=dict(reversed(list(one.current.items()))),
            )
            for member_id, one in reversed(list(spec.members.items()))
        },
        assignable=dict(reversed(list(spec.assignable.items()))),
    )


def _evenest(spec: GroupSpec) -> list[int]:
    """The most even loads there are, heaviest first: found by trying everything."""
    partitions = [
        [member_id for member_id, one in spec.members.items() if topic in one.topics]
        for topic, partitions in spec.assignable.items()
        for _ in partitions
    ]
    choices = [owners for owners in partitions if owners]
    return min(
        sorted((chosen.count(member_id) for member_id in spec.members), reverse=True)
        for chosen in itertools.product(*choices)
    )


@few
@given(groups())
def test_every_partition_has_one_owner_that_subscribes_to_it(spec: GroupSpec) -> None:
    """Whatever the members have now."""
    check_every_partition_has_one_subscribed_owner(spec, assign_uniformly(spec))


@few
@given(groups(alike=True))
def test_members_with_equal_subscriptions_are_balanced_within_one(spec: GroupSpec) -> None:
    """No member has two partitions more than another."""
    loads = [load(target) for target in assign_uniformly(spec).values()]
    assert max(loads) - min(loads) <= 1


@few
@given(groups(most_partitions=2).filter(lambda spec: len(spec.members) <= 4))
def test_members_with_different_subscriptions_are_as_even_as_possible(spec: GroupSpec) -> None:
    """No other assignment has a smaller maximum, or fewer members with it, and so on."""
    loads = sorted((load(target) for target in assign_uniformly(spec).values()), reverse=True)
    assert loads == _evenest(spec)


@few
@given(groups(alike=True))
def test_with_equal_subscriptions_the_fewest_partitions_move(spec: GroupSpec) -> None:
    """As many stay as in any balanced assignment."""
    targets = assign_uniformly(spec)
    now: dict[MemberId, int] = dict.fromkeys(spec.members, 0)
    claimed = set()
    for member_id in sorted(spec.members):
        for topic, partitions in spec.members[member_id].current.items():
            for partition in partitions:
                exists = partition in spec.assignable.get(topic, ())
                if exists and topic in spec.members[member_id].topics and (topic, partition) not in claimed:
                    claimed.add((topic, partition))
                    now[member_id] += 1
    quota, larger = divmod(sum(map(load, targets.values())), len(targets))
    could_stay = sum(min(size, quota) for size in now.values())
    could_stay += min(larger, sum(size > quota for size in now.values()))
    stays = sum(
        len(set(partitions) & set(targets[member_id].get(topic, ())))
        for member_id, current in currently(spec).items()
        for topic, partitions in current.items()
    )
    assert stays >= could_stay


@few
@given(groups())
def test_its_own_assignment_is_stable(spec: GroupSpec) -> None:
    """A second call returns the same objects."""
    assert is_satisfied_by(assign_uniformly, spec)


@few
@given(groups(), st.data())
def test_with_equal_subscriptions_a_leave_takes_no_partition_from_others(
    spec: GroupSpec, data: st.DataObject
) -> None:
    """They only get more."""
    topics = frozenset(spec.assignable)
    alike = GroupSpec(
        members={member_id: MemberSubscription(topics=topics) for member_id in spec.members},
        assignable=spec.assignable,
    )
    settled = after(alike, assign_uniformly(alike))
    gone = data.draw(st.sampled_from(sorted(settled.members)))
    rest = GroupSpec(
        members={member_id: one for member_id, one in settled.members.items() if member_id != gone},
        assignable=settled.assignable,
    )
    if not rest.members:
        assert assign_uniformly(rest) == {}
        return
    before, now = owned(currently(rest)), owned(assign_uniformly(rest))
    assert all(now[where] == owner for where, owner in before.items())


@few
@given(groups())
def test_the_order_of_mappings_and_sets_does_not_matter(spec: GroupSpec) -> None:
    """The result is the same."""
    assert assign_uniformly(_shuffled(spec)) == assign_uniformly(spec)


def test_a_new_member_takes_only_its_own_share() -> None:
    """Two members with three partitions each give one each to a third."""
    spec = group(
        {"t": 6}, a=member(["t"], {"t": [0, 1, 2]}), b=member(["t"], {"t": [3, 4, 5]}), c=member(["t"])
    )
    assert readable(assign_uniformly(spec)) == {
        "a": {"t": [0, 1]},
        "b": {"t": [3, 4]},
        "c": {"t": [2, 5]},
    }


def test_larger_shares_stay_with_their_members() -> None:
    """Of two members with two and three of five partitions neither loses one, in any order of ids."""
    spec = group({"t": 5}, a=member(["t"], {"t": [3, 4]}), b=member(["t"], {"t": [0, 1, 2]}))
    targets = assign_uniformly(spec)
    assert readable(targets) == {"a": {"t": [3, 4]}, "b": {"t": [0, 1, 2]}}


def test_partitions_move_along_a_chain_of_members() -> None:
    """From a, with topic x only, through b to c, with z only."""
    spec = group(
        {"x": 8, "z": 2},
        a=member(["x"], {"x": range(5)}),
        b=member(["x", "z"], {"x": [5, 6, 7], "z": [0]}),
        c=member(["z"], {"z": [1]}),
    )
    targets = assign_uniformly(spec)
    assert sorted(load(target) for target in targets.values()) == [2, 4, 4]


def test_unknown_and_unsubscribed_topics_are_not_assigned() -> None:
    """They are in no target."""
    spec = group({"t": 1, "unread": 3}, a=member(["t", "gone"], {"gone": [0], "unread": [0]}))
    assert readable(assign_uniformly(spec)) == {"a": {"t": [0]}}


def test_new_partitions_of_a_topic_go_to_the_lightest_members() -> None:
    """The old ones stay."""
    spec = group({"t": 4}, a=member(["t"], {"t": [0]}), b=member(["t"], {"t": [1]}))
    assert readable(assign_uniformly(spec)) == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}


def test_a_topic_of_which_every_partition_is_withheld_is_in_no_target() -> None:
    """Also if a member has one of them, and other partitions are assigned."""
    spec = group({"t": 1, "u": 1}, {"t": [0]}, a=member(["t", "u"], {"t": [0]}))
    assert readable(assign_uniformly(spec)) == {"a": {"u": [0]}}


def test_a_partition_that_two_members_have_stays_with_the_first() -> None:
    """A present target may be invalid; the result is not."""
    spec = group({"t": 2}, b=member(["t"], {"t": [0, 1]}), a=member(["t"], {"t": [1]}))
    assert readable(assign_uniformly(spec)) == {"a": {"t": [1]}, "b": {"t": [0]}}


def test_a_group_without_members_has_no_targets() -> None:
    """Members without topics have empty ones."""
    assert assign_uniformly(group({"t": 1})) == {}
    assert readable(assign_uniformly(group({"t": 1}, a=member([])))) == {"a": {}}


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(2, 40), st.integers(2, 12), st.sampled_from(["fresh", "one has all"])
)
def test_no_chain_of_moves_makes_a_large_group_more_even(
    seed: int, size: int, topics: int, start: str
) -> None:
    """In groups too large for a search: no member reaches one with two partitions less."""
    chance = random.Random(seed)
    names = [f"t{n}" for n in range(topics)]
    counts = {name: chance.randint(1, 30) for name in names}
    members = {f"m{n}": member(chance.sample(names, chance.randint(1, topics))) for n in range(size)}
    everything = {name: range(count) for name, count in counts.items()}
    members["m0"] = member(names, everything if start == "one has all" else None)
    spec = group(counts, **members)
    targets = assign_uniformly(spec)
    check_every_partition_has_one_subscribed_owner(spec, targets)
    for first, target in targets.items():
        reached = {first}
        queue = [first]
        for giver in queue:
            takers = {m for m, one in spec.members.items() if targets[giver].keys() & one.topics} - reached
            reached |= takers
            queue += takers
        assert load(target) - min(load(targets[one]) for one in reached) < 2
