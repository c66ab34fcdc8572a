"""All offsets of a group as of one moment, returned in steps.

The snapshot is taken at once, as columns: that takes a fraction of a microsecond for each offset. Names and
metadata, of up to a hundred thousand topics, are added later in steps, between other work. Until the steps
end or are closed, the names of the table keep their numbers (`headgate.core.offsets.held`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.offsets.keys import PARTITION_BITS, PARTITION_MASK, topics_of
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.wide_rows import NARROWEST_WIDE
from headgate.domain.ids import Millis, TopicName
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY

Aside = Mapping[int, tuple[str, Millis]]
NameOf = Callable[[int], tuple[TopicName, int]]
"""Returns the topic of a topic number, and the high part of its partitions."""
TopicOffsets = tuple[Int64s, Int64s, Int64s, list[str]] | list[tuple[int, StoredOffset | None]]
"""One topic: partitions, offsets, leader epochs and metadata (empty if there is none), or single offsets."""

TOPICS_A_STEP = 64
NOTHING_ASIDE = "", NO_EXPIRY


class GroupSnapshot(NamedTuple):
    """Offsets of one group by topic number and partition: columns of one length, ascending keys."""

    keys: NDArray[np.uint64]
    offsets: Int64s
    leader_epochs: Int64s
    timestamps: Int64s
    aside: Aside
    """Metadata and explicit expiry time by key, for keys with either."""

    def by_topic(self, name_of: NameOf) -> Generator[None, None, list[tuple[TopicName, TopicOffsets]]]:
        """Return each topic with its offsets by partition, in steps; topics in no order."""
        places: dict[TopicName, list[tuple[int, int, int]]] = {}
        for number, start, end in _stretches(topics_of(self.keys)):
            name, high = name_of(number)
            places.setdefault(name, []).append((high, start, end))
            if not len(places) % TOPICS_A_STEP:
                yield
        found: list[tuple[TopicName, TopicOffsets]] = []
        for name, parts in places.items():
            found.append((name, self._offsets(sorted(parts))))
            if not len(found) % TOPICS_A_STEP:
                yield
        return found

    def _offsets(self, parts: list[tuple[int, int, int]]) -> TopicOffsets:
        """Return the offsets at these positions, all of one topic."""
        first = parts[0]
        at: Any = slice(first[1], first[2])
        partitions = _partitions(self.keys, *first)
        if len(parts) > 1:
            partitions = np.concatenate([_partitions(self.keys, *part) for part in parts])
            at = np.concatenate([np.arange(start, end) for _, start, end in parts])
        keys, offsets, epochs = self.keys[at], self.offsets[at], self.leader_epochs[at]
        if len(partitions) >= NARROWEST_WIDE:
            return partitions, offsets, epochs, texts_of(keys.tolist(), self.aside)
        columns = zip(
            partitions.tolist(),
            keys.tolist(),
            offsets.tolist(),
            epochs.tolist(),
            self.timestamps[at].tolist(),
            strict=True,
        )
        aside = self.aside
        return [
            (partition, _stored(offset, epoch, timestamp, *aside.get(key, NOTHING_ASIDE)))
            for partition, key, offset, epoch, timestamp in columns
        ]


class TopicAges(NamedTuple):
    """The offsets of one topic: partitions, commit timestamps, and expiry times of their own (-1: none)."""

    topic: TopicName
    partitions: Int64s
    timestamps: Int64s
    own_expiries: Int64s


class AgesSnapshot(NamedTuple):
    """The ages of the offsets of one group: columns of one length, ascending keys."""

    keys: NDArray[np.uint64]
    timestamps: Int64s
    own_expiries: Int64s

    def by_topic(self, name_of: NameOf) -> Generator[None, None, list[TopicAges]]:
        """Return the ages of each topic's offsets, in steps; a topic may occur more than once."""
        found: list[TopicAges] = []
        for number, start, end in _stretches(topics_of(self.keys)):
            name, high = name_of(number)
            partitions = _partitions(self.keys, high, start, end)
            found.append(
                TopicAges(name, partitions, self.timestamps[start:end], self.own_expiries[start:end])
            )
            if not len(found) % TOPICS_A_STEP:
                yield
        return found


def _stretches(numbers: Int64s) -> Iterator[tuple[int, int, int]]:
    """Return the distinct numbers, each with the start and end of its stretch; they are ascending."""
    starts = np.flatnonzero(np.append([True], numbers[1:] != numbers[:-1])[: len(numbers)])
    ends = np.append(starts[1:], len(numbers))[: len(starts)]
    return zip(numbers[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)


def _partitions(keys: NDArray[np.uint64], high: int, start: int, end: int) -> Int64s:
    low = (keys[start:end] & np.uint64(PARTITION_MASK)).astype(np.int64)
    partitions: Int64s = low | high << PARTITION_BITS
    return partitions


def texts_of(keys: list[int], aside: Aside) -> list[str]:
    """Return the metadata of the offsets with these keys; empty if none has metadata."""
    if not aside or aside.keys().isdisjoint(keys):
        return []
    get = aside.get
    return [get(key, NOTHING_ASIDE)[0] for key in keys]


def _stored(offset: int, epoch: int, timestamp: int, metadata: str, expiry: Millis) -> StoredOffset:
    return StoredOffset(offset, epoch, metadata, Millis(timestamp), expiry)
