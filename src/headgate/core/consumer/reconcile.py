"""One step of a member towards its target: pure functions of what it has and what it is to have.

A member's partitions are `assigned` or `pending_revocation`; together they are what it owns, and nobody else
is given one of them. With the target T, restricted to the topics the member reads:

    kept    = assigned ∩ T
    revoked = assigned − kept
    free    = (T − kept) without what another member owns
    awaited = T − kept − free

and then the first of these that applies:

    a. revoked is not empty, and the member has not said that it let all of it go or the target is of its own
       epoch: it stays in its epoch with `kept`, and `revoked` is pending, besides what it let go in it
       already: UNREVOKED_PARTITIONS;
    b. free is not empty: it comes into the target's epoch with kept ∪ free; UNRELEASED_PARTITIONS if
       something is awaited, else STABLE;
    c. something is awaited: it comes into the target's epoch with `kept`: UNRELEASED_PARTITIONS;
    d. otherwise it comes into the target's epoch with `kept`: STABLE.

A partition's assignment epoch is the target's epoch at which the member was given it, and goes with it as
long as the member owns it (R1.3, KIP-1251).

Who lets a partition go comes into a later epoch with it, without exception: otherwise commits that are still
under way in the present one would be believed after the partition's next owner has begun. Kafka lets members
go on in their epoch that read fewer topics while the target is still to be made, or that a newer target takes
more from than the one before; here what they let go waits with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from headgate.core.consumer.commands import Reported
from headgate.domain.ids import MemberId, TopicId
from headgate.records import ConsumerGroupCurrentAssignment, MemberState
from headgate.records.consumer_model import OwnedPartitions, TargetPartitions

Owned = dict[TopicId, dict[int, int]]


@dataclass(slots=True, frozen=True)
class Aim:
    """Where a member is to get, and what stands in the way."""

    assignment_epoch: int
    target: TargetPartitions
    subscribed: Set[TopicId]
    """The topics the member reads."""
    is_subscription_new: bool
    """Whether it read others until now: it must not keep partitions of those, whatever the target says."""
    owner_of: Callable[[TopicId, int], MemberId | None]
    """Who owns a partition now; the member itself, also under an id it had before, counts as nobody."""


def reconciled(
    current: ConsumerGroupCurrentAssignment, aim: Aim, reported: Reported | None
) -> ConsumerGroupCurrentAssignment | None:
    """What the member has after this step, or as it is; `reported` is what it says it has, if it does.

    None: its state was written by another version and it must begin anew, without partitions.
    """
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch != aim.assignment_epoch:
                return _next(current, aim, reported)
            return _without_unsubscribed(current, aim)
        case MemberState.UNREVOKED_PARTITIONS:
            if current.member_epoch == aim.assignment_epoch or _has_any(reported, current.pending_revocation):
                return _without_unsubscribed(current, aim)
            return _next(current, aim, reported)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, aim, reported)
        case MemberState.UNKNOWN:
            if reported is None or reported:
                return None
            anew = replace(current, member_epoch=aim.assignment_epoch, assigned={}, pending_revocation={})
            return _next(anew, aim, reported)


def _next(
    current: ConsumerGroupCurrentAssignment, aim: Aim, reported: Reported | None
) -> ConsumerGroupCurrentAssignment:
    kept: Owned = {}
    revoked: Owned = {}
    free: Owned = {}
    is_any_awaited = False
    for topic_id in {**current.assigned, **aim.target}:
        target = frozenset(aim.target.get(topic_id, ())) if topic_id in aim.subscribed else frozenset()
        assigned = current.assigned.get(topic_id, {})
        for partition, epoch in assigned.items():
            place = kept if partition in target else revoked
            place.setdefault(topic_id, {})[partition] = epoch
        for partition in target.difference(assigned):
            if aim.owner_of(topic_id, partition) is None:
                free.setdefault(topic_id, {})[partition] = aim.assignment_epoch
            else:
                is_any_awaited = True
    if revoked and (current.member_epoch == aim.assignment_epoch or _has_any(reported, revoked)):
        pending = union(current.pending_revocation, revoked)
        return _moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    state = MemberState.UNRELEASED_PARTITIONS if is_any_awaited else MemberState.STABLE
    return _moved(current, aim.assignment_epoch, state, union(kept, free), {})


def _without_unsubscribed(
    current: ConsumerGroupCurrentAssignment, aim: Aim
) -> ConsumerGroupCurrentAssignment:
    """Take away what the member does not read any more, though its target is not made yet."""
    if not aim.is_subscription_new or current.assigned.keys() <= aim.subscribed:
        return current
    kept = {topic: epochs for topic, epochs in current.assigned.items() if topic in aim.subscribed}
    gone = {topic: epochs for topic, epochs in current.assigned.items() if topic not in aim.subscribed}
    revoked = union(current.pending_revocation, gone)
    return _moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)


def _moved(
    current: ConsumerGroupCurrentAssignment,
    member_epoch: int,
    state: MemberState,
    assigned: OwnedPartitions,
    pending_revocation: OwnedPartitions,
) -> ConsumerGroupCurrentAssignment:
    moved = replace(
        current,
        member_epoch=member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )
    if moved == current:  # it waits on: an answer that was lost may be asked for as often as need be
        return current
    return replace(moved, previous_member_epoch=current.member_epoch)


def union(one: OwnedPartitions, other: OwnedPartitions) -> Owned:
    """The partitions of both."""
    return {topic_id: {**one.get(topic_id, {}), **other.get(topic_id, {})} for topic_id in {**one, **other}}


def _has_any(reported: Reported | None, partitions: Mapping[TopicId, Mapping[int, int]]) -> bool:
    """Whether the member has one of the partitions, or may have it because it does not say."""
    if reported is None:
        return True
    return any(
        not partitions[topic_id].keys().isdisjoint(indexes)
        for topic_id, indexes in reported
        if topic_id in partitions
    )


def owns_no_more(reported: Reported | None, current: ConsumerGroupCurrentAssignment) -> bool:
    """Whether all partitions that the member says it has are its own; not if it does not say."""
    assigned, pending = current.assigned, current.pending_revocation
    return reported is not None and all(
        assigned.get(topic_id, {}).keys() | pending.get(topic_id, {}).keys() >= set(indexes)
        for topic_id, indexes in reported
    )
