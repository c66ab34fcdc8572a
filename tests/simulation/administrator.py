"""An administrator of groups with members: pauses partitions, sets their offsets, and resumes them.

It does not wait for the release as it should: many of its commits are to be refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.simulation.clients import Client, some_condition
from tests.simulation.requests import RETRIABLE, error_of
from tests.simulation.surroundings import READ_TOPICS, Surroundings

from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from headgate.core.pause.commands import (
    ListPausedPartitions,
    PausedList,
    PausePartitions,
    ResumePartitions,
)
from headgate.domain.ids import GroupId, TopicId, TopicName

NamedPart = tuple[str, int]


class Administrator(Client):
    """One administrator, of several groups."""

    def __init__(self, surroundings: Surroundings, group_ids: Sequence[str]) -> None:
        super().__init__(surroundings.network)
        self._surroundings = surroundings
        self._group_ids = group_ids
        self._known: dict[str, dict[NamedPart, int]] = {one: {} for one in group_ids}
        """The paused partitions with their offsets, as last listed, by group."""

    def act(self) -> None:
        """Send one request; none in a calm period."""
        if self._surroundings.is_calm:
            self.soon(1.0)
            return
        group_id = self.random.choice(self._group_ids)
        command = self._some_command(group_id)
        self.ask(group_id, command, partial(self._on_result, group_id, command))

    def change_pauses(self) -> None:
        """Pause or resume some partitions, also in a calm period."""
        for group_id in self._group_ids:
            change = self._pause if self.random.random() < 0.5 else self._resume
            self.network.send(group_id, change(group_id), lambda result: None)

    def _some_command(self, group_id: str) -> Any:
        dice = self.random.random()
        if dice < 0.28:
            return ListPausedPartitions(GroupId(group_id))
        if dice < 0.50:
            return self._pause(group_id)
        if dice < 0.76:
            return self._commit(group_id)
        if dice < 0.80:
            return self._delete(group_id)
        if dice < 0.85:
            return FetchOffsets(GroupId(group_id), None)
        if dice < 0.86:
            return DeleteGroup(GroupId(group_id))
        return self._resume(group_id)

    def _on_result(self, group_id: str, command: Any, result: Any) -> None:
        if isinstance(result, PausedList):
            self._known[group_id] = {
                (topic.name, row.partition): row.offset for topic in result.topics for row in topic.partitions
            }
        self.soon(0.5 if error_of(result) in RETRIABLE else None)

    # --- commands ---

    def _pause(self, group_id: str) -> PausePartitions:
        counts, ids = self._surroundings.partition_counts(), self._surroundings.topic_ids()
        partitions: list[tuple[TopicId, list[int]]] = []
        for name in self.random.sample(sorted(counts), min(len(counts), self.random.choice((1, 1, 2)))):
            width = min(counts[name], self.random.choice((1, 1, 2, 7)))
            partitions.append((ids[name], self.random.sample(range(counts[name]), width)))
        return PausePartitions(group_id=GroupId(group_id), partitions=partitions, caller="simulated")

    def _resume(self, group_id: str) -> ResumePartitions:
        ids = self._surroundings.topic_ids()
        share = self.random.choice((0.3, 1.0))
        partitions = [
            (ids[TopicName(name)], [one])
            for name, one in self._known[group_id]
            if name in ids and self.random.random() < share
        ]
        return ResumePartitions(group_id=GroupId(group_id), partitions=partitions)

    def _some_parts(self, group_id: str) -> dict[TopicName, list[int]]:
        """Return some paused partitions; sometimes also one that may not be paused."""
        known = sorted(self._known[group_id])
        parts = self.random.sample(known, self.random.choice((1, len(known)))) if known else []
        if not parts or self.random.random() < 0.1:
            parts.append((self.random.choice(READ_TOPICS), self.random.randrange(3)))
        topics: dict[TopicName, list[int]] = {}
        for name, one in dict.fromkeys(parts):
            topics.setdefault(TopicName(name), []).append(one)
        return topics

    def _commit(self, group_id: str) -> CommitOffsets:
        number = self.network.next_number()
        topics = [
            (name, [OffsetToCommit(one, number, -1, "") for one in each])
            for name, each in self._some_parts(group_id).items()
        ]
        command = CommitOffsets(GroupId(group_id), topics, knows_group_not_found=self.random.random() < 0.5)
        if self.random.random() < 0.4:
            some_condition(self, command, self._known[group_id])
        return command

    def _delete(self, group_id: str) -> DeleteOffsets:
        return DeleteOffsets(GroupId(group_id), list(self._some_parts(group_id).items()))
