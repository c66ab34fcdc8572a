"""What the admin refuses by itself, before a node is asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from headgate.client.errors import ClientError
from headgate.client.groups import GroupDescription
from headgate.client.pauses import PausedPartition
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
    """The group has members: they would not hear of offsets that are changed behind their backs.

    `unpaused` has the partitions that would have to be paused first, and `unreleased` those that are paused
    and that their owners have not released yet; both are empty where nothing can be paused.
    """

    def __init__(
        self,
        group: GroupDescription,
        unpaused: Sequence[TopicPartition] = (),
        unreleased: Sequence[TopicPartition] = (),
    ) -> None:
        self.group = group
        self.unpaused = tuple(unpaused)
        self.unreleased = tuple(unreleased)
        count = len(group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        message = f"group {group.group_id} is active: state {group.state}, {members}"
        if unpaused:
            message += f"; not paused: {_some(unpaused)}"
        if unreleased:
            message += f"; paused, but not released yet: {_some(unreleased)}"
        super().__init__(message)


class NotPaused(ClientError):
    """Partitions that were to be paused are not, or not any more: somebody else resumed them."""

    def __init__(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        self.group_id = group_id
        self.partitions = tuple(partitions)
        super().__init__(f"group {group_id}: not paused: {_some(partitions)}")


class NotReleased(ClientError):
    """Members did not release paused partitions in time; `waiting_for` has those, each with its owner."""

    def __init__(self, group_id: str, waiting_for: Sequence[PausedPartition], timeout_s: float) -> None:
        self.group_id = group_id
        self.waiting_for = tuple(waiting_for)
        owners = sorted({one.owner for one in waiting_for if one.owner is not None})
        which = _some([one.partition for one in waiting_for])
        by = ", ".join(owners[:TOLD_OF])
        super().__init__(f"group {group_id}: not released after {timeout_s:g} s: {which}; owned by {by}")


class RewindUnfinished(ClientError):
    """A rewind failed and could not clean up: `partitions` are still paused.

    The same rewind made again finds them, and finishes.
    """

    def __init__(self, group_id: str, partitions: Sequence[TopicPartition], state: str) -> None:
        """`state`: what became of the offsets."""
        self.group_id = group_id
        self.partitions = tuple(partitions)
        super().__init__(
            f"group {group_id}: the rewind is unfinished: {_some(partitions)} may still be paused, and "
            f"{state}. Rewind again, or resume the partitions"
        )


def _some(partitions: Sequence[TopicPartition]) -> str:
    rest = len(partitions) - TOLD_OF
    return ", ".join(map(str, partitions[:TOLD_OF])) + (f" and {rest} more" if rest > 0 else "")


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
