"""Describe a classic group."""

from __future__ import annotations

from headgate.core.classic.commands import DescribedGroup, DescribedMember
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState


def describe(group: ClassicGroup) -> DescribedGroup:
    """Return the description; it has the protocol and the members' metadata only in a stable group."""
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol_name) if is_stable else b"",
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )
