"""Builds the response with the offsets of many topics in steps, from a snapshot of them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set

import numpy as np

from headgate.core.offsets.commands import FetchedColumns, FetchedOffsets, FetchedPartitions
from headgate.core.offsets.snapshot import TOPICS_A_STEP, TopicOffsets
from headgate.core.topic_image import KnownTopic
from headgate.domain.ids import TopicName
from headgate.records.columns import Int64s

_Found = Generator[None, None, list[tuple[TopicName, TopicOffsets]]]


def all_in_steps(
    found: _Found, topics: Mapping[TopicName, KnownTopic]
) -> Generator[None, None, FetchedOffsets]:
    """Return all offsets that were found; `topics` are the topics at the time of the snapshot."""
    told: list[tuple[TopicName, FetchedPartitions | FetchedColumns]] = []
    ids = {}
    for name, offsets in (yield from found):
        told.append((name, FetchedColumns(*offsets) if isinstance(offsets, tuple) else offsets))
        if name in topics:
            ids[name] = topics[name].topic_id
        if not len(told) % TOPICS_A_STEP:
            yield
    return FetchedOffsets(told, ids)


def with_unstable(
    steps: Generator[None, None, FetchedOffsets], unstable: Mapping[TopicName, Set[int]]
) -> Generator[None, None, FetchedOffsets]:
    """Return the result of the steps, with these unstable partitions."""
    found = yield from steps
    found.unstable = unstable
    return found


def named_in_steps(
    found: _Found, wanted: Sequence[tuple[TopicName, Sequence[int] | Int64s]]
) -> Generator[None, None, FetchedOffsets]:
    """Return the offsets that were found for these topics and partitions, in their order."""
    by_topic = dict((yield from found))
    told: list[tuple[TopicName, FetchedPartitions | FetchedColumns]] = []
    for name, partitions in wanted:
        told.append((name, _among(by_topic.get(name, []), partitions)))
        if not len(told) % TOPICS_A_STEP:
            yield
    return FetchedOffsets(told)


def _among(offsets: TopicOffsets, partitions: Sequence[int] | Int64s) -> FetchedPartitions | FetchedColumns:
    """Return the offset of each of these partitions."""
    if not isinstance(offsets, tuple):
        known = dict(offsets)
        return [(partition, known.get(partition)) for partition in map(int, partitions)]
    numbers = np.asarray(partitions, np.int64)
    there, committed, epochs, texts = offsets
    places = np.minimum(np.searchsorted(there, numbers), len(there) - 1)
    is_there = there[places] == numbers
    metadata = []
    if texts:
        pairs = zip(places.tolist(), is_there.tolist(), strict=True)
        metadata = [texts[place] if has_any else "" for place, has_any in pairs]
    return FetchedColumns(
        numbers, np.where(is_there, committed[places], -1), np.where(is_there, epochs[places], -1), metadata
    )
