"""The plans of an undo and of a restore: pure functions that compute offsets from the history.

Unknown offsets are never guessed: a plan fails if the previous offset of any partition is unknown. It also
fails if a topic was deleted since, even if another topic has its name, because the offsets belong to the
deleted topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headgate.admin.errors import HistoryUnknown, NothingToReset, TopicGone
from headgate.client.history import ChangeAuthor, Earlier, OffsetHistory, Scope, TopicNow
from headgate.client.offsets import NO_LEADER_EPOCH, CommittedOffset
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName, TopicPartition, topic_id_of


@dataclass(frozen=True, slots=True)
class OffsetAsOf:
    """The offset of a partition at a time in the past."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """None: there was no offset, if `is_known`."""
    is_known: bool
    """Whether the history goes back so far."""
    since: Millis | None
    """When the offset was committed or removed, in ms; None: it never existed, or that is unknown."""
    topic_now: TopicNow = TopicNow.SAME
    """The present state of the topic."""


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """The planned restore of one partition."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """The committed offset at the time of the plan; None: no committed offset."""
    restored: CommittedOffset | None
    """The offset to commit; None: the committed offset is removed."""
    topic_id: str | None = None
    """The id of the topic as Kafka's tools print it, so that the plan fails if the topic is deleted. None:
    identified by name.
    """
    past_offset: int | None = None
    """The offset of the past, if its records were removed since. A restore then has the start of the log as
    `restored`; an undo has the offset of the past itself.
    """
    log_start: int | None = None
    """The start of the log, if `past_offset` is set."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """The planned undo of a group's last change."""

    changed_at: Millis
    """The time of the last change, in ms."""
    partitions: tuple[PlannedRestore, ...]
    took_back: Millis | None = None
    """If the last change was itself an undo, the time of the change that it undid, in ms; else None."""
    author: ChangeAuthor | None = None
    """Who made the last change; None: a consumer, an expiry, or somebody who is not known."""


ChosenPartitions = Iterable[TopicPartition | str] | None
"""Partitions, or names of topics with all their partitions. None: all partitions in the group's history."""


def scope_of(places: ChosenPartitions) -> Scope:
    """Return the partitions by topic."""
    if places is None:
        return None
    topics: dict[TopicName, list[int] | None] = {}
    for place in places:
        if isinstance(place, str):
            topics[TopicName(place)] = None
        elif (partitions := topics.setdefault(place.topic, [])) is not None:
            partitions.append(place.partition)
    return topics


def is_within(scope: Scope, where: TopicPartition) -> bool:
    """Tell whether a partition belongs to a scope."""
    if scope is None:
        return True
    partitions = scope.get(where.topic, ())
    return partitions is None or where.partition in partitions


def as_of(history: OffsetHistory) -> list[OffsetAsOf]:
    """Return the past offset of each partition, sorted."""
    found = []
    for each in sorted(history.partitions, key=lambda one: one.partition):
        change = each.changes[0] if each.changes else None
        committed = change.committed if change else None
        is_known = change is not None or each.earlier is Earlier.NOTHING
        since, topic_now = (change.time, change.topic_now) if change else (None, TopicNow.SAME)
        found.append(OffsetAsOf(each.partition, committed, is_known, since, topic_now))
    return found


def plan_undo(group_id: GroupId, history: OffsetHistory) -> PlannedUndo:
    """Plan the undo of the last change. Raises `NothingToReset`, `TopicGone`, `HistoryUnknown`."""
    if not history.partitions:
        raise NothingToReset(f"group {group_id} has no known change to undo")
    # Topics deleted in the same millisecond do not belong to the last change.
    changed = [each for each in history.partitions if each.changes[0].topic_now is TopicNow.SAME]
    if not changed:
        raise _gone(group_id, history, [each.partition for each in history.partitions])
    planned, unknown = [], []
    for each in changed:
        last, *before = each.changes
        if not before and each.earlier is not Earlier.NOTHING:
            unknown.append(each.partition)
            continue
        restored = before[0].committed if before and before[0].topic_now is TopicNow.SAME else None
        planned.append(_planned(history, each.partition, last.committed, restored))
    if unknown:
        raise HistoryUnknown(group_id, unknown)
    newest = [each.changes[0] for each in changed]
    undone = [change.undone_at for change in newest if change.undone_at is not None]
    return PlannedUndo(
        max(change.time for change in newest),
        tuple(sorted(planned, key=lambda one: one.partition)),
        max(undone) if len(undone) == len(newest) else None,
        newest[0].author,
    )


def plan_restore(
    group_id: GroupId,
    time: Millis,
    history: OffsetHistory,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[PlannedRestore]:
    """Plan the restore of the offsets at `time`. `committed` has the present offsets of the scope.

    Partitions whose offset is already right are omitted. Raises `TopicGone`, `HistoryUnknown`, and
    `NothingToReset` if nothing is known of the scope, neither then nor now: its names are probably mistyped.
    """
    found = as_of(history)
    if not found and not committed:
        raise NothingToReset(f"group {group_id} has no known offsets there, neither then nor now")
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


def from_log_starts(
    planned: Iterable[PlannedRestore], starts: Mapping[TopicPartition, int], *, moves: bool
) -> list[PlannedRestore]:
    """Note the offsets before the starts of their logs.

    With `moves` the starts are taken instead, and partitions that are there already are omitted.
    """
    found = []
    for each in planned:
        start = starts.get(each.partition)
        if start is not None and each.restored is not None and each.restored.offset < start:
            moved = CommittedOffset(start, NO_LEADER_EPOCH, each.restored.metadata)
            if moves and moved == each.committed:
                continue  # it is there already
            restored = moved if moves else each.restored
            each = replace(each, restored=restored, past_offset=each.restored.offset, log_start=start)
        found.append(each)
    return found


def topic_ids(planned: Iterable[PlannedRestore]) -> dict[TopicName, TopicId]:
    """Return the known ids of the planned topics."""
    return {each.partition.topic: topic_id_of(each.topic_id) for each in planned if each.topic_id is not None}


def _planned(
    history: OffsetHistory,
    partition: TopicPartition,
    committed: CommittedOffset | None,
    restored: CommittedOffset | None,
) -> PlannedRestore:
    topic = history.topics.get(partition.topic)
    return PlannedRestore(partition, committed, restored, topic.topic_id if topic else None)


def _gone(group_id: GroupId, history: OffsetHistory, partitions: Iterable[TopicPartition]) -> TopicGone:
    created = {
        name: topic.created if (topic := history.topics.get(name)) else None
        for name in sorted({partition.topic for partition in partitions})
    }
    return TopicGone(group_id, created)
