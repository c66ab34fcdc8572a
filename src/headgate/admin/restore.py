"""Putting offsets back: pure rules, from what is known of the past to what a partition gets.

What is not known is never guessed: a partition of which it is not known what stood there makes the whole plan
impossible. So does one whose topic was deleted since, even if another has its name: offsets of the one are
nothing in the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.admin.arguments import several
from headgate.admin.errors import HistoryUnknown, NothingToReset, TopicGone
from headgate.client.history import Earlier, OffsetHistory, PartitionHistory, Scope, TopicNow
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId, TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetAsOf:
    """What a partition's offset was at a time."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """None: it had none, if that is known."""
    is_known: bool
    since: Millis | None
    """When it came into force, or was removed; None where it never had an offset, or that is not known."""
    topic_now: TopicNow = TopicNow.SAME


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What a restore does to one partition."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """What is committed while it is planned; None: nothing."""
    restored: CommittedOffset | None
    """What is to be committed; None: the offset is removed."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """The topic that is meant, and none that may have its name later; zero: whichever has the name."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """The last change of a group, and how it is taken back."""

    changed_at: Millis
    partitions: tuple[PlannedRestore, ...]
    took_back: Millis | None = None
    """When the change was made that the last change took back, as an undo does; None: it took none back."""


Places = Iterable[TopicPartition | str] | None
"""Partitions, or names of topics that stand for all of theirs; None: everything the group ever had."""


def scope_of(places: Places) -> Scope:
    """Return the partitions by topic. Raises TypeError for one bare string: a name goes into a list."""
    if places is None:
        return None
    topics: dict[TopicName, list[int] | None] = {}
    for place in several(places):
        if isinstance(place, str):
            topics[TopicName(place)] = None
        elif (partitions := topics.setdefault(place.topic, [])) is not None:
            partitions.append(place.partition)
    return topics


def is_within(scope: Scope, where: TopicPartition) -> bool:
    """Whether a partition is among those of a scope."""
    if scope is None:
        return True
    partitions = scope.get(where.topic, ())
    return partitions is None or where.partition in partitions


def as_of(history: OffsetHistory) -> list[OffsetAsOf]:
    """What was in force in each partition, in order."""
    found = []
    for each in sorted(history.partitions, key=lambda one: one.partition):
        change = each.changes[0] if each.changes else None
        committed = change.committed if change else None
        is_known = change is not None or each.earlier is Earlier.NOTHING
        since, topic_now = (change.time, change.topic_now) if change else (None, TopicNow.SAME)
        found.append(OffsetAsOf(each.partition, committed, is_known, since, topic_now))
    return found


def plan_undo(group_id: GroupId, history: OffsetHistory) -> PlannedUndo:
    """How the last change is taken back. Raises `NothingToReset`, `TopicGone`, `HistoryUnknown`."""
    if not history.partitions:
        raise NothingToReset(f"no change of group {group_id} is known that could be undone")
    # A topic that went in the very millisecond of the last change is no part of it.
    changed = [each for each in history.partitions if each.changes[0].topic_now is TopicNow.SAME]
    if not changed:
        raise _gone(group_id, history, [each.partition for each in history.partitions])
    planned, unknown = [], []
    for each in changed:
        newest, *before = each.changes
        if not before and each.earlier is not Earlier.NOTHING:
            unknown.append(each.partition)
            continue
        restored = before[0].committed if before and before[0].topic_now is TopicNow.SAME else None
        planned.append(_planned(history, each.partition, newest.committed, restored))
    if unknown:
        raise HistoryUnknown(group_id, unknown)
    changed_at = max(each.changes[0].time for each in changed)
    return PlannedUndo(changed_at, tuple(sorted(planned, key=lambda one: one.partition)))


LOOKED_BACK = 3
"""Of how many changes a partition's newest ones tell whether the last change took back the one before it."""


def taken_back(planned: PlannedUndo, history: OffsetHistory) -> Millis | None:
    """Return the time of the change that the last change took back; None if it took none back.

    `history` has the `LOOKED_BACK` newest changes of the planned partitions. The last change took another
    back if it restored, in every partition, what was committed before that other one. Where it only
    removed offsets it was more likely a deletion, and took nothing back.
    """
    if all(each.committed is None for each in planned.partitions):
        return None
    changes = {each.partition: each for each in history.partitions}
    times = [_time_taken_back(each, changes.get(each.partition)) for each in planned.partitions]
    return max((time for time in times if time is not None), default=None) if None not in times else None


def _time_taken_back(planned: PlannedRestore, history: PartitionHistory | None) -> Millis | None:
    changes = list(history.changes[:LOOKED_BACK]) if history is not None else []
    if history is None or any(each.topic_now is not TopicNow.SAME for each in changes) or len(changes) < 2:
        return None
    if len(changes) < LOOKED_BACK and history.earlier is not Earlier.NOTHING:
        return None
    first = changes[2].committed if len(changes) == LOOKED_BACK else None
    newest, before = changes[:2]
    is_as_planned = (newest.committed, before.committed) == (planned.committed, planned.restored)
    return before.time if is_as_planned and newest.committed == first != before.committed else None


def plan_restore(
    group_id: GroupId,
    time: Millis,
    history: OffsetHistory,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[PlannedRestore]:
    """How offsets become what they were at a time; `committed` has what there is now within the scope.

    Partitions that are as they were are left out. Raises `TopicGone`, `HistoryUnknown`.
    """
    found = as_of(history)
    gone = [each.partition for each in found if each.topic_now is not TopicNow.SAME and each.committed]
    if gone:
        raise _gone(group_id, history, gone)
    was = {each.partition: each.committed for each in found if each.is_known}
    unknown = {each.partition for each in found if not each.is_known}
    for partition in committed.keys() - was.keys() - unknown:
        if time < history.known_since:
            unknown.add(partition)
        else:
            was[partition] = None
    if unknown:
        raise HistoryUnknown(group_id, sorted(unknown), time)
    return [
        _planned(history, partition, committed.get(partition), restored)
        for partition, restored in sorted(was.items())
        if committed.get(partition) != restored
    ]


def topic_ids(planned: Iterable[PlannedRestore]) -> dict[TopicName, TopicId]:
    """The ids of the topics that are meant, as far as they are known."""
    return {each.partition.topic: each.topic_id for each in planned if each.topic_id != ZERO_TOPIC_ID}


def _planned(
    history: OffsetHistory,
    partition: TopicPartition,
    committed: CommittedOffset | None,
    restored: CommittedOffset | None,
) -> PlannedRestore:
    topic = history.topics.get(partition.topic)
    return PlannedRestore(partition, committed, restored, topic.topic_id if topic else ZERO_TOPIC_ID)


def _gone(group_id: GroupId, history: OffsetHistory, partitions: Iterable[TopicPartition]) -> TopicGone:
    created = {
        name: topic.created if (topic := history.topics.get(name)) else None
        for name in sorted({partition.topic for partition in partitions})
    }
    return TopicGone(group_id, created)
