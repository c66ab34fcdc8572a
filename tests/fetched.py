"""What a fetch of offsets found, however the shard put it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.core.offsets.commands import FetchedColumns, FetchedInSteps, FetchOffsets, RepeatedFetch
from headgate.domain.ids import TopicName


def in_full(result: Any) -> Any:
    """The result; where it has to be told in steps, all of them taken."""
    if not isinstance(result, FetchedInSteps):
        return result
    while True:
        try:
            next(result.steps)
        except StopIteration as stop:
            return stop.value


def each_fetched(result: Any) -> Iterator[tuple[TopicName, int, int, int, str]]:
    """Topic, partition, offset, leader epoch and metadata of each partition; -1 where there is no offset."""
    for topic, partitions in in_full(result).topics:
        if isinstance(partitions, FetchedColumns):
            texts = partitions.metadata or [""] * len(partitions.partitions)
            for *row, text in zip(*partitions[:3], texts, strict=True):
                partition, offset, epoch = map(int, row)
                yield topic, partition, offset, epoch, text
            continue
        for partition, stored in partitions:
            if stored is None:
                yield topic, partition, -1, -1, ""
            else:
                yield topic, partition, stored.offset, stored.leader_epoch, stored.metadata


_AGAIN: dict[int, RepeatedFetch] = {}


def again(fetch: FetchOffsets) -> RepeatedFetch:
    """A fetch as a repeated one: the same object each time."""
    return _AGAIN.setdefault(id(fetch), RepeatedFetch(fetch))
