"""What the rows of `--describe` do not say: that a group is empty or rebalancing, and who is waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.admin import GroupDescription, MemberDescription, Position, TopicPartition
from headgate.admin.errors import moment
from headgate.domain.ids import Millis

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


def remarks_on_pauses(group: GroupDescription, positions: Iterable[Position]) -> Iterator[str]:
    """Yield a sentence for the partitions of each pause; those of one pause were paused together."""
    pauses: dict[tuple[Millis, str, str], list[TopicPartition]] = {}
    for position in positions:
        paused = position.paused
        if paused is not None:
            pauses.setdefault((paused.since, paused.caller, paused.reason), []).append(position.partition)
    name = f"group {group.group_id}"
    for number, ((since, caller, reason), partitions) in enumerate(pauses.items()):
        if number == _NAMED:
            yield f"{name}: {len(pauses) - _NAMED} more pauses; --paused-partitions lists them"
            return
        when = f" since {moment(since)}" if since >= 0 else ""
        why = f" ({reason})" if reason else ""
        yield f"{name}: {assignment_text(partitions)} paused{when} by {caller or 'unknown'}{why}"


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
