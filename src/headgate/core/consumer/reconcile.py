"""Reconcile a member: one step towards its target assignment, as pure functions.

A member's partitions are `assigned` or `pending_revocation`; together they are those it owns, and no other
member gets one of them. With the target T, restricted to the topics the member subscribes to:

    kept    = assigned ∩ T
    revoked = assigned − kept
    free    = (T − kept) without partitions of other owners
    awaited = T − kept − free

and then the first of these that applies:

    a. revoked is not empty, and the member has not reported that it revoked all of it, or the target is
       of its own epoch: it stays in its epoch with `kept`; `revoked` is added to its partitions pending
       revocation: UNREVOKED_PARTITIONS;
    b. free is not empty: it moves to the target's epoch with kept ∪ free; UNRELEASED_PARTITIONS if
       awaited is not empty, else STABLE;
    c. awaited is not empty: it moves to the target's epoch with `kept`: UNRELEASED_PARTITIONS;
    d. otherwise it moves to the target's epoch with `kept`: STABLE.

The assignment epoch of a partition is the epoch of the target assignment with which the member got it; it
does not change while the member owns the partition (R1.3, KIP-1251).

A member that revokes a partition always moves to a later epoch with that: otherwise commits in flight with
its present epoch would be accepted after the partition's next owner has begun. Kafka lets members continue
in their epoch that reduce their subscription before the new target assignment, or from which a newer target
assignment revokes more than the last one; here they wait with the revoked partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from headgate.core.consumer.commands import Reported
from headgate.core.consumer.member_state import TRANSITIONS
from headgate.domain.ids import MemberId, TopicId
from headgate.records import ConsumerGroupCurrentAssignment, MemberState
from headgate.records.consumer_model import OwnedPartitions, TargetPartitions

Owned = dict[TopicId, dict[int, int]]


@dataclass(slots=True, frozen=True)
class TargetAssignment:
    """The target assignment of a member and the partitions that block it."""

    assignment_epoch: int
    partitions: TargetPartitions
    subscribed: Set[TopicId]
    """The topics that the member subscribes to."""
    is_subscription_new: bool
    """Whether its subscription changed in this heartbeat: it must not keep partitions of other topics,
    whatever the target is.

    It is not derived from the assigned topics: a topic that was deleted, or that an expression no longer
    matches, would then be revoked before the next target assignment. Kafka 4.3 revokes it with that target.
    """
    owner_of: Callable[[TopicId, int], MemberId | None]
    """Returns the owner of a partition; None for the member itself, also under a former id."""


def reconciled(
    current: ConsumerGroupCurrentAssignment, target: TargetAssignment, reported: Reported | None
) -> ConsumerGroupCurrentAssignment | None:
    """Return the member's next current assignment, or `current`; `reported` is None if it reports no
    partitions.

    None: its state was written by another version, and it must rejoin without partitions.
    """
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch != target.assignment_epoch:
                return _next(current, target, reported)
            return _without_unsubscribed(current, target)
        case MemberState.UNREVOKED_PARTITIONS:
            if current.member_epoch == target.assignment_epoch or _has_any(
                reported, current.pending_revocation
            ):
                return _without_unsubscribed(current, target)
            return _next(current, target, reported)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, target, reported)
        case MemberState.UNKNOWN:
            if reported is None or reported:
                return None
            anew = replace(current, member_epoch=target.assignment_epoch, assigned={}, pending_revocation={})
            return _next(anew, target, reported)


def _next(
    current: ConsumerGroupCurrentAssignment, target: TargetAssignment, reported: Reported | None
) -> ConsumerGroupCurrentAssignment:
    kept: Owned = {}
    revoked: Owned = {}
    free: Owned = {}
    is_any_awaited = False
    for topic_id in {**current.assigned, **target.partitions}:
        wanted = (
            frozenset(target.partitions.get(topic_id, ())) if topic_id in target.subscribed else frozenset()
        )
        assigned = current.assigned.get(topic_id, {})
        for partition, epoch in assigned.items():
            place = kept if partition in wanted else revoked
            place.setdefault(topic_id, {})[partition] = epoch
        for partition in wanted.difference(assigned):
            if target.owner_of(topic_id, partition) is None:
                free.setdefault(topic_id, {})[partition] = target.assignment_epoch
            else:
                is_any_awaited = True
    if revoked and (current.member_epoch == target.assignment_epoch or _has_any(reported, revoked)):
        pending = union(current.pending_revocation, revoked)
        return _moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    state = MemberState.UNRELEASED_PARTITIONS if is_any_awaited else MemberState.STABLE
    return _moved(current, target.assignment_epoch, state, union(kept, free), {})


def _without_unsubscribed(
    current: ConsumerGroupCurrentAssignment, target: TargetAssignment
) -> ConsumerGroupCurrentAssignment:
    """Revoke partitions of topics that the member is no longer subscribed to, before the target is
    computed.
    """
    if not target.is_subscription_new or current.assigned.keys() <= target.subscribed:
        return current
    kept = {topic: epochs for topic, epochs in current.assigned.items() if topic in target.subscribed}
    gone = {topic: epochs for topic, epochs in current.assigned.items() if topic not in target.subscribed}
    revoked = union(current.pending_revocation, gone)
    return _moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)


def _moved(
    current: ConsumerGroupCurrentAssignment,
    member_epoch: int,
    state: MemberState,
    assigned: OwnedPartitions,
    pending_revocation: OwnedPartitions,
) -> ConsumerGroupCurrentAssignment:
    is_unchanged = (
        member_epoch == current.member_epoch
        and state is current.state
        and assigned == current.assigned
        and pending_revocation == current.pending_revocation
    )
    if is_unchanged:  # a member may repeat its request after lost responses
        return current
    assert state is current.state or state in TRANSITIONS[current.state]
    return ConsumerGroupCurrentAssignment(
        group_id=current.group_id,
        member_id=current.member_id,
        member_epoch=member_epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def union(one: OwnedPartitions, other: OwnedPartitions) -> Owned:
    """Return the partitions of both."""
    return {topic_id: {**one.get(topic_id, {}), **other.get(topic_id, {})} for topic_id in {**one, **other}}


def _has_any(reported: Reported | None, partitions: Mapping[TopicId, Mapping[int, int]]) -> bool:
    """Return whether the member may still have one of the partitions: it reports it, or reports none at
    all.
    """
    if reported is None:
        return True
    return any(
        not partitions[topic_id].keys().isdisjoint(indexes)
        for topic_id, indexes in reported
        if topic_id in partitions
    )


def owns_no_more(reported: Reported | None, current: ConsumerGroupCurrentAssignment) -> bool:
    """Return whether the member reports only partitions that it owns; False if it reports none at all."""
    assigned, pending = current.assigned, current.pending_revocation
    return reported is not None and all(
        assigned.get(topic_id, {}).keys() | pending.get(topic_id, {}).keys() >= set(indexes)
        for topic_id, indexes in reported
    )
