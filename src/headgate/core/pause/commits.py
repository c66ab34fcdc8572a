"""Rules for commits of paused partitions' offsets:

1. An administrator (no member id, no generation) may commit to a group with members if every partition of the
   commit is paused and has no owner. A partition that is not paused is refused with UNKNOWN_MEMBER_ID, as
   without pauses; otherwise one with an owner is refused with REBALANCE_IN_PROGRESS, which Kafka's admin
   clients retry.
2. A member may commit to a paused partition while it owns it: its last commit before the revocation is
   accepted. After the revocation no member may, in any epoch.
3. A transactional commit without a member is accepted while any member owns the paused partition: that member
   may be its consumer. After the revocation it is refused, because no consumer may process the partition.
4. An offset that is pending when its partition is paused remains pending. Its transaction decides, unless an
   administrator commits meanwhile: that commit is later in the log, and remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.core.offsets.commands import CommitOffsets, OffsetColumns, ToCommit
from headgate.core.topic_image import TopicImage
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName
from headgate.records import PausedPartitions

IsOwned = Callable[[TopicId, int], bool]


def is_administrative(command: CommitOffsets) -> bool:
    """Whether a commit comes from no member."""
    return not command.member_id and command.generation < 0 and command.instance_id is None


def administrative_error(
    command: CommitOffsets, topics: TopicImage, paused: PausedPartitions, is_owned: IsOwned
) -> ErrorCode:
    """Return why a group with members refuses an administrator's commit; NONE if it does not.

    `is_owned` tells whether any member owns a partition.
    """
    is_any_owned = False
    for name, partitions in partitions_of(command):
        topic = topics.find(name)
        pauses = {} if topic is None else paused.get(topic.topic_id, {})
        for partition in partitions:
            if topic is None or partition not in pauses:
                return ErrorCode.UNKNOWN_MEMBER_ID
            is_any_owned = is_any_owned or is_owned(topic.topic_id, partition)
    return ErrorCode.REBALANCE_IN_PROGRESS if is_any_owned else ErrorCode.NONE


def is_any_withheld(
    command: CommitOffsets, topics: TopicImage, paused: PausedPartitions, is_own: IsOwned
) -> bool:
    """Return whether a commit has a paused partition that its member, or any member, does not own.

    `is_own` tells what it owns.
    """
    for name, partitions in command.topics:
        topic = topics.find(name)
        pauses = None if topic is None else paused.get(topic.topic_id)
        if topic is None or pauses is None:
            continue
        indexes = _indexes(partitions)
        if not pauses.keys().isdisjoint(indexes) and not all(
            is_own(topic.topic_id, one) for one in indexes if one in pauses
        ):
            return True
    return False


def partitions_of(command: CommitOffsets) -> Iterator[tuple[TopicName, Iterable[int]]]:
    """Yield the partitions of a commit, topic by topic."""
    for name, partitions in command.topics:
        yield name, _indexes(partitions)


def _indexes(partitions: ToCommit) -> list[int]:
    if isinstance(partitions, OffsetColumns):
        indexes: list[int] = partitions.partitions.tolist()
        return indexes
    return [one.partition for one in partitions]
