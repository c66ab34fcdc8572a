"""Many partitions in a request, and the like of it again and again with other offsets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.differential import requests as rq
from tests.differential import transaction_requests as tr
from tests.differential.lives.life import BY_ID_SINCE, Life
from tests.differential.wire import Request, Tree

STEPS = 35
PARTITIONS = 60
STABLE_SINCE = 7
DELETION_S = 0.3
"""How long a deleted topic is still known to Kafka's coordinator."""

Entries = Sequence[tuple[int, str | None, int]]
"""Partition, metadata and leader epoch."""


class Shape(NamedTuple):
    """A commit but for its offsets."""

    topics: Sequence[tuple[int, Entries]]
    """Number of the topic, and the entries."""
    version: int
    member: str
    epoch: int


class Wanted(NamedTuple):
    """What a fetch asks for."""

    topics: dict[int, list[int]]
    """Partitions by the number of the topic."""
    version: int
    more: Tree


class WideLife(Life):
    """Commits and fetches again and again, for which a server may have short ways, and what ends these."""

    def live(self) -> None:
        """Ask everything."""
        self.topics = [self.ask.topic(name, PARTITIONS) for name in "tu"]
        self.producer = tr.new(self.ask, "p")
        self.make_group(self.ask.group)
        self.shapes: list[Shape] = []
        self.fetches: list[Wanted] = []
        self.go(
            {
                self.commit: 4,
                self.commit_again: 10,
                self.fetch: 3,
                self.fetch_again: 10,
                self.commit_in_transaction: 3,
                self.end: 2,
                self.delete_offsets: 2,
                self.delete_group: 1,
                self.create_again: 1,
            },
            STEPS,
        )
        self.ask(rq.fetch(self.ask.group, None))
        self.ask(rq.fetch(self.ask.group, None, require_stable=True))

    def _indexes(self) -> list[int]:
        first = self.chance.randrange(PARTITIONS - 20)
        return self.chance.choice(
            [
                list(range(first, first + self.chance.randint(12, 20))),
                self.chance.sample(range(PARTITIONS), self.chance.randint(13, 40)),
                [self.chance.randrange(10) for _ in range(self.chance.randint(14, 30))],
                list(range(PARTITIONS - 14, PARTITIONS + 3)),
                self.chance.sample(range(PARTITIONS), self.chance.randint(1, 12)),
                list(range(PARTITIONS)),
            ]
        )

    def _some_topics(self) -> list[int]:
        return self.chance.sample([0, 1], self.chance.choice([1, 1, 2]))

    def _shape(self) -> Shape:
        member, epoch = self.pick({("", -1): 9, ("m", 3): 1})
        topics = [(topic, self._entries()) for topic in self._some_topics()]
        return Shape(topics, self.chance.randint(2, 10), member, epoch)

    def _entries(self) -> Entries:
        metadata = self.chance.choice(["same", "none", "each", "nulls", "long"])
        epochs = self.chance.choice(["same", "none", "each"])

        def text(at: int) -> str | None:
            return {
                "same": "m",
                "none": "",
                "each": f"m{at % 5}",
                "nulls": None if at % 3 else "z",
                "long": "x" * 4097 if at == 2 else "y",
            }[metadata]

        return [
            (index, text(at), {"same": 4, "none": -1, "each": at % 3}[epochs])
            for at, index in enumerate(self._indexes())
        ]

    def _key(self, topic: int, version: int) -> Any:
        return self.topics[topic].id if version >= BY_ID_SINCE else self.topics[topic].name

    def _topics_of(self, shape: Shape, version: int) -> list[Tree]:
        base = self.chance.choice([0, 1000, 2**40])
        return [
            rq.of_topic(self._key(topic, version))
            | {
                "partitions": [
                    {"partition_index": index} | rq.offset(self._near(base, index), text, epoch)
                    for index, text, epoch in entries
                ]
            }
            for topic, entries in shape.topics
        ]

    def _near(self, base: int, index: int) -> int:
        if self.happens(0.03):
            return self.chance.choice([-1, -9])
        return self.chance.choice([base, base + index, base + self.chance.randrange(100)])

    def commit(self) -> None:
        """Commit in a new shape."""
        self.shapes.append(self._shape())
        self._send(self.shapes[-1])

    def _send(self, shape: Shape) -> None:
        request = rq.commit(self.ask.group, {}, shape.version, member=shape.member, epoch=shape.epoch)
        self.ask(request.but(topics=self._topics_of(shape, shape.version)))

    def commit_again(self) -> None:
        """Commit in one of the last shapes, some times."""
        if not self.shapes:
            return self.commit()
        shape = self.chance.choice(self.shapes[-3:])
        for _ in range(self.chance.randint(1, 4)):
            self._send(shape)
        return None

    def fetch(self) -> None:
        """Fetch other partitions."""
        version = self.chance.randint(1, 10)
        more: Tree = {"require_stable": self.happens(0.4)} if version >= STABLE_SINCE else {}
        wanted = {topic: self._indexes() for topic in self._some_topics()}
        self.fetches.append(Wanted(wanted, version, more))
        self.ask(self._fetch_of(self.fetches[-1]))

    def _fetch_of(self, wanted: Wanted) -> Request:
        partitions = {self._key(topic, wanted.version): of for topic, of in wanted.topics.items()}
        return rq.fetch(self.ask.group, partitions, wanted.version, **wanted.more)

    def fetch_again(self) -> None:
        """Fetch the partitions of one of the last fetches, some times."""
        if not self.fetches:
            return self.fetch()
        wanted = self.chance.choice(self.fetches[-3:])
        for _ in range(self.chance.randint(1, 3)):
            self.ask(self._fetch_of(wanted))
        return None

    def commit_in_transaction(self) -> None:
        """Commit in a transaction, which begins with it or before."""
        version = self.chance.choice([2, 3, 5])
        if version < 5:
            self.ask(tr.add_offsets(self.producer, self.ask.group))
        request = tr.txn_commit(self.producer, self.ask.group, {}, version)
        self.ask(request.but(topics=self._topics_of(self._shape(), version)))

    def end(self) -> None:
        """Commit or abort the transaction."""
        answer = self.ask(tr.end(self.producer, commit=self.happens(0.6), version=self.chance.choice([3, 5])))
        tr.wait_for_the_end(self.ask, self.producer)
        if answer["error_code"] == "none" and answer.get("producer_id", -1) >= 0:
            self.producer = tr.answered(self.producer, answer)

    def delete_offsets(self) -> None:
        """Delete few or many offsets."""
        indexes = self.chance.sample(range(PARTITIONS), self.chance.choice([1, 20, 40]))
        self.ask(rq.delete_offsets(self.ask.group, {self.chance.choice(self.topics).name: indexes}))

    def delete_group(self) -> None:
        """Delete the group, and look."""
        self.ask(rq.delete_groups(self.ask.group))
        self.fetch_again()
        self.make_group(self.ask.group)

    def create_again(self) -> None:
        """Delete a topic and create it again, so that it has another id."""
        topic = self.chance.choice([0, 1])
        self.ask(rq.delete_topics(self.topics[topic].name))
        time.sleep(DELETION_S)
        if self.shapes and self.happens(0.5):
            self._send(self.shapes[-1])
        self.topics[topic] = self.ask.topic("tu"[topic], PARTITIONS)
