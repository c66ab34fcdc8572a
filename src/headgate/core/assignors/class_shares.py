"""Compute how many partitions of each topic go to each class of members with the same subscription.

Within a class the partitions are spread evenly, so only its *load* matters: its partitions divided by its
members, rounded up for its heaviest member, down for its lightest. Shares are balanced when no partition can
move from one class to another, directly or along a chain of classes, such that a member with at least two
more than another loses one to it. Then no assignment is more even: the largest load is minimal, and so is the
number of members with it, and so on for smaller loads.

The algorithm: start at the classes with the heaviest members, and search along possible moves (from a class
with a partition of a topic to another that subscribes to it) for the classes with the lightest members. If
such a class has two less, move partitions along the path. If none has, none of the classes reached can be
relieved, now or later, and they are done: the loads of the classes that they reach differ from theirs by at
most one.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.domain.ids import TopicId


@dataclass(slots=True, kw_only=True)
class Shares:
    """One class: number of members, subscription, and number of partitions of each topic."""

    members: int
    topics: frozenset[TopicId]
    counts: dict[TopicId, int]
    load: int = 0
    """Number of all its partitions."""

    def __post_init__(self) -> None:
        self.load = sum(self.counts.values())

    def heaviest(self) -> int:
        """Return the number of partitions of its heaviest member."""
        return -(-self.load // self.members)

    def lightest(self) -> int:
        """Return the number of partitions of its lightest member."""
        return self.load // self.members

    def change(self, topic: TopicId, by: int) -> None:
        """Add `by` partitions of a topic, or remove them if negative."""
        count = self.counts.get(topic, 0) + by
        if count:
            self.counts[topic] = count
        else:
            del self.counts[topic]
        self.load += by


def balanced_shares(classes: list[Shares], free: Mapping[TopicId, int]) -> Sequence[Mapping[TopicId, int]]:
    """Return each class's counts by topic, after the `free` partitions are distributed and loads evened out.

    `classes` have the present counts, and are changed.
    """
    subscribers: dict[TopicId, list[int]] = {}
    for n, one in enumerate(classes):
        for topic in one.topics:
            subscribers.setdefault(topic, []).append(n)
    # Topics with the fewest subscribers come first.
    for topic in sorted(free, key=lambda topic: (len(subscribers[topic]), -free[topic], topic)):
        _give_out(topic, free[topic], [classes[n] for n in subscribers[topic]])
    _even_out(classes, subscribers)
    return [one.counts for one in classes]


def _give_out(topic: TopicId, count: int, classes: list[Shares]) -> None:
    """Distribute partitions of a topic among its subscribers, always to the lightest."""
    queue = [(one.lightest(), n) for n, one in enumerate(classes)]
    heapq.heapify(queue)
    while count:
        level, n = queue[0]
        lightest = classes[n]
        given = min(count, (level + 1) * lightest.members - lightest.load)
        lightest.change(topic, given)
        heapq.heapreplace(queue, (level + 1, n))
        count -= given


def _even_out(classes: list[Shares], subscribers: Mapping[TopicId, list[int]]) -> None:
    """Move partitions until the shares are balanced."""
    waiting = set(range(len(classes)))
    while waiting:
        loads = {n: classes[n].heaviest() for n in sorted(waiting)}
        level = max(loads.values())
        below = max((load for load in loads.values() if load < level), default=0)
        reach = _Reach(classes, level, below)
        reach.walk_over(subscribers, waiting)
        if not reach.relieve():
            waiting -= reach.comes_by.keys()


_Walk = list[tuple[int, int, TopicId]]
"""Moves as (giver, taker, topic), the last one first."""


class _Reach:
    """The classes that the heaviest ones can move partitions to."""

    def __init__(self, classes: list[Shares], level: int, below: int) -> None:
        """`level` is the load of the heaviest classes, `below` that of the heaviest after them."""
        self._classes = classes
        self._level = level
        self._below = below
        self.comes_by: dict[int, TopicId | None] = {}
        """The classes reached, with the topic of the move to them; None for the heaviest classes."""
        self._givers: dict[TopicId, list[int]] = {}
        """The classes that can give a partition of a topic, among those reached one move before its
        takers.
        """

    def walk_over(self, subscribers: Mapping[TopicId, list[int]], waiting: set[int]) -> None:
        """Find all classes that can be reached, in as few moves as possible."""
        front = [n for n in sorted(waiting) if self._classes[n].heaviest() == self._level]
        self.comes_by = dict.fromkeys(front)
        while front:
            found: dict[TopicId, list[int]] = {}
            for giver in front:
                for topic in self._classes[giver].counts:
                    if topic not in self._givers:
                        found.setdefault(topic, []).append(giver)
            self._givers |= found
            front = []
            for topic in sorted(found):
                for taker in subscribers[topic]:
                    if taker not in self.comes_by and taker in waiting:
                        self.comes_by[taker] = topic
                        front.append(taker)

    def relieve(self) -> bool:
        """Move partitions from the heaviest classes to the lightest they reach; return whether any was moved.

        No class is relieved below the load `below`, at which other classes are the heaviest: so nothing moves
        twice.
        """
        queue = [(self._classes[n].lightest(), n) for n, topic in self.comes_by.items() if topic is not None]
        heapq.heapify(queue)
        relieved = False
        while queue:
            lightest, light = heapq.heappop(queue)
            if self._level - lightest < 2:
                break
            walk = self._walk_to(light)
            if walk is None:
                continue
            giver, taker = self._classes[walk[-1][0]], self._classes[light]
            if giver.heaviest() - lightest < 2:
                continue
            above = giver.load - (giver.heaviest() - 1) * giver.members
            room = (lightest + 1) * taker.members - taker.load
            count = min(above, room, *(self._classes[n].counts[topic] for n, _taker, topic in walk))
            for n, to, topic in walk:
                self._classes[n].change(topic, -count)
                self._classes[to].change(topic, count)
            heapq.heappush(queue, (taker.lightest(), light))
            relieved = True
        return relieved

    def _walk_to(self, light: int) -> _Walk | None:
        """Return the moves from one of the heaviest classes to this one; None if a giver on the path has none
        left.
        """
        walk: _Walk = []
        at = light
        while (topic := self.comes_by[at]) is not None:
            givers = self._givers[topic]
            while givers and not self._can_give(givers[-1], topic):
                givers.pop()
            if not givers:
                return None
            walk.append((givers[-1], at, topic))
            at = givers[-1]
        return walk

    def _can_give(self, giver: int, topic: TopicId) -> bool:
        """Return whether it has a partition of the topic and, as one of the heaviest, must still be
        relieved.
        """
        one = self._classes[giver]
        if topic not in one.counts:
            return False
        return self.comes_by[giver] is not None or one.heaviest() in range(self._below + 1, self._level + 1)
