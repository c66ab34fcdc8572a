"""The server-side assignors beside Kafka's own classes, over lives of groups drawn from seeds."""

from __future__ import annotations

import random

import pytest
from bench.assigning import kafka_assign
from tests.compat.support.kafkas_tools import needs_kafkas_tools
from tests.core.assignors.specs import (
    Targets,
    check_every_partition_has_one_subscribed_owner,
    currently,
    load,
)

from headgate.core.assignors import ASSIGNORS
from headgate.core.assignors.contract import AssignablePartitions, GroupSpec, MemberSubscription
from headgate.domain.ids import InstanceId, MemberId, TopicId

pytestmark = needs_kafkas_tools

LIVES = 40
STEPS = 6


def _life(chance: random.Random, assignor: str, *, alike: bool) -> list[GroupSpec]:
    """A group whose members come, go and change their minds, and whose topics grow: before each step.

    After every step the members have what Headgate's assignor gave them.
    """
    counts = {TopicId(n.to_bytes(16, "big")): chance.randint(1, 12) for n in range(chance.randint(1, 5))}
    members: dict[MemberId, MemberSubscription] = {}
    specs: list[GroupSpec] = []
    for _step in range(STEPS):
        for _newcomer in range(chance.randint(0 if members else 1, 3)):
            member_id = MemberId(f"m{chance.randrange(10**6)}")
            instance_id = InstanceId(f"i{chance.randrange(10**6)}") if chance.random() < 0.3 else None
            members[member_id] = MemberSubscription(topics=frozenset(), instance_id=instance_id)
        if len(members) > 1 and chance.random() < 0.5:
            del members[chance.choice(sorted(members))]
        grown = chance.choice(sorted(counts))
        counts = {**counts, grown: counts[grown] + chance.randint(0, 3)}
        same = frozenset(counts)
        members = {
            member_id: MemberSubscription(
                topics=same if alike else _some(chance, sorted(counts), one.topics),
                instance_id=one.instance_id,
                current=one.current,
            )
            for member_id, one in members.items()
        }
        assignable = {topic: AssignablePartitions(count) for topic, count in counts.items()}
        specs.append(GroupSpec(members=members, assignable=assignable))
        targets = ASSIGNORS[assignor](specs[-1])
        members = {
            member_id: MemberSubscription(
                topics=one.topics, instance_id=one.instance_id, current=targets[member_id]
            )
            for member_id, one in members.items()
        }
    return specs


def _some(chance: random.Random, topics: list[TopicId], before: frozenset[TopicId]) -> frozenset[TopicId]:
    """A subscription: the one before, mostly, if there was one."""
    if before and chance.random() < 0.8:
        return before
    return frozenset(chance.sample(topics, chance.randint(1, len(topics))))


def _lives(assignor: str, *, alike: bool) -> list[GroupSpec]:
    return [spec for seed in range(LIVES) for spec in _life(random.Random(seed), assignor, alike=alike)]


def _kept(spec: GroupSpec, targets: Targets) -> int:
    """How many partitions stay where they are."""
    return sum(
        len(set(partitions).intersection(targets[member_id].get(topic, ())))
        for member_id, current in currently(spec).items()
        for topic, partitions in current.items()
    )


@pytest.mark.parametrize("alike", [True, False])
def test_ranges_are_kafkas_ranges(alike: bool) -> None:
    """The same members get the same partitions of the same topics, static members first."""
    specs = _lives("range", alike=alike)
    for spec, theirs in zip(specs, kafka_assign(specs, "range"), strict=True):
        assert ASSIGNORS["range"](spec) == theirs.targets


def test_among_members_alike_no_more_partitions_move_than_in_kafka() -> None:
    """Loads are the same as Kafka's, and at least as many partitions stay with their owners."""
    specs = _lives("uniform", alike=True)
    for spec, theirs in zip(specs, kafka_assign(specs, "uniform"), strict=True):
        ours = ASSIGNORS["uniform"](spec)
        assert sorted(map(load, ours.values())) == sorted(map(load, theirs.targets.values()))
        assert _kept(spec, ours) >= _kept(spec, theirs.targets)


def test_loads_are_as_even_as_kafkas_or_more_so() -> None:
    """With subscriptions that differ, no member need carry more than Kafka's heaviest, and so on down."""
    specs = _lives("uniform", alike=False)
    for spec, theirs in zip(specs, kafka_assign(specs, "uniform"), strict=True):
        ours = ASSIGNORS["uniform"](spec)
        check_every_partition_has_one_subscribed_owner(spec, theirs.targets)
        heaviest_first = [
            sorted(map(load, targets.values()), reverse=True) for targets in (ours, theirs.targets)
        ]
        assert heaviest_first[0] <= heaviest_first[1]
