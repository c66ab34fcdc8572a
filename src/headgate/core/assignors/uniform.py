"""The `uniform` assignor: members own equally much, and keep what they own as far as that allows.

Members with the same subscription are a *class*: inside it any partition may go to anyone. So the work falls
into two parts, and a group whose members all subscribe to the same topics needs only the second:

1. How many partitions of each topic each class has (`class_shares.py`): the loads of the members come out as
   equal as the subscriptions allow. No single partition can be moved to make them more equal, and no chain of
   moves over several members can.
2. Who in the class has which (`_Class.hand_out`): loads differ by at most one, and as few partitions move as
   that takes, because the members that must have one more are chosen among those that have it already.

Balance comes before stickiness. Of the members whose targets name the same partition, the one whose id comes
first keeps it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.assignors.class_shares import Shares, balanced_shares
from headgate.core.assignors.contract import Assignment, GroupSpec, Partitions
from headgate.domain.ids import MemberId, TopicId

_Pool = list[tuple[TopicId, list[int]]]
"""Partitions that wait for an owner, topic by topic."""


def assign_uniformly(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Every member's target. A member whose target stays gets its `current` back, the same object."""
    classes = _classes(spec)
    free = _take_stock(spec, classes)
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
    """Those of them that exist."""
    members: list[MemberId] = field(default_factory=list)
    """Ascending."""
    held: list[Assignment] = field(default_factory=list)
    """What each member may keep; replaced, never changed, where it becomes less."""
    sizes: list[int] = field(default_factory=list)
    """How many partitions that is."""
    incoming: _Pool = field(default_factory=list)
    """What the class has to take on besides."""

    def counts(self) -> dict[TopicId, int]:
        """How many partitions of each topic the members hold together."""
        counts: dict[TopicId, int] = {}
        for held in self.held:
            for topic, partitions in held.items():
                counts[topic] = counts.get(topic, 0) + len(partitions)
        return counts

    def give_up(self, topic: TopicId, count: int) -> list[int]:
        """Takes `count` partitions of a topic from those who hold the most altogether."""
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
        """Gives each member its target: what it holds, less what is too much, and its part of the rest."""
        pool = self.incoming
        total = sum(self.sizes) + sum(len(partitions) for _topic, partitions in pool)
        quota, larger = divmod(total, len(self.members))
        # Whoever has more than the quota already keeps one more, as long as there are larger shares.
        rights = [quota] * len(self.members)
        for n, size in enumerate(self.sizes):
            if size > quota and larger:
                rights[n] += 1
                larger -= 1
        unfilled: list[tuple[int, int]] = []
        for n, size in enumerate(self.sizes):
            if size > rights[n]:
                self.held[n], surplus = _split(self.held[n], rights[n])
                pool += surplus
            elif size <= quota:
                wanted = quota - size + bool(larger)
                larger -= bool(larger)
                if wanted:
                    unfilled.append((n, wanted))
        cursor = _Cursor(pool)
        for n, wanted in unfilled:
            self.held[n] = _joined(self.held[n], cursor.take(wanted))
        targets.update(zip(self.members, self.held, strict=True))


def _classes(spec: GroupSpec) -> list[_Class]:
    """The members by subscription, in an order that depends on nothing but their ids."""
    classes: dict[frozenset[TopicId], _Class] = {}
    existing: dict[frozenset[TopicId], frozenset[TopicId]] = {}
    for member_id in sorted(spec.members):
        named = frozenset(spec.members[member_id].topics)
        topics = existing.get(named)
        if topics is None:
            topics = existing[named] = frozenset(t for t in named if t in spec.partition_counts)
        classes.setdefault(topics, _Class(topics)).members.append(member_id)
    return list(classes.values())


def _take_stock(spec: GroupSpec, classes: Iterable[_Class]) -> dict[TopicId, list[int]]:
    """Fills in what the members of each class may keep; returns what nobody keeps, by topic."""
    subscribed = frozenset[TopicId]().union(*(one.topics for one in classes))
    owned = {topic: bytearray(spec.partition_counts[topic]) for topic in subscribed}
    class_of = {member_id: one for one in classes for member_id in one.members}
    for member_id in sorted(spec.members):
        one = class_of[member_id]
        current = spec.members[member_id].current
        held, size = _claim(current, one.topics, owned)
        one.held.append(held)
        one.sizes.append(size)
    return {
        topic: [partition for partition, taken in enumerate(marks) if not taken]
        for topic, marks in owned.items()
        if 0 in marks
    }


def _claim(
    current: Assignment, topics: frozenset[TopicId], owned: dict[TopicId, bytearray]
) -> tuple[Assignment, int]:
    """What of `current` exists, is subscribed to and belongs to nobody yet; marks it, and counts it."""
    held: dict[TopicId, Partitions] = {}
    size = 0
    whole = True
    for topic, partitions in current.items():
        if topic not in topics:
            whole = False
            continue
        marks = owned[topic]
        kept = [p for p in partitions if p < len(marks) and not marks[p]]
        for partition in kept:
            marks[partition] = 1
        if len(kept) != len(partitions):
            whole = False
            partitions = tuple(kept)
        if kept:
            held[topic] = partitions
            size += len(kept)
    if whole:
        return current, size
    return held, size


def _share_out(classes: list[_Class], free: dict[TopicId, list[int]]) -> None:
    """Decides what leaves each class and what comes to it."""
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
                free.setdefault(topic, []).extend(one.give_up(topic, surplus))
    cursors = {topic: iter(sorted(partitions)) for topic, partitions in free.items()}
    for one, before, after in zip(classes, counts, shares, strict=True):
        for topic in sorted(after):
            if (wanted := after[topic] - before.get(topic, 0)) > 0:
                one.incoming.append((topic, [next(cursors[topic]) for _ in range(wanted)]))


class _Cursor:
    """Takes partitions out of a pool, in order."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._entry = 0
        self._at = 0

    def take(self, count: int) -> _Pool:
        """The next `count` partitions; there are as many."""
        taken: _Pool = []
        while count:
            topic, partitions = self._pool[self._entry]
            part = partitions[self._at : self._at + count]
            taken.append((topic, part))
            count -= len(part)
            self._at += len(part)
            if self._at == len(partitions):
                self._entry += 1
                self._at = 0
        return taken


def _split(held: Assignment, right: int) -> tuple[Assignment, _Pool]:
    """The first `right` partitions of an assignment, and the others."""
    kept: dict[TopicId, Partitions] = {}
    surplus: _Pool = []
    for topic in sorted(held):
        partitions = held[topic]
        if right:
            kept[topic] = partitions[:right]
        if len(partitions) > right:
            surplus.append((topic, list(partitions[right:])))
        right -= min(right, len(partitions))
    return kept, surplus


def _joined(held: Assignment, more: _Pool) -> Assignment:
    """An assignment with more partitions."""
    joined = dict(held)
    for topic, partitions in more:
        joined[topic] = tuple(sorted((*joined.get(topic, ()), *partitions)))
    return joined
