"""A member's step towards its target, as a pure function: one test a transition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.consumer.support import topic_id

from headgate.core.consumer.reconcile import TargetAssignment, owns_no_more, reconciled
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.records import ConsumerGroupCurrentAssignment, MemberState

T, U = topic_id("t"), topic_id("u")
EVERYTHING = frozenset((T, U))
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def has(
    state: MemberState,
    epoch: int,
    assigned: Mapping[TopicId, Mapping[int, int]],
    pending: Mapping[TopicId, Mapping[int, int]] | None = None,
    previous: int = 1,
) -> ConsumerGroupCurrentAssignment:
    """What a member has."""
    return ConsumerGroupCurrentAssignment(
        group_id=GroupId("g"),
        member_id=MemberId("m"),
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned=assigned,
        pending_revocation=pending or {},
    )


def target_of(
    epoch: int, target: Mapping[TopicId, tuple[int, ...]], *taken: tuple[TopicId, int], **more: Any
) -> TargetAssignment:
    """Return a target assignment, with some partitions owned by other members."""
    values: dict[str, Any] = {"subscribed": EVERYTHING, "is_subscription_new": False} | more
    return TargetAssignment(
        assignment_epoch=epoch,
        partitions=target,
        owner_of=lambda topic, partition: MemberId("other") if (topic, partition) in taken else None,
        **values,
    )


def test_stable_stays_stable_in_the_targets_epoch() -> None:
    """The very same value: there is nothing to write."""
    now = has(STABLE, 5, {T: {0: 3}})
    assert reconciled(now, target_of(5, {T: (0,)}), None) is now


def test_stable_to_stable_with_the_same_partitions_takes_the_new_epoch() -> None:
    """What is kept keeps its assignment epoch (d)."""
    after = reconciled(has(STABLE, 5, {T: {0: 3}}), target_of(6, {T: (0,)}), None)
    assert after == has(STABLE, 6, {T: {0: 3}}, previous=5)


def test_stable_to_stable_with_free_partitions() -> None:
    """They are assigned in the target's epoch (b)."""
    after = reconciled(has(STABLE, 5, {T: {0: 3}}), target_of(6, {T: (0, 1), U: (0,)}), None)
    assert after == has(STABLE, 6, {T: {0: 3, 1: 6}, U: {0: 6}}, previous=5)


def test_stable_to_unreleased_with_nothing_free() -> None:
    """It waits in the new epoch (c)."""
    after = reconciled(has(STABLE, 5, {T: {0: 3}}), target_of(6, {T: (0, 1)}, (T, 1)), None)
    assert after == has(UNRELEASED, 6, {T: {0: 3}}, previous=5)


def test_stable_to_unreleased_with_something_free() -> None:
    """It has what there is and waits for the rest (b)."""
    after = reconciled(has(STABLE, 5, {}), target_of(6, {T: (0, 1)}, (T, 1)), None)
    assert after == has(UNRELEASED, 6, {T: {0: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0, 1])], [(T, [1])]])
def test_stable_to_unrevoked(reported: Any) -> None:
    """It stays in its epoch, also if it does not say what it has, and gets nothing new (a, R1.3)."""
    after = reconciled(has(STABLE, 5, {T: {0: 3, 1: 4}}), target_of(6, {T: (0, 2)}), reported)
    assert after == has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}}, previous=5)


def test_stable_to_stable_when_it_has_let_go_already() -> None:
    """A member that says it has less is believed."""
    after = reconciled(has(STABLE, 5, {T: {0: 3, 1: 4}}), target_of(6, {T: (0, 2)}), [(T, [0])])
    assert after == has(STABLE, 6, {T: {0: 3, 2: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0, 1])]])
def test_unrevoked_stays_until_all_is_let_go(reported: Any) -> None:
    """Nothing is written, whatever the target is now."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(7, {T: (0, 1, 2)}), reported) is now


def test_unrevoked_to_stable() -> None:
    """All is let go: the new epoch, and what is free."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(6, {T: (0, 2)}), [(T, [0])]) == has(
        STABLE, 6, {T: {0: 3, 2: 6}}, previous=5
    )


