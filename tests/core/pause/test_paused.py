"""The changes of paused partitions, as values."""

from __future__ import annotations

from typing import Any

from headgate.core.pause.paused import with_paused, without
from headgate.domain.ids import TopicId
from headgate.records import Pause

TOPIC = TopicId(b"0123456789abcdef")
COUNT = 300


class Index(int):
    """A partition that counts how often a dictionary or set takes it in or looks for it."""

    looks = 0

    def __hash__(self) -> int:
        type(self).looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def test_the_work_grows_with_the_partitions_also_if_each_names_its_topic() -> None:
    """A request that names a topic thousands of times does not stop the server."""
    partitions: list[Any] = [(TOPIC, [Index(number)]) for number in range(COUNT)]
    Index.looks = 0
    paused = with_paused({}, partitions, Pause())
    assert paused == {TOPIC: dict.fromkeys(range(COUNT), Pause())}
    assert with_paused(paused, [*partitions, (TOPIC, [COUNT])], Pause())[TOPIC].keys() == {*range(COUNT + 1)}
    assert without(paused, partitions) == {}
    assert Index.looks < 30 * COUNT
