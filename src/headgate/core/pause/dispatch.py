"""The commands that pause, resume and list partitions, for all kinds of groups that can be paused."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headgate.core.contract import Effects, Token
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.groups import Groups, OnlyCommitted
from headgate.core.kinds import GroupKind, Handler, ShardContext
from headgate.core.offsets.table import OffsetTable
from headgate.core.pause.commands import (
    ListedPartition,
    ListPausedPartitions,
    PartitionsByTopic,
    PausedList,
    PausedTopic,
    PausePartitions,
    PauseResult,
    PauseState,
    ReadPauses,
    ResumePartitions,
)
from headgate.core.pause.contract import Pausing
from headgate.core.pause.paused import record_of, with_paused, without
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.records import Pause, PausedPartitions, encode
from headgate.records.columns import Int64s

MOST_RECORD_BYTES = 700_000
"""Maximum size of the record of a group's paused partitions after a pause.

It must fit into one batch, also after resumes of some of them: then it can be larger by a third, because
the pauses get other numbers (`headgate.records.paused_partitions`).
"""
_BYTES_A_PARTITION = 8
_BYTES_A_TOPIC = 32
_BYTES_A_PAUSE = 8192
"""Upper bounds of the size of a part of that record."""
_NOT_PAUSED, _PAUSING, _PAUSED = PauseState
"""Local names are looked up faster than members of the class: a request may have ten thousand partitions."""
LISTED_AT_ONCE = 1000
"""Partitions per reply; each takes some microseconds."""


class PauseDispatch:
    """Handles the commands of paused partitions."""

    __slots__ = ("_groups", "_knows_topics", "_offsets", "_paused", "_pausing", "_system_time", "_topics")

    def __init__(
        self,
        context: ShardContext,
        groups: Groups,
        offsets: OffsetTable,
        pausing: Mapping[str, Pausing | None],
    ) -> None:
        """`pausing` has the `Pausing` of each kind of groups, by name; None if it cannot be paused."""
        self._paused = context.paused
        self._topics = context.topics
        self._system_time = context.system_time
        self._groups = groups
        self._offsets = offsets
        self._pausing = pausing
        self._knows_topics = False

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        return {
            PausePartitions: self.pause,
            ResumePartitions: self.resume,
            ListPausedPartitions: self.list,
            ReadPauses: self.read,
        }

    # --- commands ---

    def pause(self, command: PausePartitions, now: Millis, token: Token) -> GroupEffects:
        """Pause partitions: exclude them from the group's assignments. Those of deleted topics are not
        paused.
        """
        pausing = self._find(command.group_id)
        if isinstance(pausing, PauseResult):
            return answer(token, pausing)
        before = self._paused.of(command.group_id)
        pause = Pause(self._system_time.at(now), command.caller, command.reason)
        # A topic may have been deleted since the request was read: nobody could resume its partitions.
        existing = [one for one in command.partitions if self._topics.name_of(one[0]) is not None]
        after = with_paused(before, existing, pause)
        refusal = _too_large(command.group_id, before, after)
        if refusal is not None:
            return answer(token, refusal)
        return self._changed(pausing, command, after, now, token)

    def resume(self, command: ResumePartitions, now: Millis, token: Token) -> GroupEffects:
        """Resume partitions."""
        pausing = self._find(command.group_id)
        if isinstance(pausing, PauseResult):
            return answer(token, pausing)
        before = self._paused.of(command.group_id)
        after = without(before, command.partitions, only_of_rewinds=command.only_of_rewinds)
        return self._changed(pausing, command, after, now, token)

    def list(self, command: ListPausedPartitions, now: Millis, token: Token) -> GroupEffects:
        """List some of the paused partitions of a group."""
        pausing = self._find(command.group_id)
        if isinstance(pausing, PauseResult):
            return answer(token, pausing)
        return answer(token, self._listed(pausing, command))

    def read(self, command: ReadPauses, now: Millis, token: Token) -> GroupEffects:
        """Read all pauses of a group."""
        return answer(token, self._paused.of(command.group_id))

    def _find(self, group_id: GroupId) -> Pausing | PauseResult:
        """Return the `Pausing` of the group, or why it cannot be paused."""
        if not group_id:
            return PauseResult(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
        if group_id in self._groups.being_deleted:
            return PauseResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The group is being deleted.")
        kind = self._groups.find(group_id)
        if kind is None:
            return PauseResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        pausing = self._pausing.get(kind.NAME)
        if pausing is None:
            return PauseResult(ErrorCode.GROUP_ID_NOT_FOUND, _cannot_be_paused(group_id, kind))
        return pausing

    def _changed(
        self,
        pausing: Pausing,
        command: PausePartitions | ResumePartitions,
        after: PausedPartitions,
        now: Millis,
        token: Token,
    ) -> GroupEffects:
        group_id = command.group_id
        result = PauseResult(states=self._states(pausing, group_id, command.partitions, after))
        if after is self._paused.of(group_id):
            return answer(token, result)
        changed: GroupEffects = Effects((record_of(group_id, after),))
        return together(changed, pausing.repaused(group_id, after, now), answer(token, result))

    def _states(
        self, pausing: Pausing, group_id: GroupId, partitions: PartitionsByTopic, paused: PausedPartitions
    ) -> Sequence[Sequence[PauseState]]:
        states: list[Sequence[PauseState]] = []
        for topic_id, indexes in partitions:
            of_topic, owners = paused.get(topic_id, {}), pausing.owners_of(group_id, topic_id)
            states.append(
                [
                    (_PAUSING if index in owners else _PAUSED) if index in of_topic else _NOT_PAUSED
                    for index in indexes
                ]
            )
        return states

    def are_released(self, group_id: GroupId, topic: TopicName, partitions: Sequence[int]) -> bool:
        """Return whether all these partitions of a topic are paused and none has an owner."""
        paused, known = self._paused.of(group_id), self._topics.find(topic)
        kind = self._groups.find(group_id)
        pausing = None if kind is None else self._pausing.get(kind.NAME)
        if pausing is None or known is None or known.topic_id not in paused:
            return False
        pauses, owners = paused[known.topic_id], pausing.owners_of(group_id, known.topic_id)
        return all(one in pauses and one not in owners for one in partitions)

    # --- listing ---

    def _listed(self, pausing: Pausing, command: ListPausedPartitions) -> PausedList:
        paused = self._paused.of(command.group_id)
        first_topic, last_partition = command.after or (TopicId(b""), -1)
        listed: list[PausedTopic] = []
        room = LISTED_AT_ONCE
        for topic_id in sorted(paused):
            name = self._topics.name_of(topic_id)
            if topic_id < first_topic or name is None:
                continue
            indexes = sorted(paused[topic_id])
            if topic_id == first_topic:
                indexes = indexes[bisect_right(indexes, last_partition) :]
            some = indexes[:room]
            room -= len(some) or 1
            if some:
                offsets = self._offsets.get_offsets(command.group_id, name, np.array(some, np.int64))
                owners = pausing.owners_of(command.group_id, topic_id)
                rows = _rows(some, owners, paused[topic_id], offsets)
                listed.append(PausedTopic(topic_id, name, rows))
            if room <= 0:
                return PausedList(listed, (topic_id, some[-1] if some else last_partition))
        return PausedList(listed, None)

    # --- topics ---

    def topics_changed(self, gone: Collection[TopicId], now: Millis) -> GroupEffects:
        """Remove the pauses of deleted topics: at first those of all unknown topics, later those of
        `gone`.
        """
        is_first, self._knows_topics = not self._knows_topics, True
        if not (self._paused.by_group and (is_first or gone)):
            return NOTHING
        effects: list[GroupEffects] = []
        for group_id, paused in self._paused.by_group.items():
            kind = self._groups.find(group_id)
            left = {one: pauses for one, pauses in paused.items() if self._topics.name_of(one) is not None}
            pausing = None if kind is None else self._pausing.get(kind.NAME)
            if pausing is None:
                effects.append(Effects(self._paused.tombstones(group_id)))
            elif len(left) < len(paused):
                effects += [Effects((record_of(group_id, left),)), pausing.repaused(group_id, left, now)]
        return together(*effects)


def _rows(
    indexes: Iterable[int], owners: Mapping[int, Any], pauses: Mapping[int, Pause], offsets: Int64s
) -> Sequence[ListedPartition]:
    return [
        ListedPartition(index, owners.get(index), pauses[index], offset)
        for index, offset in zip(indexes, offsets.tolist(), strict=True)
    ]


def _too_large(group_id: GroupId, before: PausedPartitions, after: PausedPartitions) -> PauseResult | None:
    if after is before or _most_bytes(after) <= MOST_RECORD_BYTES:
        return None
    _, value = encode(record_of(group_id, after))
    if value is None or len(value) <= MOST_RECORD_BYTES:
        return None
    count = sum(map(len, after.values()))
    message = f"{count} paused partitions of group {group_id} are more than one record holds. Pause fewer."
    return PauseResult(ErrorCode.INVALID_REQUEST, message)


def _most_bytes(paused: PausedPartitions) -> int:
    pauses: set[int] = set()
    for partitions in paused.values():
        pauses.update(map(id, partitions.values()))
    count = sum(map(len, paused.values()))
    return _BYTES_A_PARTITION * count + _BYTES_A_TOPIC * len(paused) + _BYTES_A_PAUSE * len(pauses)


def _cannot_be_paused(group_id: GroupId, kind: GroupKind | OnlyCommitted) -> str:
    """Return why groups of a kind cannot be paused, and what to do."""
    if kind.is_empty(group_id):
        return (
            f"Group {group_id} is a {kind.NAME} group without members: there is nobody to pause. "
            "Its offsets can be reset as it is."
        )
    return (
        f"Group {group_id} is a {kind.NAME} group: its members assign the partitions themselves, so the "
        "coordinator cannot take any out. Move the group to the consumer protocol (group.protocol=consumer "
        "in its members, one after the other; the group keeps running), then pause."
    )
