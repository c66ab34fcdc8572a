"""How many partitions of each topic go to each class of members that subscribe alike.

Within a class the partitions are spread evenly, so only its *load* matters: its partitions by its members,
rounded up for its heaviest member, down for its lightest. Shares are balanced when no partition can pass from
one class to another, directly or along a chain of classes that each pass one on, so that a member who had two
more than another loses one to it. Then no assignment is more even: the heaviest load is as small as it can
be, and so is the number of members that carry it, and so on down.

The theory: take the classes with the heaviest members and walk over what could be passed on (a class that has
a partition of a topic, another that subscribes to it) to those with the lightest. Where these have two less,
pass partitions along the walk. If none has, none of the classes reached can be relieved, now or later, and
they are done with: what they reach is as heavy as they are, within one, and stays so.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.domain.ids import TopicId


@dataclass(slots=True, kw_only=True)
class Shares:
    """One class: its members' number, their subscription, and their partitions of each topic."""

    members: int
    topics: frozenset[TopicId]
    counts: dict[TopicId, int]
    load: int = 0
    """All its partitions together."""

    def __post_init__(self) -> None:
        self.load = sum(self.counts.values())

    def heaviest(self) -> int:
        """The partitions of its heaviest member."""
        return -(-self.load // self.members)

    def lightest(self) -> int:
        """The partitions of its lightest member."""
        return self.load // self.members

    def change(self, topic: TopicId, by: int) -> None:
        """Adds partitions of a topic, or takes them away."""
        count = self.counts.get(topic, 0) + by
        if count:
            self.counts[topic] = count
        else:
            del self.counts[topic]
        self.load += by


def balanced_shares(classes: list[Shares], free: Mapping[TopicId, int]) -> Sequence[Mapping[TopicId, int]]:
    """Each class's counts by topic, after the `free` partitions are given out and loads made even.

    `classes` hold what they have now, and are changed.
    """
    subscribers: dict[TopicId, list[int]] = {}
    for n, one in enumerate(classes):
        for topic in one.topics:
            subscribers.setdefault(topic, []).append(n)
    # The least choice comes first.
    for topic in sorted(free, key=lambda topic: (len(subscribers[topic]), -free[topic], topic)):
        _give_out(topic, free[topic], [classes[n] for n in subscribers[topic]])
    _even_out(classes, subscribers)
    return [one.counts for one in classes]


def _give_out(topic: TopicId, count: int, classes: list[Shares]) -> None:
    """Gives partitions of a topic to its subscribers, always to the lightest."""
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
    """Passes partitions on until the shares are balanced."""
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
"""Who gives to whom, and of what topic: the last step first."""


class _Reach:
    """What the heaviest classes can pass on, and to whom."""

    def __init__(self, classes: list[Shares], level: int, below: int) -> None:
        """`level` is the load of the heaviest classes, `below` that of the heaviest after them."""
        self._classes = classes
        self._level = level
        self._below = below
        self.comes_by: dict[int, TopicId | None] = {}
        """The classes reached, with the topic that something comes by; None: it is one of the heaviest."""
        self._givers: dict[TopicId, list[int]] = {}
        """Who can give of a topic, among the classes that are reached in one step less than its takers."""

    def walk_over(self, subscribers: Mapping[TopicId, list[int]], waiting: set[int]) -> None:
        """Reaches all that can be reached, in as few steps as possible."""
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
        """Passes partitions from the heaviest to the lightest they reach; says whether it came to that.

        None is relieved to less than the load `below`, when it is the turn of others: so nothing moves twice.
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
        """The steps from one of the heaviest to this class; None when what led there is used up."""
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
        """Whether it has a partition of the topic and, if one of the heaviest, is still to be relieved."""
        one = self._classes[giver]
        if topic not in one.counts:
            return False
        return self.comes_by[giver] is not None or one.heaviest() in range(self._below + 1, self._level + 1)
