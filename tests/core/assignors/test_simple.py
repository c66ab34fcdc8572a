"""The assignor of share groups."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.assignors.contract import AssignablePartitions, GroupSpec, MemberSubscription
from headgate.core.assignors.simple import assign_shares
from headgate.domain.ids import MemberId, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
Targets = dict[MemberId, dict[TopicId, tuple[int, ...]]]


def spec(
    counts: dict[TopicId, int], topics: list[frozenset[TopicId]], current: Targets | None = None
) -> GroupSpec:
    members = {
        MemberId(f"m{at:03}"): MemberSubscription(
            topics=one, current=(current or {}).get(MemberId(f"m{at:03}"), {})
        )
        for at, one in enumerate(topics)
    }
    assignable = {topic_id: AssignablePartitions(count) for topic_id, count in counts.items()}
    return GroupSpec(members=members, assignable=assignable)


def sizes(targets: Targets) -> list[int]:
    return [sum(map(len, target.values())) for target in targets.values()]


def sharing(targets: Targets) -> Counter[tuple[TopicId, int]]:
    return Counter(
        (topic_id, index)
        for target in targets.values()
        for topic_id, indexes in target.items()
        for index in indexes
    )


@given(st.integers(0, 7), st.integers(0, 5), st.integers(1, 14), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_partitions_are_shared_evenly(ones: int, twos: int, members: int, random: object) -> None:
    """Each by as many members as all others, and all members have as many as all others, but for one."""
    counts = {A: ones, B: twos}
    both = frozenset(counts)
    before: Targets = dict(assign_shares(spec({A: 5, B: 1}, [both] * max(1, members - 3))))  # type: ignore[arg-type]
    for current in ({}, before):
        targets: Targets = dict(assign_shares(spec(counts, [both] * members, current)))  # type: ignore[arg-type]
        total = ones + twos
        assert len(targets) == members
        if total:
            assert set(sharing(targets).values()) == {-(-members // total)}
            assert len(sharing(targets)) == total
            assert max(sizes(targets)) - min(sizes(targets)) <= 1
        else:
            assert set(sizes(targets)) == {0}
        assert assign_shares(spec(counts, [both] * members, targets)) == targets, "nothing moves without need"


def test_members_keep_what_they_have() -> None:
    """A new member takes as few partitions as balance needs."""
    before: Targets = dict(assign_shares(spec({A: 6}, [frozenset({A})] * 2)))  # type: ignore[arg-type]
    after: Targets = dict(assign_shares(spec({A: 6}, [frozenset({A})] * 3, before)))  # type: ignore[arg-type]
    for member_id, target in before.items():
        assert set(after[member_id][A]) < set(target[A])
    assert sizes(after) == [2, 2, 2]


def test_each_topic_is_shared_by_its_subscribers() -> None:
    """Members with other subscriptions count for their own topics only."""
    targets = dict(assign_shares(spec({A: 2, B: 1}, [frozenset({A}), frozenset({A, B}), frozenset({B})])))
    assert [sorted(target) for target in targets.values()] == [[A], [A, B], [B]]
    assert sizes(targets) == [1, 2, 1]  # type: ignore[arg-type]


def test_a_topic_that_does_not_exist_is_not_assigned() -> None:
    """And a group without members has no targets."""
    assert assign_shares(spec({}, [frozenset({A})])) == {MemberId("m000"): {}}
    assert assign_shares(spec({A: 1}, [])) == {}


class _CountedTopic(bytes):
    """A topic id that counts how often a dictionary or set takes it in or looks for it."""

    looks = 0

    def __hash__(self) -> int:
        type(self).looks += 1
        return super().__hash__()


def test_very_many_partitions_are_numbers() -> None:
    """A partition is no value of its own in sets and heaps: ten thousand of those would hold the loop."""
    topic_id = TopicId(_CountedTopic(b"c" * 16))
    many = AssignablePartitions(10_000, frozenset({7}))

    def assigned(current: Targets) -> Targets:
        members = {
            MemberId(f"m{at}"): MemberSubscription(
                topics=frozenset({topic_id}), current=current.get(MemberId(f"m{at}"), {})
            )
            for at in range(3)
        }
        return dict(assign_shares(GroupSpec(members=members, assignable={topic_id: many})))  # type: ignore[arg-type]

    first = assigned({})
    again = assigned(first)
    assert again == first
    assert sizes(first) == [3_333] * 3
    assert 7 not in {index for target in first.values() for index in target[topic_id]}
    assert _CountedTopic.looks < 200
