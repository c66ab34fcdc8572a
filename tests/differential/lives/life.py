"""What all lives have: chances, topics, and offsets of partitions that mostly exist."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

from tests.differential import requests as rq
from tests.differential.script import Script, Topic

UNKNOWN = uuid.UUID(int=77)
"""The id of no topic."""
NOWHERE = "nowhere"
"""The name of no topic."""
BY_ID_SINCE = 10
"""From this version on OffsetCommit and OffsetFetch name topics by their ids."""
FIRST_WITH_ALL = 2
"""From this version on OffsetFetch may ask for all partitions."""

ChoiceT = TypeVar("ChoiceT")


class Life:
    """A life of one seed, with one broker. `live` asks."""

    def __init__(self, ask: Script, chance: Random) -> None:
        self.ask = ask
        self.chance = chance
        self.topics: list[Topic] = []
        self._count = 0

    def live(self) -> None:
        """Ask everything."""
        raise NotImplementedError

    def go(self, weights: Mapping[Callable[[], None], int], steps: int) -> None:
        """Take so many steps, each by chance."""
        for _ in range(steps):
            self.pick(weights)()

    def pick(self, weighted: Mapping[ChoiceT, int]) -> ChoiceT:
        """One of these by its weight."""
        return self.chance.choices(list(weighted), list(weighted.values()))[0]

    def happens(self, probability: float) -> bool:
        """Whether something happens that has this probability."""
        return self.chance.random() < probability

    def make_group(self, group: str) -> None:
        """Commit something: Kafka makes a group of a commit that it refuses, so one is to be there before."""
        self.ask(rq.commit(group, {self.topics[0].name: {0: 0}}))

    def offset(self) -> int:
        """An offset, mostly one more than the last one."""
        self._count += 1
        return self.pick({self._count: 20, -1: 1, 0: 1, 2**63 - 1: 1, -(2**63): 1, -7: 1})

    def metadata(self) -> str | None:
        """Metadata of an offset; 4096 is the most that is taken, in characters of UTF-16."""
        return self.pick({"": 6, "m": 3, None: 2, "x" * 4096: 1, "x" * 4097: 1, "\U0001f600" * 2049: 1})

    def partitions(self) -> list[int]:
        """Numbers of partitions; a topic has one or four."""
        if self.happens(0.9):
            return self.chance.sample(range(4), self.chance.randint(1, 3))
        return self.chance.choice([[-1], [0, 0], [2**31 - 1], []])

    def key(self, *, by_id: bool) -> Any:
        """What names a topic in a request, mostly one that exists."""
        topic = self.pick({self.topics[0]: 6, self.topics[1]: 4, None: 1})
        if topic is None:
            return UNKNOWN if by_id else NOWHERE
        return topic.id if by_id else topic.name

    def offsets(self, *, by_id: bool = False) -> dict[Any, dict[int, Any]]:
        """Offsets to commit in no, one or two topics."""
        return {
            self.key(by_id=by_id): {
                index: rq.offset(self.offset(), self.metadata(), self.chance.choice([-1, -1, 0, 5]))
                for index in self.partitions()
            }
            for _ in range(self.pick({1: 5, 2: 2, 0: 1}))
        }

    def wanted(self, version: int) -> dict[Any, list[int]] | None:
        """Partitions to fetch offsets of; None for all."""
        if version >= FIRST_WITH_ALL and self.happens(0.25):
            return None
        by_id = version >= BY_ID_SINCE
        return {self.key(by_id=by_id): self.partitions() for _ in range(self.chance.choice([1, 1, 2]))}
