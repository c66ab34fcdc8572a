"""Common parts of repeats (`headgate.api.contract.Repeat`): each belongs to one group and some topics.

A deleted topic never returns: a later one of its name is another topic. A repeat that depends on topics
therefore keeps their objects, and is current until one of them is deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headgate.api.contract import Node, RepeatedCalls
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.repeats import WrittenResponse

if TYPE_CHECKING:
    from headgate.topics.topic import Topic


KEPT_BYTES: Final = 800
"""Size in memory of a repeat of one group without data per partition."""


class GroupRepeat:
    """A repeated request for one group."""

    __slots__ = ("_topics", "group_id", "has_long_response", "kept_bytes", "shard", "weight_bytes")

    numbers: ClassVar[tuple[str, ...]] = ()
    """See `Repeat`; subclasses with numbers have their names."""

    def __init__(
        self, node: Node, group_id: GroupId, topics: Iterable[Topic] = (), weight_bytes: int = 0
    ) -> None:
        """`topics` are those that its meaning depends on; for `weight_bytes` see `Repeat`."""
        self.weight_bytes = weight_bytes
        self.kept_bytes = KEPT_BYTES
        """See `Repeat`; subclasses with more data set more."""
        self.has_long_response = False
        """See `Repeat`."""
        self.group_id = group_id
        self.shard = node.coordinator.partition_of(group_id)
        self._topics = tuple(topics)

    def is_current(self, node: Node) -> bool:
        """Return whether no topic was deleted."""
        for topic in self._topics:  # noqa: SIM110 - a loop takes half as long, and this is asked of each
            if topic.is_deleted:
                return False
        return True


class NumberlessRepeat(GroupRepeat, ABC):
    """A repeated request without variable numbers, which appends nothing to a log."""

    __slots__ = ()

    @abstractmethod
    def response_to(self, result: Any) -> WrittenResponse:
        """Return the response to a result of the coordinator, or to its error."""


def ask_together(node: Node, repeats: Sequence[NumberlessRepeat], calls: RepeatedCalls, command: Any) -> None:
    """Submit one command for all of them, and answer each with its own result."""
    group_id = repeats[0].group_id
    node.router.owner_of(group_id).submit(group_id, command, partial(answer_repeats, repeats, calls))


def answer_repeats(
    repeats: Sequence[NumberlessRepeat], calls: RepeatedCalls, results: list[Any] | ErrorCode
) -> None:
    """Answer each with its own result; an error is the result of all."""
    if isinstance(results, ErrorCode):
        results = [results] * len(repeats)
    calls.answer_written([repeat.response_to(results[index]) for index, repeat in enumerate(repeats)])
