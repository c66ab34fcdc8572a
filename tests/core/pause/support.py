"""Consumer groups under test whose partitions are paused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.core.consumer.support import ConsumerHarness, G, Pairs, topic_id
from tests.core.kinds_of_shard import consumer_groups

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.core.pause.commands import (
    ListPausedPartitions,
    PausedList,
    PausePartitions,
    PauseResult,
    PauseState,
    ResumePartitions,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName


class PauseHarness(ConsumerHarness):
    """A shard, with shorthands for pauses. No target ever has a paused partition."""

    def pause(self, *partitions: tuple[str, int], reason: str = "", group_id: str = G) -> PauseResult:
        """Pause partitions, by topic name and index."""
        return self._result(
            PausePartitions(
                group_id=GroupId(group_id), partitions=_by_id(partitions), caller="somebody", reason=reason
            )
        )

    def resume(self, *partitions: tuple[str, int], group_id: str = G) -> PauseResult:
        """Resume partitions."""
        return self._result(ResumePartitions(group_id=GroupId(group_id), partitions=_by_id(partitions)))

    def _result(self, command: PausePartitions | ResumePartitions) -> PauseResult:
        result = self.ask(command)
        assert isinstance(result, PauseResult)
        return result

    def paused(self) -> Pairs:
        """What the group has paused, as a list of it says."""
        return frozenset(self.states())

    def states(self) -> dict[tuple[str, int], PauseState]:
        """The state of each paused partition, as a list of it says."""
        listed = self.ask(ListPausedPartitions(G))
        assert isinstance(listed, PausedList), listed
        assert listed.rest is None
        return {(topic.name, one.partition): one.state for topic in listed.topics for one in topic.partitions}

    def reset(self, *partitions: tuple[str, int], offset: int = 100) -> ErrorCode:
        """An administrator sets offsets; the error."""
        to_commit = [(TopicName(name), [OffsetToCommit(one, offset, -1, "")]) for name, one in partitions]
        return ErrorCode(self.ask(CommitOffsets(G, to_commit)).error)

    def reload(self) -> None:
        """Crash; what is paused stays so."""
        before = dict(self.shard.paused.by_group)
        super().reload()
        assert self.shard.paused.by_group == before

    def check_paused(self) -> None:
        """What always holds: no target has a paused partition, and no group without a record has any."""
        for group_id, paused in self.shard.paused.by_group.items():
            group = consumer_groups(self.shard).find(group_id)
            assert group is not None
            for target in group.targets.values():
                for one, partitions in target.partitions.items():
                    assert paused.get(one, {}).keys().isdisjoint(partitions)

    def ask(self, command: Any) -> Any:
        """Hand a command in, and check what always holds."""
        result = super().ask(command)
        self.check_paused()
        return result


def _by_id(partitions: Iterable[tuple[str, int]]) -> list[tuple[TopicId, list[int]]]:
    return [(topic_id(name), [partition]) for name, partition in partitions]
