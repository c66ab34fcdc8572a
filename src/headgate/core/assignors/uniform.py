"""The `uniform` assignor: members get equal numbers of partitions, and keep what they have if possible.

Members with the same subscription are a *class*: within it any partition may go to any member. So the work
has two parts, and a group in which all members subscribe to the same topics needs only the second:

1. How many partitions of each topic each class gets (`class_shares.py`): the loads of the members become as
   equal as the subscriptions allow. No move of a single partition, and no chain of moves over several
   members, can make them more equal.
2. Which member of the class gets which partitions (`_Class.hand_out`): loads differ by at most one, and as
   few partitions move as that requires, because the members with one more are chosen among those that have it
   already.

Balance has precedence over stickiness. If the present targets of several members contain the same partition,
the member with the smallest id keeps it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.assignors.class_shares import Shares, balanced_shares
from headgate.core.assignors.contract import AssignablePartitions, Assignment, GroupSpec, Partitions
from headgate.domain.ids import MemberId, TopicId

_Pool = list[tuple[TopicId, Partitions]]
"""Partitions without an owner, by topic."""


def assign_uniformly(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Return the target assignment of every member. A member without changes gets its `current` object
    back.
    """
    classes = _classes(spec)
    free = _take_stock(classes, spec.assignable)
    if len(classes) == 1:
        classes[0].incoming = [(topic, free[topic]) for topic in sorted(free)]
    else:
        _share_out(classes, free)
    targets: dict[MemberId, Assignment] = {}
    for one in classes:
        one.hand_out(targets)
    return targets


@dataclass(slots=True)
class _Class:
    """The members with one subscription."""

    topics: frozenset[TopicId]
    """The existing ones of its topics."""
    members: list[MemberId] = field(default_factory=list)
    """Ascending."""
    held: list[Assignment] = field(default_factory=list)
    """Present assignment of each member, then the part it keeps; assignments are replaced, never changed."""
    sizes: list[int] = field(default_factory=list)
    """Number of partitions of each member."""
    incoming: _Pool = field(default_factory=list)
    """Partitions that the class gets besides."""

    def counts(self) -> dict[TopicId, int]:
        """Return the number of partitions of each topic that the members have together."""
        counts: dict[TopicId, int] = {}
        for held in self.held:
            for topic, partitions in held.items():
                counts[topic] = counts.get(topic, 0) + len(partitions)
        return counts

    def give_up(self, topic: TopicId, count: int) -> list[int]:
        """Remove and return `count` partitions of a topic from the members with the most partitions."""
        holders = [(-self.sizes[n], n) for n, held in enumerate(self.held) if topic in held]
        heapq.heapify(holders)
        taken: dict[int, int] = {}
        for _ in range(count):
            _size, n = holders[0]
            taken[n] = taken.get(n, 0) + 1
            self.sizes[n] -= 1
            if taken[n] < len(self.held[n][topic]):
                heapq.heapreplace(holders, (-self.sizes[n], n))
            else:
                heapq.heappop(holders)
        given: list[int] = []
        for n, number in taken.items():
            held = dict(self.held[n])
            partitions = held.pop(topic)
            if kept := partitions[:-number]:
                held[topic] = kept
            self.held[n] = held
            given += partitions[-number:]
        return given

    def hand_out(self, targets: dict[MemberId, Assignment]) -> None:
        """Compute each member's target: what it has, without a surplus, and its part of the incoming
        partitions.
        """
        pool = self.incoming
        total = sum(self.sizes) + sum(len(partitions) for _topic, partitions in pool)
        quota, larger = divmod(total, len(self.members))
        unfilled = []
        for n, size in enumerate(self.sizes):
            if size <= quota:
                unfilled.append(n)
                continue
            # Members with more than the quota keep one more, as long as larger shares are left.
            right = quota
            if larger:
                right += 1
                larger -= 1
            if size > right:
                self.held[n], surplus = _split(self.held[n], right)
                pool += surplus
        cursor = _Cursor(pool)
        for n in unfilled:
            wanted = quota - self.sizes[n]
            if larger:
                wanted += 1
                larger -= 1
            if wanted:
                self.held[n] = cursor.add_to(self.held[n], wanted)
        targets.update(zip(self.members, self.held, strict=True))


def _classes(spec: GroupSpec) -> list[_Class]:
    """Return the members by subscription, with what they have, in an order that depends only on their ids."""
    classes: dict[frozenset[TopicId], _Class] = {}
    by_subscription: dict[frozenset[TopicId], _Class] = {}
    for member_id in sorted(spec.members):
        member = spec.members[member_id]
        one = by_subscription.get(member.topics)
        if one is None:
            topics = frozenset(topic for topic in member.topics if topic in spec.assignable)
            one = by_subscription[member.topics] = classes.setdefault(topics, _Class(topics))
        one.members.append(member_id)
        one.held.append(member.current)
    return list(classes.values())


