"""Remarks of `--describe` on a group: it is empty or rebalancing, and the members that delay a rebalance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.admin import GroupDescription, MemberDescription, PausedPartition, TopicPartition
from headgate.admin.errors import moment
from headgate.domain.ids import Millis

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

_NAMED = 3
"""How many members are named. The others are only counted."""


def remarks_on(group: GroupDescription, *, has_rows: bool) -> Iterator[str]:
    """Yield the remarks on a group, each a sentence."""
    name = f"group {group.group_id}"
    if group.state in REBALANCING:
        yield f"{name} is rebalancing ({group.state})"
    elif not group.members:
        yield f"{name} has no active members"
    if not has_rows and group.members:
        yield f"{name} has no assigned partitions and no committed offsets"
    late = [(member, kept) for member in group.members if (kept := _pending_revocation(member))]
    for member, kept in late[:_NAMED]:
        yield f"{name}: {_named(member)} must revoke {assignment_text(kept)}"
    away = [member for member in group.members if member.is_away]
    for member in away[:_NAMED]:
        text = "left temporarily and keeps its partitions until its session times out"
        yield f"{name}: {_named(member)} {text}"
    if (rest := max(0, len(late) - _NAMED) + max(0, len(away) - _NAMED)) > 0:
        yield f"{name}: the same applies to {rest} more"


def remarks_on_pauses(name: str, paused: Iterable[PausedPartition]) -> Iterator[str]:
    """Yield a sentence for the partitions of each pause; those of one pause were paused together.

    `name` is what the sentences begin with: the kind and the id of the group.
    """
    pauses: dict[tuple[Millis, str, str], list[TopicPartition]] = {}
    for one in paused:
        pauses.setdefault((one.since, one.caller, one.reason), []).append(one.partition)
    for number, ((since, caller, reason), partitions) in enumerate(pauses.items()):
        if number == _NAMED:
            yield f"{name}: {len(pauses) - _NAMED} more pauses; --paused-partitions lists them"
            return
        when = f" since {moment(since)}" if since >= 0 else ""
        why = f" ({reason})" if reason else ""
        yield f"{name}: {assignment_text(partitions)} paused{when} by {caller or 'unknown'}{why}"


def _pending_revocation(member: MemberDescription) -> Sequence[TopicPartition]:
    """Return the assigned partitions of a member that are not in its target assignment."""
    if member.target is None or member.is_away:
        return ()
    target = set(member.target)
    return [partition for partition in member.assignment or () if partition not in target]


def _named(member: MemberDescription) -> str:
    """Return the instance id of a member, or its client id and member id."""
    return member.instance_id or f"{member.client_id} ({member.member_id})"


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text: `flights:0,1;orders:2`."""
    topics: dict[str, list[str]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())
