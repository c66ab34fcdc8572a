"""Reconciliation of a member as a pure function: one test per transition."""

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
    """The same object: there is no record to write."""
    now = has(STABLE, 5, {T: {0: 3}})
    assert reconciled(now, target_of(5, {T: (0,)}), None) is now


def test_stable_to_stable_with_the_same_partitions_takes_the_new_epoch() -> None:
    """Kept partitions keep their assignment epochs (d)."""
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
    """It gets the free ones and waits for the rest (b)."""
    after = reconciled(has(STABLE, 5, {}), target_of(6, {T: (0, 1)}, (T, 1)), None)
    assert after == has(UNRELEASED, 6, {T: {0: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0, 1])], [(T, [1])]])
def test_stable_to_unrevoked(reported: Any) -> None:
    """It stays in its epoch, also without a report, and gets nothing new (a, R1.3)."""
    after = reconciled(has(STABLE, 5, {T: {0: 3, 1: 4}}), target_of(6, {T: (0, 2)}), reported)
    assert after == has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}}, previous=5)


def test_stable_to_stable_when_it_has_revoked_already() -> None:
    """By its report."""
    after = reconciled(has(STABLE, 5, {T: {0: 3, 1: 4}}), target_of(6, {T: (0, 2)}), [(T, [0])])
    assert after == has(STABLE, 6, {T: {0: 3, 2: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0, 1])]])
def test_unrevoked_stays_until_all_is_revoked(reported: Any) -> None:
    """No record is written, whatever the target is."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(7, {T: (0, 1, 2)}), reported) is now


def test_unrevoked_to_stable() -> None:
    """All is revoked: the new epoch, and the free partitions."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(6, {T: (0, 2)}), [(T, [0])]) == has(
        STABLE, 6, {T: {0: 3, 2: 6}}, previous=5
    )


def test_unrevoked_to_unrevoked_when_a_newer_target_revokes_more() -> None:
    """It must revoke these too before it moves to another epoch. Until then no member gets the first ones: a
    commit with its present epoch would be accepted.
    """
    now = has(UNREVOKED, 5, {T: {0: 3, 2: 3}}, {T: {1: 4}})
    after = reconciled(now, target_of(7, {T: (0,)}), [(T, [0, 2])])
    assert after == has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4, 2: 3}}, previous=5)


def test_unrevoked_to_stable_with_a_partition_assigned_again() -> None:
    """In the new epoch: earlier commits for it are refused."""
    now = has(UNREVOKED, 5, {T: {0: 3}}, {T: {1: 4}})
    assert reconciled(now, target_of(7, {T: (0, 1)}), [(T, [0])]) == has(
        STABLE, 7, {T: {0: 3, 1: 7}}, previous=5
    )


def test_unreleased_to_stable_when_the_rest_is_free() -> None:
    """In the same epoch."""
    after = reconciled(has(UNRELEASED, 6, {T: {0: 3}}), target_of(6, {T: (0, 1)}), None)
    assert after == has(STABLE, 6, {T: {0: 3, 1: 6}}, previous=6)


def test_unreleased_stays_unreleased_without_a_record() -> None:
    """Its previous epoch does not change: several responses may be lost."""
    now = has(UNRELEASED, 6, {T: {0: 3}}, previous=5)
    assert reconciled(now, target_of(6, {T: (0, 1)}, (T, 1)), None) is now


def test_unreleased_to_unrevoked_with_a_newer_target() -> None:
    """The partitions it waited for, and those it has, are assigned to others."""
    after = reconciled(has(UNRELEASED, 6, {T: {0: 3}}), target_of(7, {U: (0,)}), [(T, [0])])
    assert after == has(UNREVOKED, 6, {}, {T: {0: 3}}, previous=6)


def test_unsubscribed_partitions_of_the_target_are_not_assigned() -> None:
    """The target may be older than the subscription."""
    after = reconciled(has(STABLE, 5, {}), target_of(6, {T: (0,), U: (0,)}, subscribed={U}), None)
    assert after == has(STABLE, 6, {U: {0: 6}}, previous=5)


@pytest.mark.parametrize("reported", [None, [(T, [0]), (U, [0])], [(U, [0])]])
def test_unsubscribed_partitions_are_pending_until_a_new_target(reported: Any) -> None:
    """Also if the member has revoked them: no other member gets them before it is in a later epoch."""
    now = has(STABLE, 5, {T: {0: 3}, U: {0: 3}})
    where = target_of(5, {T: (0,), U: (0,)}, subscribed={U}, is_subscription_new=True)
    pending = has(UNREVOKED, 5, {U: {0: 3}}, {T: {0: 3}}, previous=5)
    assert reconciled(now, where, reported) == pending
    assert reconciled(pending, target_of(5, {U: (0,)}), [(U, [0])]) is pending
    after = has(STABLE, 6, {U: {0: 3}}, previous=5)
    assert reconciled(pending, target_of(6, {U: (0,)}), [(U, [0])]) == after


def test_unreleased_keeps_revoked_partitions_until_a_new_target() -> None:
    """They are pending, whatever it reports."""
    now = has(UNRELEASED, 5, {T: {0: 3}, U: {0: 3}})
    after = reconciled(
        now, target_of(5, {T: (0,), U: (0,)}, subscribed={U}, is_subscription_new=True), [(U, [0])]
    )
    assert after == has(UNREVOKED, 5, {U: {0: 3}}, {T: {0: 3}}, previous=5)


def test_an_unknown_state_is_reset_without_partitions() -> None:
    """A member that reports none is assigned the free ones in the target's epoch."""
    now = has(MemberState.UNKNOWN, 5, {T: {0: 3, 1: 3}}, {U: {0: 3}})
    assert reconciled(now, target_of(6, {T: (0,)}), [(T, [0])]) is None
    assert reconciled(now, target_of(6, {T: (0,)}), None) is None
    assert reconciled(now, target_of(6, {T: (0,)}), []) == has(STABLE, 6, {T: {0: 6}}, previous=6)


def test_unrevoked_has_more_to_revoke_after_a_smaller_subscription() -> None:
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
def test_owns_no_more(reported: Any, is_subset: bool) -> None:
    """With partitions pending revocation; without a report it may own any."""
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
def test_invariants_of_every_step(
    state: MemberState,
    assigned: Any,
    pending: Any,
    target: Any,
    taken: frozenset[tuple[TopicId, int]],
    subscribed: frozenset[TopicId],
    is_new: bool,
    reported: Any,
) -> None:
    """No partition is taken from another member, none is released without a later epoch, and epochs only
    rise.
    """
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
    assert mine <= owned or after.member_epoch == 6, "revocations come with a later epoch"
    if after.member_epoch == 6:
        assert not after.pending_revocation
        assert all(topic in subscribed for topic in after.assigned)
    if after.state is STABLE and after.member_epoch == 6:
        wanted = {(topic, one) for topic in subscribed for one in target.get(topic, ())}
        assert owned == wanted
