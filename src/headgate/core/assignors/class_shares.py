"""How many partitions of each topic go to each class of members that subscribe alike.

Within a class the partitions are spread evenly, so only its *load* matters: its partitions by its members,
rounded up for its heaviest member, down for its lightest. Shares are balanced when no partition can pass from
one class to another, directly or along a chain of classes that each pass one on, so that a member who had two
more than another loses one to it. Then no assignment is more even: the heaviest load is as small as it can
be, and so is the number of members that carry it, and so on down.

The theory: take the class with the heaviest member and walk over what could be passed on (a class that has a
partition of a topic, another that subscribes to it) to the class with the lightest member. If that has two
less, pass partitions along the walk. If not, none of the classes reached can be relieved, now or later, and
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
        heavy = max(waiting, key=lambda n: (classes[n].heaviest(), -n))
        came_from = _reach(heavy, classes, subscribers, waiting)
        light = min(came_from, key=lambda n: classes[n].lightest())
        if classes[heavy].heaviest() - classes[light].lightest() < 2:
            waiting -= came_from.keys()
            continue
        _pass_on(heavy, light, came_from, classes)


_Origin = tuple[int, TopicId] | None
"""The class that passes on to this one, and the topic of what it passes on."""


def _reach(
    start: int, classes: list[Shares], subscribers: Mapping[TopicId, list[int]], waiting: set[int]
) -> dict[int, _Origin]:
    """The classes that something could come to from `start`, nearest first, and where it would come from."""
    came_from: dict[int, _Origin] = {start: None}
    seen: set[TopicId] = set()
    queue = [start]
    for giver in queue:
        for topic in sorted(classes[giver].counts.keys() - seen):
            seen.add(topic)
            for taker in subscribers[topic]:
                if taker not in came_from and taker in waiting:
                    came_from[taker] = (giver, topic)
                    queue.append(taker)
    return came_from


def _pass_on(heavy: int, light: int, came_from: Mapping[int, _Origin], classes: list[Shares]) -> None:
    """Passes as many partitions along one walk as leave the heaviest no lighter than the lightest becomes."""
    walk: list[tuple[int, int, TopicId]] = []
    at = light
    while (origin := came_from[at]) is not None:
        giver, topic = origin
        walk.append((giver, at, topic))
        at = giver
    giver_class, taker_class = classes[heavy], classes[light]
    above = giver_class.load - (giver_class.heaviest() - 1) * giver_class.members
    room = (taker_class.lightest() + 1) * taker_class.members - taker_class.load
    count = min(above, room, *(classes[giver].counts[topic] for giver, _taker, topic in walk))
    for giver, taker, topic in walk:
        classes[giver].change(topic, -count)
        classes[taker].change(topic, count)
