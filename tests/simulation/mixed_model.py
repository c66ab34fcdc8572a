"""The promise of a group with members of both protocols: commits of former owners are refused.

The owner of each partition and the epoch of its assignment follow from the answers alone. After an answer
that assigned a partition to a member, no other member that had it may commit it in an earlier epoch
(KIP-1251). A member of the classic protocol commits the partitions that it believes to own, and may do so for
a while after the answer that revokes one. A member of the new protocol is judged by the answers it got: in
its current epoch it may also commit partitions of other members (R1.2).

Epochs start again when a group of another type replaces the group: then nothing is known of it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.core.migration.support import assigned_pairs
from tests.simulation.member_view import Part
from tests.simulation.requests import Request, Violation, each_to_commit, error_of

from headgate.core.classic.commands import JoinGroup, SyncGroup
from headgate.core.commands import DeleteGroup
from headgate.core.consumer.commands import ConsumerHeartbeat
from headgate.core.offsets.commands import CommitOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicId, TopicName

TopicIds = Mapping[TopicName, TopicId]


class Given(NamedTuple):
    """The last owner of a partition, and the minimum epoch of its assignment."""

    member_id: MemberId
    epoch: int


@dataclass
class Told:
    """The answers to one member."""

    epoch: int = 0
    parts: frozenset[Part] = frozenset()
    is_classic: bool = False
    asked: int = 0
    """Number of its requests since the last one that was answered."""
    is_vague: bool = False
    """An answer of this round was lost: its partitions may be of an earlier epoch."""


class MixedGroupModel:
    """One group, over all lives of its shard."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._forget()
        self.judged = 0
        """Number of commits of members that had to be refused."""

    def _forget(self) -> None:
        self._told: dict[MemberId, Told] = {}
        self._given: dict[Part, Given] = {}
        self._had: set[tuple[MemberId, Part]] = set()
        self._highest = 0
        self._zombies: dict[int, str] = {}
        """By request, why its commit must be refused."""

    def arrived(self, request: Request, topic_ids: TopicIds) -> None:
        """Note which answer would be wrong."""
        match request.command:
            case CommitOffsets(member_id=member_id, generation=generation) if generation >= 0:
                self._look(request, MemberId(member_id), generation, topic_ids)
            case ConsumerHeartbeat(member_id=member_id):
                self._of(member_id).asked += 1
            case JoinGroup(member_id=member_id) | SyncGroup(member_id=member_id) if member_id:
                self._of(member_id).asked += 1

    def _of(self, member_id: MemberId) -> Told:
        return self._told.setdefault(member_id, Told())

    def _look(self, request: Request, member_id: MemberId, generation: int, topic_ids: TopicIds) -> None:
        told = self._of(member_id)
        for name, each in request.command.topics:
            for one in each_to_commit(each):
                if name not in topic_ids:
                    continue
                part = topic_ids[name], one.partition
                given = self._given.get(part)
                if (
                    given is not None
                    and given.member_id != member_id
                    and given.epoch > generation
                    and (member_id, part) in self._had
                    and (told.is_classic or part in told.parts)
                ):
                    self._zombies[request.number] = f"{name}-{one.partition} was given to {given}"

    def answered(self, request: Request, result: Any, topic_ids: TopicIds) -> None:
        """Check the answer to a commit; note the assignments in other answers."""
        command = request.command
        if isinstance(command, CommitOffsets):
            why = self._zombies.pop(request.number, None)
            if why is not None:
                self.judged += 1
                if error_of(result) is ErrorCode.NONE:
                    raise Violation(f"{request} was accepted, but {why}")
            return
        if error_of(result):
            return
        match command:
            case ConsumerHeartbeat() if command.member_epoch >= 0:
                told = self._in_epoch(result.member_id, result.member_epoch, is_classic=False)
                if result.assigned is not None:
                    parts = {(topic_id, one) for topic_id, each in result.assigned.items() for one in each}
                    self._has(result.member_id, told, parts)
            case JoinGroup():
                self._in_epoch(result.member_id, result.generation, is_classic=True)
            case SyncGroup():
                told = self._of(command.member_id)
                told.is_vague = told.is_vague or told.asked != 1
                told.asked = 0
                pairs = assigned_pairs(result.assignment)
                parts = {(topic_ids[TopicName(name)], one) for name, one in pairs if name in topic_ids}
                self._has(command.member_id, told, parts)
            case DeleteGroup():
                self._forget()

    def _in_epoch(self, member_id: MemberId, epoch: int, *, is_classic: bool) -> Told:
        told = self._of(member_id)
        if epoch < (told.epoch or self._highest):
            self._forget()
            told = self._of(member_id)
            told.is_vague = True
        else:
            told.is_vague = told.asked != 1
        told.asked = 0
        told.epoch, told.is_classic = epoch, is_classic
        self._highest = max(self._highest, epoch)
        return told

    def _has(self, member_id: MemberId, told: Told, parts: Iterable[Part]) -> None:
        before, told.parts = told.parts, frozenset(parts)
        for part in told.parts:
            if part not in before:
                self._given[part] = Given(member_id, 0 if told.is_vague else told.epoch)
            self._had.add((member_id, part))
