"""What the admin refuses by itself, before a node is asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from headgate.client.errors import ClientError
from headgate.client.groups import GroupDescription
from headgate.domain.ids import Millis, TopicName, TopicPartition

TOLD_OF = 3
"""How many partitions a message names."""


def moment(time: Millis) -> str:
    """A time in ms as people and `--to-datetime` read it; the number where no calendar has it."""
    try:
        found = datetime.fromtimestamp(time / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class GroupIsActive(ClientError):
    """The group has members: they would not hear of offsets that are changed behind their backs."""

    def __init__(self, group: GroupDescription) -> None:
        self.group = group
        count = len(group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        super().__init__(f"group {group.group_id} is active: state {group.state}, {members}")


class NothingToReset(ClientError):
    """There is no offset to reset from, or no partition to reset; the message says which."""


class AlreadyUndone(ClientError):
    """The last change of the group took back the one before it: undoing it would make that change again."""

    def __init__(self, group_id: str, changed_at: Millis, took_back: Millis) -> None:
        """When the last change was made, and when the one that it took back."""
        self.group_id = group_id
        self.changed_at = changed_at
        self.took_back = took_back
        super().__init__(
            f"group {group_id}: the last change, at {moment(changed_at)}, already took back the one of "
            f"{moment(took_back)}"
        )


class TopicGone(ClientError):
    """What is to be put back was committed for topics that were deleted since.

    `topics` has them by name, with the time when another topic of that name was made; None: there is none.
    """

    def __init__(self, group_id: str, topics: Mapping[TopicName, Millis | None]) -> None:
        self.group_id = group_id
        self.topics = dict(topics)
        each = [
            f"topic {name} was deleted"
            + (f", and made anew at {moment(created)}" if created is not None else "")
            for name, created in list(self.topics.items())[:TOLD_OF]
        ]
        rest = len(self.topics) - TOLD_OF
        which = "; ".join(each) + (f"; and {rest} more" if rest > 0 else "")
        super().__init__(f"group {group_id}: {which}: offsets from before that are not put back")


class HistoryUnknown(ClientError):
    """It is not known what stood in these partitions: it was compacted away, and its history is gone."""

    def __init__(
        self, group_id: str, partitions: Sequence[TopicPartition], time: Millis | None = None
    ) -> None:
        """`time`: what was in force then; None: what stood before the last change."""
        self.group_id = group_id
        self.partitions = tuple(partitions)
        self.time = time
        first = ", ".join(map(str, self.partitions[:TOLD_OF]))
        rest = len(self.partitions) - TOLD_OF
        which = first + (f" and {rest} more" if rest > 0 else "")
        when = "before the last change" if time is None else "at that time"
        super().__init__(f"group {group_id}: what its offset was {when} is not known in {which}")