def test_unrevoked_to_unrevoked_when_a_newer_target_takes_more() -> None:
    """It has to let that go too, before it comes into any epoch; until then nobody gets what it let go first.

    A commit for that, sent in the epoch that the member is still in, would be believed.
    """
    now = has(UNREVOKED, 5, {T: {0: 3, 2: 3}}, {T: {1: 4}})
    after = reconciled(now, target_of(7, {T: (0,)}), [(T, [0, 2])])
    assert after == has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4, 2: 3}}, previous=5)


def test_unrevoked_to_stable_with_a_partition_that_comes_back() -> None:
    """It is assigned anew, in the new epoch: commits from before do not count for it."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(7, {T: (0, 1)}), [(T, [0])]) == has(
        STABLE, 7, {T: {0: 3, 1: 7}}, previous=5
    )


def test_unreleased_to_stable_when_the_rest_is_free() -> None:
    """In the same epoch."""
    after = reconciled(has(UNRELEASED, 6, {T: {0: 3}}), target_of(6, {T: (0, 1)}), None)
    assert after == has(STABLE, 6, {T: {0: 3, 1: 6}}, previous=6)


def test_unreleased_stays_unreleased_without_a_trace() -> None:
    """Its previous epoch stays the one before: the answer may have been lost several times."""
    now = has(UNRELEASED, 6, {T: {0: 3}}, previous=5)
    assert reconciled(now, target_of(6, {T: (0, 1)}, (T, 1)), None) is now


def test_unreleased_to_unrevoked_with_a_newer_target() -> None:
    """What it waited for is not meant for it any more, nor is what it has."""
    after = reconciled(has(UNRELEASED, 6, {T: {0: 3}}), target_of(7, {U: (0,)}), [(T, [0])])
    assert after == has(UNREVOKED, 6, {}, {T: {0: 3}}, previous=6)


def test_what_is_not_read_is_not_given_though_the_target_says_so() -> None:
    """The target may be older than the subscription."""
    after = reconciled(has(STABLE, 5, {}), target_of(6, {T: (0,), U: (0,)}, subscribed={U}), None)
    assert after == has(STABLE, 6, {U: {0: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0]), (U, [0])], [(U, [0])]])
def test_what_is_not_read_any_more_is_pending_until_there_is_a_new_target(reported: Any) -> None:
    """Also when the member has let it go: it is nobody else's before the member is in a later epoch."""
    now = has(STABLE, 5, {T: {0: 3}, U: {0: 3}})
    where = target_of(5, {T: (0,), U: (0,)}, subscribed={U}, is_subscription_new=True)
    pending = has(UNREVOKED, 5, {U: {0: 3}}, {T: {0: 3}}, previous=5)
    assert reconciled(now, where, reported) == pending
    assert reconciled(pending, target_of(5, {U: (0,)}), [(U, [0])]) is pending
    after = has(STABLE, 6, {U: {0: 3}}, previous=5)
    assert reconciled(pending, target_of(6, {U: (0,)}), [(U, [0])]) == after


def test_unreleased_lets_nothing_go_without_a_new_target() -> None:
    """It reads less: that is pending, whatever it says."""
    now = has(UNRELEASED, 5, {T: {0: 3}, U: {0: 3}})
    after = reconciled(
        now, target_of(5, {T: (0,), U: (0,)}, subscribed={U}, is_subscription_new=True), [(U, [0])]
    )
    assert after == has(UNREVOKED, 5, {U: {0: 3}}, {T: {0: 3}}, previous=5)


def test_a_state_of_another_version_begins_anew() -> None:
    """A member that says it has nothing is believed, and given what is meant for it in the target's epoch."""
    now = has(MemberState.UNKNOWN, 5, {T: {0: 3, 1: 3}}, {U: {0: 3}})
    assert reconciled(now, target_of(6, {T: (0,)}), [(T, [0])]) is None
    assert reconciled(now, target_of(6, {T: (0,)}), None) is None
    assert reconciled(now, target_of(6, {T: (0,)}), []) == has(STABLE, 6, {T: {0: 6}}, previous=6)


