"""What repeats have in common (`headgate.api.contract.Repeat`): each is about one group and some topics.

A topic that was deleted never comes back: one of its name is another. So a repeat that means topics as they
were keeps hold of them, and is current as long as none of them is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headgate.api.contract import Node, RepeatedCalls
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.repeats import WrittenResponse

if TYPE_CHECKING:
    from headgate.topics.topic import Topic


KEPT_BYTES: Final = 800
"""What a repeat of one group takes that keeps nothing for each partition."""


class GroupRepeat:
    """A request about one group."""

    __slots__ = ("_topics", "group_id", "kept_bytes", "shard", "weight_bytes")

    def __init__(
        self, node: Node, group_id: GroupId, topics: Iterable[Topic] = (), weight_bytes: int = 0
    ) -> None:
        """`topics` are what it cannot mean the same without; for `weight_bytes` see `Repeat`."""
        self.weight_bytes = weight_bytes
        self.kept_bytes = KEPT_BYTES
        """See `Repeat`; more for one that keeps more."""
        self.group_id = group_id
        self.shard = node.coordinator.partition_of(group_id)
        self._topics = list(topics)

    def is_current(self, node: Node) -> bool:
        """Whether every topic is still there."""
        for topic in self._topics:  # noqa: SIM110 - a loop takes half as long, and this is asked of each
            if topic.is_deleted:
                return False
        return True


class NumberlessRepeat(GroupRepeat, ABC):
    """A request in which nothing is another next time, and which puts nothing into a log."""

    __slots__ = ()

    def invert(self, request: Any) -> None:
        """There are no numbers."""

    @abstractmethod
    def response_to(self, result: Any) -> WrittenResponse:
        """The response to a result of the coordinator, or to its error."""


def ask_together(node: Node, repeats: Sequence[NumberlessRepeat], calls: RepeatedCalls, command: Any) -> None:
    """Hand the coordinator what all of them ask, as one command, and answer each with its own result."""
    group_id = repeats[0].group_id
    node.router.owner_of(group_id).submit(group_id, command, partial(answer_each, repeats, calls))


def answer_each(
    repeats: Sequence[NumberlessRepeat], calls: RepeatedCalls, results: list[Any] | ErrorCode
) -> None:
    """Answer each with its own result; an error is the result of all."""
    if isinstance(results, ErrorCode):
        results = [results] * len(repeats)
    calls.answer_written([repeat.response_to(results[index]) for index, repeat in enumerate(repeats)])
