"""The `range` assignor: every topic is cut into ranges, one a subscriber, the same way for all topics.

Its rules, for each topic:

1. Its subscribers stand in line: static members first, by instance id, then the others, by member id.
2. They are given consecutive ranges in that order; sizes differ by at most one, the larger ones come first.
3. So topics with the same subscribers and the same number of partitions are co-partitioned: whoever has
   partition 7 of one has partition 7 of the other, and may join them.

What a member has now is not looked at: it keeps its ranges as long as the line stays the same, which is why a
static member stands by its instance id and before those who come and go.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.assignors.contract import Assignment, GroupSpec, Partitions
from headgate.domain.ids import MemberId, TopicId


def assign_ranges(spec: GroupSpec) -> Mapping[MemberId, Assignment]:
    """Every member's ranges. A member that has just these gets its `current` back, the same object."""
    line = _line(spec)
    targets: dict[MemberId, dict[TopicId, Partitions]] = {member_id: {} for member_id in line}
    for (count, readers), topics in _alike(spec, line).items():
        members = [member_id for member_id in line if spec.members[member_id].topics in readers]
        # There are fewer ranges than members when there are fewer partitions.
        for member_id, partitions in zip(members, _cut(count, len(members)), strict=False):
            targets[member_id].update(dict.fromkeys(topics, partitions))
    return {
        member_id: current if (current := spec.members[member_id].current) == target else target
        for member_id, target in targets.items()
    }


_Subscription = frozenset[TopicId]


def _alike(
    spec: GroupSpec, line: list[MemberId]
) -> dict[tuple[int, frozenset[_Subscription]], list[TopicId]]:
    """The topics that are cut alike: by their number of partitions and the subscriptions that have them."""
    readers: dict[TopicId, list[_Subscription]] = {}
    for subscription in dict.fromkeys(spec.members[member_id].topics for member_id in line):
        for topic in subscription:
            readers.setdefault(topic, []).append(subscription)
    alike: dict[tuple[int, frozenset[_Subscription]], list[TopicId]] = {}
    for topic in sorted(readers):
        if topic in spec.partition_counts:
            key = (spec.partition_counts[topic], frozenset(readers[topic]))
            alike.setdefault(key, []).append(topic)
    return alike


def _line(spec: GroupSpec) -> list[MemberId]:
    """The members in the order in which they are given ranges."""

    def place(member_id: MemberId) -> tuple[bool, str, str]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, instance_id or "", member_id

    return sorted(spec.members, key=place)


def _cut(count: int, ways: int) -> list[Partitions]:
    """`count` partitions in `ways` consecutive ranges or, if they are fewer, each by itself."""
    size, larger = divmod(count, ways)
    ends = [(n + 1) * size + min(n + 1, larger) for n in range(min(count, ways))]
    return [tuple(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]
