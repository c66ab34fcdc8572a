"""Finds the producers with a pending offset of a partition.

A producer with few pending offsets in a place (a group and a topic) is found by their partitions. So a commit
beside twenty thousand open transactions does not look at each of them. A wide producer, which commits in
columns, is always looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

from headgate.domain.ids import GroupId, TopicName

Place = tuple[GroupId, TopicName]
_NONE: frozenset[int] = frozenset()


class Holders:
    """The producers with pending offsets, by place and partition."""

    __slots__ = ("_few", "_wide")

    def __init__(self) -> None:
        self._few: dict[Place, dict[int, set[int]]] = {}
        """By place and partition: the producers that are not wide there."""
        self._wide: dict[Place, set[int]] = {}

    def hold(self, producer_id: int, place: Place, partitions: Iterable[int]) -> None:
        """Note that a producer has pending offsets of these partitions."""
        if producer_id in self.wide(place):
            return
        holders = self._few.setdefault(place, {})
        for partition in partitions:
            holders.setdefault(partition, set()).add(producer_id)

    def widen(self, producer_id: int, place: Place) -> None:
        """Make a producer a wide one, which has let go what it had."""
        self._wide.setdefault(place, set()).add(producer_id)

    def let_go(self, producer_id: int, place: Place, partitions: Iterable[int]) -> None:
        """Note that a producer does not have these partitions any more."""
        if producer_id in self.wide(place):
            return
        for partition in partitions:
            of = self._few[place][partition]
            of.remove(producer_id)
            if not of:
                del self._few[place][partition]

    def discard(self, producer_id: int, place: Place) -> None:
        """Remove a producer, which has no partitions any more, from a place."""
        if producer_id in self.wide(place):
            self._wide[place].remove(producer_id)

    def forget(self, place: Place) -> None:
        """Remove a place without producers."""
        self._few.pop(place, None)
        self._wide.pop(place, None)

    def of_any(self, place: Place, partitions: Collection[int]) -> set[int]:
        """Return the producers that may have one of these partitions: all that do, and all wide ones."""
        found = set(self.wide(place))
        holders = self._few.get(place, {})
        for partition in partitions if len(partitions) < len(holders) else holders.keys() & partitions:
            found.update(holders.get(partition, ()))
        return found

    def few(self, place: Place) -> set[int]:
        """Return the partitions of all producers that are not wide."""
        return set(self._few.get(place, ()))

    def wide(self, place: Place) -> Set[int]:
        """Return the wide producers of a place."""
        return self._wide.get(place, _NONE)