_Free = dict[TopicId, Partitions]
"""Unowned partitions, ascending, of each topic with any."""


_Topics = Mapping[TopicId, AssignablePartitions]


def _take_stock(classes: list[_Class], assignable: _Topics) -> _Free:
    """Remove from the members what they may not keep, and count the rest; return the unowned partitions."""
    subscribed = frozenset[TopicId]().union(*(one.topics for one in classes))
    wanted = {topic: assignable[topic] for topic in subscribed}
    owned: dict[TopicId, list[int]] = {topic: [] for topic in subscribed}
    sound = True
    for one in classes:
        topics = one.topics
        for held in one.held:
            size = 0
            for topic, partitions in held.items():
                if topic in topics:
                    owned[topic] += partitions
                    size += len(partitions)
                else:
                    sound = False
            one.sizes.append(size)
    free = _ownerless(owned, wanted)
    # Nearly always the members may keep all they have, and need not be checked one by one.
    count = sum(map(len, wanted.values()))
    if sound and sum(map(len, free.values())) == count - sum(map(len, owned.values())):
        return free
    return _ownerless(_claim(classes, wanted), wanted)


def _ownerless(owned: Mapping[TopicId, list[int]], topics: _Topics) -> _Free:
    """Return the assignable partitions of each topic that are not in `owned`."""
    every = {partitions.count: list(range(partitions.count)) for partitions in topics.values()}
    free = {}
    for topic, partitions in topics.items():
        whole = list(partitions) if partitions.withheld else every[partitions.count]
        # Most topics have owners for all partitions; sorting, which is fast for sorted runs, is the fastest
        # check.
        if sorted(owned[topic]) != whole:
            taken = set(owned[topic])
            if left := tuple([p for p in whole if p not in taken] if taken else whole):
                free[topic] = left
    return free


def _claim(classes: list[_Class], topics: _Topics) -> dict[TopicId, list[int]]:
    """Remove from each member partitions that may not be assigned, are not subscribed to, or have an owner
    already.
    """
    # Withheld partitions count as owned, by no member.
    owned: dict[TopicId, set[int]] = {topic: set(partitions.withheld) for topic, partitions in topics.items()}
    places = sorted((member_id, one, n) for one in classes for n, member_id in enumerate(one.members))
    for _member_id, one, n in places:
        held: dict[TopicId, Partitions] = {}
        for topic, partitions in one.held[n].items():
            if topic in one.topics:
                taken, count = owned[topic], topics[topic].count
                left = set(partitions) - taken
                kept = tuple(sorted(p for p in left if p < count))
                taken.update(kept)
                if kept:
                    held[topic] = kept
        if held != one.held[n]:
            one.held[n] = held
        one.sizes[n] = sum(map(len, held.values()))
    return {topic: sorted(taken) for topic, taken in owned.items()}


def _share_out(classes: list[_Class], free: _Free) -> None:
    """Decide which partitions leave each class and which it gets."""
    counts = [one.counts() for one in classes]
    shares = balanced_shares(
        [
            Shares(members=len(one.members), topics=one.topics, counts=dict(before))
            for one, before in zip(classes, counts, strict=True)
        ],
        {topic: len(partitions) for topic, partitions in free.items()},
    )
    for one, before, after in zip(classes, counts, shares, strict=True):
        for topic in sorted(before):
            if (surplus := before[topic] - after.get(topic, 0)) > 0:
                free[topic] = (*free.get(topic, ()), *one.give_up(topic, surplus))
    cursors = {topic: iter(sorted(partitions)) for topic, partitions in free.items()}
    for one, before, after in zip(classes, counts, shares, strict=True):
        for topic in sorted(after):
            if (wanted := after[topic] - before.get(topic, 0)) > 0:
                one.incoming.append((topic, tuple(itertools.islice(cursors[topic], wanted))))


class _Cursor:
    """Takes partitions from a pool, in order."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._entry = 0
        self._at = 0

    def add_to(self, held: Assignment, count: int) -> Assignment:
        """Return an assignment with the next `count` partitions, which must exist, added to `held`."""
        joined = dict(held)
        while count:
            topic, partitions = self._pool[self._entry]
            part = partitions[self._at : self._at + count]
            before = joined.get(topic)
            joined[topic] = tuple(sorted(before + part)) if before else part
            count -= len(part)
            self._at += len(part)
            if self._at == len(partitions):
                self._entry += 1
                self._at = 0
        return joined


def _split(held: Assignment, right: int) -> tuple[Assignment, _Pool]:
    """Return the first `right` partitions of an assignment, and the others."""
    kept: dict[TopicId, Partitions] = {}
    surplus: _Pool = []
    for topic in sorted(held):
        partitions = held[topic]
        if right:
            kept[topic] = partitions[:right]
        if len(partitions) > right:
            surplus.append((topic, partitions[right:]))
        right -= min(right, len(partitions))
    return kept, surplus
