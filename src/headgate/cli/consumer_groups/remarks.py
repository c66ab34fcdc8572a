"""What the rows of `--describe` do not say: that a group is empty or rebalancing, and who is waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.admin import GroupDescription, MemberDescription, TopicPartition

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

_NAMED = 3
"""So many members are named; of the others there is only the number."""


def remarks_on(group: GroupDescription, *, has_rows: bool) -> Iterator[str]:
    """Each remark on a group, a sentence."""
    name = f"group {group.group_id}"
    if group.state in REBALANCING:
        yield f"{name} is rebalancing ({group.state})"
    elif not group.members:
        yield f"{name} has no active members"
    if not has_rows and group.members:
        yield f"{name} reads nothing and has committed nothing"
    late = [(member, kept) for member in group.members if (kept := _to_let_go(member))]
    for member, kept in late[:_NAMED]:
        yield f"{name}: {_named(member)} is to let go of {assignment_text(kept)}"
    away = [member for member in group.members if member.is_away]
    for member in away[:_NAMED]:
        yield f"{name}: {_named(member)} is away; until its session ends its partitions wait for it"
    if (rest := max(0, len(late) - _NAMED) + max(0, len(away) - _NAMED)) > 0:
        yield f"{name}: the same holds of {rest} more"


def _to_let_go(member: MemberDescription) -> Sequence[TopicPartition]:
    """What a member has that is to be somebody else's."""
    if member.target is None or member.is_away:
        return ()
    target = set(member.target)
    return [partition for partition in member.assignment or () if partition not in target]


def _named(member: MemberDescription) -> str:
    """How people call a member."""
    return member.instance_id or f"{member.client_id} ({member.member_id})"


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """`flights:0,1;orders:2`."""
    topics: dict[str, list[str]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())
