"""The assignor of share groups (KIP-932): every partition goes to several members if there are more members.

1. A partition is shared by `ceil(members / partitions)` members, and the numbers of partitions of two members
   differ by at most one.
2. As far as rule 1 allows, members keep what they have.
3. If all members subscribe to the same topics, the rules count over all topics; otherwise for each topic.

The result does not depend on the order of the input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress
from typing import TypeAlias

from headgate.core.assignors.contract import Assignment, GroupSpec
from headgate.domain.ids import MemberId, TopicId

_Numbers: TypeAlias = dict[MemberId, list[int]]
"""Partitions by their numbers, see `_Numbered`."""
_Shares: TypeAlias = dict[MemberId, set[int]]
_Found: TypeAlias = dict[MemberId, dict[TopicId, tuple[int, ...]]]


def assign_shares(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Return the partitions of every member."""
    subscriptions = {member.topics for member in spec.members.values()}
    members = sorted(spec.members)
    found: _Found = {member_id: {} for member_id in members}
    if len(subscriptions) == 1:
        (topics,) = subscriptions
        _share(spec, sorted(topics), members, found)
    else:
        for topic_id in sorted(frozenset[TopicId]().union(*subscriptions)):
            readers = [member_id for member_id in members if topic_id in spec.members[member_id].topics]
            _share(spec, [topic_id], readers, found)
    return found


class _Numbered:
    """The partitions of some topics, numbered from 0 on: there may be very many, and numbers are fast."""

    def __init__(self, spec: GroupSpec, topics: Sequence[TopicId]) -> None:
        self._indexes: dict[TopicId, list[int]] = {}
        self._numbers: dict[TopicId, dict[int, int]] = {}
        self.count = 0
        for topic_id in topics:
            if topic_id in spec.assignable:
                indexes = list(spec.assignable[topic_id])
                end = self.count + len(indexes)
                self._indexes[topic_id] = indexes
                self._numbers[topic_id] = dict(zip(indexes, range(self.count, end), strict=True))
                self.count = end

    def numbers(self, assignment: Assignment) -> list[int]:
        """Return the numbers of those partitions of an assignment that have one."""
        found: list[int] = []
        for topic_id, numbers in self._numbers.items():
            found += (numbers[one] for one in assignment.get(topic_id, ()) if one in numbers)
        return found

    def by_topic(self, share: set[int]) -> Iterator[tuple[TopicId, tuple[int, ...]]]:
        """Yield the partitions of a share, sorted; no topic without any."""
        ordered = sorted(share)
        begin = base = 0
        for topic_id, indexes in self._indexes.items():
            end = bisect_left(ordered, base + len(indexes), begin)
            if end > begin:
                yield topic_id, tuple([indexes[number - base] for number in ordered[begin:end]])
            begin, base = end, base + len(indexes)


def _share(spec: GroupSpec, topics: Sequence[TopicId], members: Sequence[MemberId], found: _Found) -> None:
    """Share the partitions of some topics among the members that subscribe to all of them."""
    partitions = _Numbered(spec, topics)
    if not partitions.count or not members:
        return
    current = {member_id: partitions.numbers(spec.members[member_id].current) for member_id in members}
    sharing = -(-len(members) // partitions.count)
    least, more = divmod(sharing * partitions.count, len(members))
    by_size = sorted(members, key=lambda member_id: (-len(current[member_id]), member_id))
    quotas = {member_id: least + (at < more) for at, member_id in enumerate(by_size)}
    shares = _kept(by_size, current, quotas, [sharing] * partitions.count)
    if shares is None:
        nothing: _Numbers = {member_id: [] for member_id in members}
        shares = _kept(by_size, nothing, quotas, [sharing] * partitions.count)
        assert shares is not None, "without anything to keep, the largest needs can always be met"
    for member_id, share in shares.items():
        found[member_id].update(partitions.by_topic(share))


def _kept(
    members: Sequence[MemberId], current: _Numbers, quotas: Mapping[MemberId, int], needs: list[int]
) -> _Shares | None:
    """Return shares that keep as much of `current` as quotas and needs allow; None if some need is left."""
    shares: _Shares = {}
    for member_id in members:
        share = shares[member_id] = set()
        quota = quotas[member_id]
        for partition in current[member_id]:
            if needs[partition] and len(share) < quota:
                share.add(partition)
                needs[partition] -= 1
    in_turn = sorted(members, key=lambda one: (len(shares[one]) - quotas[one], one))
    free = {member_id: quotas[member_id] - len(shares[member_id]) for member_id in in_turn}
    if len(members) > len(needs):
        return shares if _fill_all(shares, free, needs) else None
    _divide(shares, free, list(compress(range(len(needs)), needs)))
    return shares


def _divide(shares: _Shares, free: Mapping[MemberId, int], left: Sequence[int]) -> None:
    """Divide partitions that need one member each among the members, in the order of `free`."""
    begin = 0
    for member_id, count in free.items():
        shares[member_id].update(left[begin : begin + count])
        begin += count


def _fill_all(shares: _Shares, free: Mapping[MemberId, int], needs: Sequence[int]) -> bool:
    """Fill the shares of the members, in the order of `free`; return whether no need is left."""
    heap = [(-need, partition) for partition, need in enumerate(needs) if need]
    heapify(heap)
    for member_id, count in free.items():
        _fill(shares[member_id], count, heap)
    return not heap


def _fill(share: set[int], count: int, heap: list[tuple[int, int]]) -> None:
    """Add `count` partitions, those with the largest needs that the share does not have."""
    put_back: list[tuple[int, int]] = []
    while count and heap:
        need, partition = heappop(heap)
        if partition in share:
            put_back.append((need, partition))
            continue
        share.add(partition)
        count -= 1
        if need + 1:
            put_back.append((need + 1, partition))
    for one in put_back:
        heappush(heap, one)
