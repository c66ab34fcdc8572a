"""The assignor of share groups (KIP-932): every partition goes to several members if there are more members.

1. A partition is shared by `ceil(members / partitions)` members, and the numbers of partitions of two members
   differ by at most one.
2. As far as rule 1 allows, members keep what they have.
3. If all members subscribe to the same topics, the rules count over all topics; otherwise for each topic.

The result does not depend on the order of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from headgate.core.assignors.contract import Assignment, GroupSpec
from headgate.domain.ids import MemberId, TopicId

_Partition: TypeAlias = tuple[TopicId, int]
_Shares: TypeAlias = dict[MemberId, set[_Partition]]


def assign_shares(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Return the partitions of every member."""
    subscriptions = {member.topics for member in spec.members.values()}
    members = sorted(spec.members)
    shares: _Shares = {member_id: set() for member_id in members}
    if len(subscriptions) == 1:
        (topics,) = subscriptions
        _share(spec, sorted(topics), members, shares)
    else:
        for topic_id in sorted(frozenset[TopicId]().union(*subscriptions)):
            readers = [member_id for member_id in members if topic_id in spec.members[member_id].topics]
            _share(spec, [topic_id], readers, shares)
    return {member_id: _by_topic(share) for member_id, share in shares.items()}


def _share(spec: GroupSpec, topics: Sequence[TopicId], members: Sequence[MemberId], shares: _Shares) -> None:
    """Share the partitions of some topics among the members that subscribe to all of them."""
    partitions = [
        (topic_id, index)
        for topic_id in topics
        if topic_id in spec.assignable
        for index in spec.assignable[topic_id]
    ]
    if not partitions or not members:
        return
    wanted = frozenset(partitions)
    current = {
        member_id: [
            (topic_id, index)
            for topic_id in topics
            for index in spec.members[member_id].current.get(topic_id, ())
            if (topic_id, index) in wanted
        ]
        for member_id in members
    }
    sharing = -(-len(members) // len(partitions))
    least, more = divmod(sharing * len(partitions), len(members))
    by_size = sorted(members, key=lambda member_id: (-len(current[member_id]), member_id))
    quotas = {member_id: least + (at < more) for at, member_id in enumerate(by_size)}
    found = _kept(by_size, current, quotas, dict.fromkeys(partitions, sharing))
    if found is None:
        found = _kept(by_size, dict.fromkeys(members, ()), quotas, dict.fromkeys(partitions, sharing))
        assert found is not None, "without anything to keep, the largest needs can always be met"
    for member_id, share in found.items():
        shares[member_id] |= share


def _kept(
    members: Sequence[MemberId],
    current: Mapping[MemberId, Collection[_Partition]],
    quotas: Mapping[MemberId, int],
    needs: dict[_Partition, int],
) -> _Shares | None:
    """Return shares that keep as much of `current` as quotas and needs allow; None if some need is left."""
    shares: _Shares = {}
    for member_id in members:
        share = shares[member_id] = set()
        for partition in current[member_id]:
            if needs[partition] and len(share) < quotas[member_id]:
                share.add(partition)
                needs[partition] -= 1
    heap = [(-need, partition) for partition, need in needs.items() if need]
    heapify(heap)
    for member_id in sorted(members, key=lambda one: (len(shares[one]) - quotas[one], one)):
        _fill(shares[member_id], quotas[member_id], heap)
    return None if heap else shares


def _fill(share: set[_Partition], quota: int, heap: list[tuple[int, _Partition]]) -> None:
    """Add the partitions with the largest needs that the share does not have."""
    put_back: list[tuple[int, _Partition]] = []
    while len(share) < quota and heap:
        need, partition = heappop(heap)
        if partition in share:
            put_back.append((need, partition))
            continue
        share.add(partition)
        if need + 1:
            put_back.append((need + 1, partition))
    for one in put_back:
        heappush(heap, one)


def _by_topic(share: set[_Partition]) -> dict[TopicId, tuple[int, ...]]:
    found: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(share):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in found.items()}
