"""The `range` assignor: it divides each topic into consecutive ranges, one per subscriber.

Its rules, for each topic:

1. Its subscribers are sorted: static members first, by instance id, then the others, by member id.
2. They get consecutive ranges in that order; sizes differ by at most one, the larger ones come first.
3. So topics with the same subscribers and the same number of partitions are co-partitioned: the member with
   partition 7 of one has partition 7 of the other, and can join them.
4. Partitions that may not be assigned are left out of the ranges and change nothing about them. So a pause
   moves no other partition, and topics stay co-partitioned while a partition of one of them is paused.

Present assignments are not used: a member keeps its ranges as long as the order stays the same. For that
reason static members are sorted by instance id, before the dynamic ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.assignors.contract import AssignablePartitions, Assignment, GroupSpec, Partitions
from headgate.domain.ids import MemberId, TopicId


def assign_ranges(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Return every member's ranges. A member without changes gets its `current` object back."""
    line = _line(spec)
    targets: dict[MemberId, dict[TopicId, Partitions]] = {member_id: {} for member_id in line}
    for (assignable, readers), topics in _alike(spec, line).items():
        members = [member_id for member_id in line if spec.members[member_id].topics in readers]
        # With fewer partitions than members there are fewer ranges.
        for member_id, partitions in zip(members, _ranges(assignable, len(members)), strict=False):
            if partitions:
                targets[member_id].update(dict.fromkeys(topics, partitions))
    return {
        member_id: current if (current := spec.members[member_id].current) == target else target
        for member_id, target in targets.items()
    }


_Subscription = frozenset[TopicId]


def _alike(
    spec: GroupSpec, line: list[MemberId]
) -> dict[tuple[AssignablePartitions, frozenset[_Subscription]], list[TopicId]]:
    """Group the topics that are divided alike: by their partitions and by the subscriptions with them."""
    readers: dict[TopicId, list[_Subscription]] = {}
    for subscription in dict.fromkeys(spec.members[member_id].topics for member_id in line):
        for topic in subscription:
            readers.setdefault(topic, []).append(subscription)
    alike: dict[tuple[AssignablePartitions, frozenset[_Subscription]], list[TopicId]] = {}
    for topic in sorted(readers):
        if topic in spec.assignable:
            key = (spec.assignable[topic], frozenset(readers[topic]))
            alike.setdefault(key, []).append(topic)
    return alike


def _line(spec: GroupSpec) -> list[MemberId]:
    """Return the members in the order in which they get ranges."""

    def place(member_id: MemberId) -> tuple[bool, str, str]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, instance_id or "", member_id

    return sorted(spec.members, key=place)


def _ranges(assignable: AssignablePartitions, ways: int) -> list[Partitions]:
    """The ranges of a topic, each without what may not be assigned."""
    ranges = _cut(assignable.count, ways)
    withheld = assignable.withheld
    if not withheld:
        return ranges
    return [tuple(p for p in partitions if p not in withheld) for partitions in ranges]


def _cut(count: int, ways: int) -> list[Partitions]:
    """Return `count` partitions in `ways` consecutive ranges, or fewer if there are fewer partitions."""
    size, larger = divmod(count, ways)
    ends = [(n + 1) * size + min(n + 1, larger) for n in range(min(count, ways))]
    return [tuple(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]
