"""The errors that the Admin API raises itself, before it sends a request that changes something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from headgate.client.errors import ClientError, RequestRefused
from headgate.client.groups import GroupDescription
from headgate.client.pauses import PausedPartition
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName, TopicPartition
from headgate.domain.wording import some_of

MOST_NAMED = 3
"""How many partitions or topics an error message names."""


def moment(time: Millis) -> str:
    """Return a time in ms in ISO 8601, as `--to-datetime` takes it; the number if it is out of range."""
    try:
        found = datetime.fromtimestamp(time / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class GroupIsActive(ClientError):
    """The group has members. Members do not notice when others change their offsets.

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
            message += f"; not paused: {first_of(unpaused)}"
        if unreleased:
            message += f"; paused, but not released yet: {first_of(unreleased)}"
        super().__init__(message)


class IsShareGroup(RequestRefused):
    """The group is a share group, which has no committed offsets."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        reason = "It is a share group: see rewind_share_group and alter_share_offsets"
        super().__init__(f"group {group_id}", ErrorCode.GROUP_ID_NOT_FOUND, reason)


class NotPaused(ClientError):
    """Partitions are not paused, or not any more because another client resumed them."""

    def __init__(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        self.group_id = group_id
        self.partitions = tuple(partitions)
        super().__init__(f"group {group_id}: not paused: {first_of(partitions)}")


class NotReleased(ClientError):
    """Paused partitions were not released in time; `waiting_for` has those, each with its owner.

    One without an owner is a share-partition of which no member has records: something is not written.
    """

    def __init__(self, group_id: str, waiting_for: Sequence[PausedPartition], timeout_s: float) -> None:
        self.group_id = group_id
        self.waiting_for = tuple(waiting_for)
        owners = sorted({one.owner for one in waiting_for if one.owner is not None})
        which = first_of([one.partition for one in waiting_for])
        message = f"group {group_id}: not released after {timeout_s:g} s: {which}"
        if owners:
            message += f"; owned by {', '.join(owners[:MOST_NAMED])}"
        unowned = [one.partition for one in waiting_for if one.owner is None]
        if unowned:
            message += (
                f"; no member has records of {first_of(unowned)}, but dead letters or other changes wait to "
                "be written: the broker's log says why"
            )
        super().__init__(message)


class RewindUnfinished(ClientError):
    """A rewind failed and could not clean up: `partitions` are still paused.

    The same rewind made again finds them, and finishes.
    """

    def __init__(self, group_id: str, partitions: Sequence[TopicPartition], state: str) -> None:
        """`state`: what became of the offsets."""
        self.group_id = group_id
        self.partitions = tuple(partitions)
        super().__init__(
            f"group {group_id}: the rewind is unfinished: {first_of(partitions)} may still be paused, and "
            f"{state}. Rewind again, or resume the partitions"
        )


def first_of(partitions: Sequence[TopicPartition]) -> str:
    """Return the first few partitions, and how many more there are."""
    return some_of(map(str, partitions), len(partitions))


class NothingToReset(ClientError):
    """There is no partition to reset or no offset to start from. The message says which."""


class AlreadyUndone(ClientError):
    """The last change of the group was itself an undo. Undoing it would repeat the change before it.

    `undo` with `redo` does that.
    """

    def __init__(self, group_id: str, changed_at: Millis, took_back: Millis) -> None:
        """`changed_at` is the time of the last change, `took_back` that of the change it undid, in ms."""
        self.group_id = group_id
        self.changed_at = changed_at
        self.took_back = took_back
        super().__init__(
            f"group {group_id}: the last change, at {moment(changed_at)}, already undid the one of "
            f"{moment(took_back)}"
        )


class TopicGone(ClientError):
    """The offsets to be restored were committed for topics that were deleted since.

    `topics` maps their names to the creation time (ms) of another topic with that name; None: there is none.
    """

    def __init__(self, group_id: str, topics: Mapping[TopicName, Millis | None]) -> None:
        self.group_id = group_id
        self.topics = dict(topics)
        each = [
            f"topic {name} was deleted"
            + (f", and created again at {moment(created)}" if created is not None else "")
            for name, created in list(self.topics.items())[:MOST_NAMED]
        ]
        rest = len(self.topics) - MOST_NAMED
        which = "; ".join(each) + (f"; and {rest} more" if rest > 0 else "")
        super().__init__(f"group {group_id}: {which}: offsets from before that cannot be restored")


class HistoryUnknown(ClientError):
    """The previous offsets of these partitions are unknown: the history does not go back so far."""

    def __init__(
        self, group_id: str, partitions: Sequence[TopicPartition], time: Millis | None = None
    ) -> None:
        """The offsets at `time` (ms) are unknown; None: those before the last change."""
        self.group_id = group_id
        self.partitions = tuple(partitions)
        self.time = time
        when = "before the last change" if time is None else "at that time"
        super().__init__(f"group {group_id}: the offset {when} is unknown in {first_of(self.partitions)}")
