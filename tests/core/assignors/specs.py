"""Groups for the tests of the assignors, written by hand or generated, and checks of any assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hypothesis import settings
from hypothesis import strategies as st

from headgate.core.assignors.contract import (
    AssignablePartitions,
    Assignment,
    GroupSpec,
    MemberSubscription,
)
from headgate.domain.ids import InstanceId, MemberId, TopicId

few = settings(max_examples=60, deadline=None)

Targets = Mapping[MemberId, Assignment]


def topic(name: str) -> TopicId:
    """A topic id that reads like a name."""
    return TopicId(name.encode().ljust(16, b"."))


def member(
    topics: Iterable[str], current: Mapping[str, Iterable[int]] | None = None, instance_id: str | None = None
) -> MemberSubscription:
    """A member that subscribes to topics and has partitions of some."""
    return MemberSubscription(
        topics=frozenset(topic(name) for name in topics),
        instance_id=None if instance_id is None else InstanceId(instance_id),
        current={topic(name): tuple(partitions) for name, partitions in (current or {}).items()},
    )


def group(
    counts: Mapping[str, int],
    withheld: Mapping[str, Iterable[int]] | None = None,
    /,
    **members: MemberSubscription,
) -> GroupSpec:
    """A group over topics with these numbers of partitions, some of which may not be assigned."""
    return GroupSpec(
        members={MemberId(name): subscription for name, subscription in members.items()},
        assignable={
            topic(name): AssignablePartitions(count, frozenset((withheld or {}).get(name, ())))
            for name, count in counts.items()
        },
    )


def readable(targets: Targets) -> dict[str, dict[str, list[int]]]:
    """Targets with the topics by name."""
    return {
        member_id: {one.decode().rstrip("."): list(partitions) for one, partitions in target.items()}
        for member_id, target in targets.items()
    }


def load(target: Assignment) -> int:
    """How many partitions a target has."""
    return sum(len(partitions) for partitions in target.values())


def owned(targets: Targets) -> dict[tuple[TopicId, int], MemberId]:
    """Who owns each partition."""
    return {
        (one, partition): member_id
        for member_id, target in targets.items()
        for one, partitions in target.items()
        for partition in partitions
    }


def currently(spec: GroupSpec) -> Targets:
    """The targets that the members have now."""
    return {member_id: subscription.current for member_id, subscription in spec.members.items()}


def after(spec: GroupSpec, targets: Targets) -> GroupSpec:
    """The group when its members have these targets."""
    return GroupSpec(
        members={
            member_id: MemberSubscription(
                topics=subscription.topics,
                instance_id=subscription.instance_id,
                current=targets.get(member_id, {}),
            )
            for member_id, subscription in spec.members.items()
        },
        assignable=spec.assignable,
    )


def is_satisfied_by(assign: Callable[[GroupSpec], Targets], spec: GroupSpec) -> bool:
    """Whether an assignor that is asked again leaves every member its target, the same object."""
    settled = after(spec, assign(spec))
    again = assign(settled)
    return all(again[member_id] is one.current for member_id, one in settled.members.items())


def check_every_partition_has_one_subscribed_owner(spec: GroupSpec, targets: Targets) -> None:
    """What holds of any assignor's answer."""
    assert targets.keys() == spec.members.keys()
    subscribed = {one for subscription in spec.members.values() for one in subscription.topics}
    wanted = {
        (one, partition)
        for one, partitions in spec.assignable.items()
        if one in subscribed
        for partition in partitions
    }
    owners = owned(targets)
    assert owners.keys() == wanted
    assert sum(map(load, targets.values())) == len(wanted), "a partition has two owners"
    assert all(one in spec.members[member_id].topics for (one, _partition), member_id in owners.items())
    for target in targets.values():
        for partitions in target.values():
            assert partitions, "a topic without partitions is named"
            assert list(partitions) == sorted(set(partitions))


TOPICS = [f"t{n}" for n in range(4)]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, most_partitions: int = 7) -> GroupSpec:
    """A group of up to six members; with `alike` they all subscribe to the same topics.

    Some partitions may not be assigned. What the members have now may be anything that the contract allows:
    topics that are gone or not subscribed to, partitions that are gone, the same one at two members.
    """
    names = draw(st.lists(st.sampled_from([f"m{n}" for n in range(9)]), unique=True, min_size=1, max_size=6))
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, most_partitions), min_size=1))
    subscriptions = st.frozensets(st.sampled_from(TOPICS))
    same = draw(subscriptions)
    withheld = {
        name: draw(st.sets(st.integers(0, count - 1)))
        for name, count in counts.items()
        if draw(st.booleans())
    }
    currents = st.dictionaries(
        st.sampled_from(TOPICS), st.frozensets(st.integers(0, most_partitions), min_size=1).map(sorted)
    )
    instances = draw(st.lists(st.sampled_from("abcdefghi"), unique=True, min_size=6, max_size=6))
    members = {
        name: member(
            same if alike else draw(subscriptions),
            draw(currents),
            instances[n] if draw(st.booleans()) else None,
        )
        for n, name in enumerate(names)
    }
    return group(counts, withheld, **members)