def test_unrevoked_has_more_to_let_go_when_it_reads_less() -> None:
    """Both are pending."""
    now = has(UNREVOKED, 5, {T: {0: 3}, U: {0: 3}}, {U: {1: 4}})
    where = target_of(6, {}, subscribed={U}, is_subscription_new=True)
    after = reconciled(now, where, None)
    assert after == has(UNREVOKED, 5, {U: {0: 3}}, {T: {0: 3}, U: {1: 4}}, previous=5)


@pytest.mark.parametrize(
    ("reported", "is_subset"),
    [
        (None, False),
        ([], True),
        ([(T, [])], True),
        ([(U, [])], True),
        ([(T, [1])], True),
        ([(T, [0, 1])], True),
        ([(T, [2])], False),
        ([(U, [0])], False),
        ([(T, [0]), (U, [1])], True),
    ],
)
def test_a_member_owns_no_more_than_what_is_its_own(reported: Any, is_subset: bool) -> None:
    """Also what it is to let go; who does not say may own anything."""
    assert owns_no_more(reported, has(UNREVOKED, 5, {T: {0: 3, 1: 3}}, {U: {1: 3}})) is is_subset


_owned = st.dictionaries(
    st.sampled_from([T, U]), st.dictionaries(st.integers(0, 5), st.integers(1, 5), min_size=1), max_size=2
)
_targets = st.dictionaries(
    st.sampled_from([T, U]),
    st.sets(st.integers(0, 5), min_size=1).map(lambda ones: tuple(sorted(ones))),
    max_size=2,
)
_reported = st.none() | st.lists(
    st.tuples(st.sampled_from([T, U]), st.lists(st.integers(0, 5), unique=True)), max_size=2
)
_places = st.tuples(st.sampled_from([T, U]), st.integers(0, 5))


@given(
    state=st.sampled_from([STABLE, UNREVOKED, UNRELEASED]),
    assigned=_owned,
    pending=_owned,
    target=_targets,
    taken=st.frozensets(_places),
    subscribed=st.frozensets(st.sampled_from([T, U])),
    is_new=st.booleans(),
    reported=_reported,
)
def test_every_step_keeps_what_must_not_break(
    state: MemberState,
    assigned: Any,
    pending: Any,
    target: Any,
    taken: frozenset[tuple[TopicId, int]],
    subscribed: frozenset[TopicId],
    is_new: bool,
    reported: Any,
) -> None:
    """Nothing is taken from another member, nothing goes without a later epoch, and epochs only rise."""
    pending = pending if state is UNREVOKED else {}
    mine = {(topic, one) for part in (assigned, pending) for topic, ones in part.items() for one in ones}
    taken = taken - mine
    now = has(state, 5, assigned, pending)
    where = target_of(6, target, *taken, subscribed=subscribed, is_subscription_new=is_new)
    after = reconciled(now, where, reported)
    assert after is not None
    owned = {
        (topic, one)
        for part in (after.assigned, after.pending_revocation)
        for topic, ones in part.items()
        for one in ones
    }
    assert not owned & taken
    assert after.member_epoch in (5, 6)
    for topic, epochs in after.assigned.items():
        for one, epoch in epochs.items():
            assert epoch == (assigned.get(topic, {}).get(one) or 6), "kept, or given in the target's epoch"
            assert epoch <= after.member_epoch
    assert mine <= owned or after.member_epoch == 6, "what is let go comes with a later epoch"
    if after.member_epoch == 6:
        assert not after.pending_revocation
        assert all(topic in subscribed for topic in after.assigned)
    if after.state is STABLE and after.member_epoch == 6:
        wanted = {(topic, one) for topic in subscribed for one in target.get(topic, ())}
        assert owned == wanted
