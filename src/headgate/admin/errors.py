"""What the admin refuses by itself, before a node is asked to."""

from __future__ import annotations

from headgate.client.errors import ClientError
from headgate.client.groups import GroupDescription


class GroupIsActive(ClientError):
    """The group has members: they would not hear of offsets that are changed behind their backs."""

    def __init__(self, group: GroupDescription) -> None:
        self.group = group
        count = len(group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        super().__init__(f"group {group.group_id} is active: state {group.state}, {members}")


class NothingToReset(ClientError):
    """There is no offset to reset from, or no partition to reset; the message says which."""
