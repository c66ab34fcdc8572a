"""The state of a consumer group after a load: what must hold for it alone, and what may have changed it."""

from __future__ import annotations

from typing import Any

from tests.simulation.member_view import MemberView, Part
from tests.simulation.requests import Request, Violation

from headgate.core.classic.commands import LeaveGroup
from headgate.core.consumer.commands import ConsumerHeartbeat, DescribedConsumerGroup
from headgate.domain.ids import MemberId


def check_described(described: DescribedConsumerGroup, known: tuple[int, int]) -> None:
    """Check that epochs are consistent and not lower than `known`, and that no partition has two owners."""
    epochs = (described.group_epoch, described.assignment_epoch)
    if epochs[0] < known[0] or epochs[1] < known[1]:
        raise Violation(f"after a load {described} is behind {known}")
    owned: dict[Part, MemberId] = {}
    for member in described.members:
        if not member.member_epoch <= epochs[1] <= epochs[0]:
            raise Violation(f"after a load {described}: {member} is ahead")
        for part in owned_by(member):
            if part in owned:
                raise Violation(f"after a load {described}: {part} has two owners")
            owned[part] = member.member_id


def owned_by(member: Any) -> set[Part]:
    """Return all partitions of a described member, including those pending revocation."""
    return {(topic_id, one) for topic_id, each in member.assigned.items() for one in each}


def concerns_member(request: Request, view: MemberView) -> bool:
    """Return whether a request may change a member."""
    match request.command:
        case ConsumerHeartbeat(member_id=member_id, instance_id=instance_id):
            return member_id == view.member_id or (
                instance_id is not None and instance_id == view.instance_id
            )
        case LeaveGroup(members=members):
            return any(
                one.member_id == view.member_id
                or (one.instance_id is not None and one.instance_id == view.instance_id)
                for one in members
            )
    return False
