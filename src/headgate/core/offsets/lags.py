"""The lag of every group: how many records follow its committed offsets, found for all rows of the table.

The lag of a partition is its end minus the committed offset, or minus the start of the log if the offset is
before it, since the records between were removed. It is unknown if the end is unknown; that is not the same
as 0. The end is given by the caller.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.offsets.columns import NONE
from headgate.core.offsets.key_names import KeyNames
from headgate.core.offsets.keys import PARTITION_BITS, PARTITION_MASK, groups_of, topics_of
from headgate.core.offsets.rows import Rows
from headgate.core.offsets.scanning import ROWS_A_STRETCH
from headgate.domain.ids import GroupId, TopicName
from headgate.records.columns import Int64s

UNKNOWN: Final = -1
_NOT_ASKED: Final = -1
_TOPICS_A_STEP: Final = 50
_AT_ONCE: Final = 500
"""Groups or partitions that one step names."""


class TopicEnds(NamedTuple):
    """The start and the end of each partition's log, by partition; `UNKNOWN` where the end is not known."""

    starts: Int64s
    ends: Int64s


Ends = Mapping[TopicName, TopicEnds]
"""The ends of all topics. A topic that is not in it does not exist."""


class GroupLag(NamedTuple):
    """The lag of a group over all partitions whose lag is known."""

    group_id: GroupId
    lag: int
    known: int
    """Number of partitions whose lag is known."""
    unknown: int


class PartitionLag(NamedTuple):
    """The lag of a group in one partition whose lag is known."""

    topic: TopicName
    partition: int
    lag: int


class LagScan:
    """Finds the lags of all groups in steps. Hold the table until the last use."""

    __slots__ = ("_base", "_by_topic", "_count", "_ends", "_names", "_rows", "_starts")

    def __init__(self, rows: Rows, names: KeyNames, by_topic: Ends) -> None:
        self._rows = rows
        self._names = names
        self._by_topic = by_topic
        self._starts, self._ends = array("q"), array("q")
        """The starts and ends of all topics that were met, one after another."""
        self._base = np.zeros(0, np.int64)
        """By topic number: the position of partition 0 in these, or `_NOT_ASKED`."""
        self._count = np.zeros(0, np.int64)
        """By topic number: its number of partitions; 0 for a topic that does not exist."""

    def groups(self) -> Generator[None, None, list[GroupLag]]:
        """Return the lags of all groups with offsets, in steps."""
        count = len(self._rows.heads)
        lags, known, unknown = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
        below = len(self._rows.keys)
        while below:
            first = max(below - ROWS_A_STRETCH, 0)
            is_live = np.frombuffer(self._rows.nexts, np.int32)[first:below] >= NONE
            keys = np.frombuffer(self._rows.keys, np.uint64)[first:below][is_live]
            offsets = np.frombuffer(self._rows.offsets, np.int64)[first:below][is_live]
            below = first
            yield from self._meet(keys)
            found, groups = self._lags(keys, offsets), groups_of(keys)
            is_old = groups < count  # the others were added since
            found, groups = found[is_old], groups[is_old]
            is_known = found != UNKNOWN
            np.add.at(lags, groups[is_known], found[is_known])
            known += np.bincount(groups[is_known], minlength=count)
            unknown += np.bincount(groups[~is_known], minlength=count)
            yield
        numbers = np.flatnonzero(known + unknown)
        return (yield from self._named(numbers, lags[numbers], known[numbers], unknown[numbers]))

    def _named(
        self, numbers: Int64s, lags: Int64s, known: Int64s, unknown: Int64s
    ) -> Generator[None, None, list[GroupLag]]:
        name_of = self._names.group_id
        found: list[GroupLag] = []
        for first in range(0, len(numbers), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            rows = zip(
                numbers[some].tolist(),
                lags[some].tolist(),
                known[some].tolist(),
                unknown[some].tolist(),
                strict=True,
            )
            found += [GroupLag(name_of(number), *row) for number, *row in rows]
            yield
        return found

    def partitions(self, group_id: GroupId) -> Generator[None, None, list[PartitionLag]]:
        """Return the known lags of a group by partition, in steps."""
        group = self._names.groups.find(group_id.encode())
        if group is None:
            return []
        keys, offsets, _, _ = self._rows.columns_of(self._rows.all_of_group(group))
        found: list[PartitionLag] = []
        for first in range(0, len(keys), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            yield from self._meet(keys[some])
            lags = self._lags(keys[some], offsets[some]).tolist()
            places = self._names.topic_partitions(keys[some].tolist())
            found += [
                PartitionLag(topic, partition, lag)
                for (topic, partition), lag in zip(places, lags, strict=True)
                if lag != UNKNOWN
            ]
            yield
        return found

    def _meet(self, keys: NDArray[np.uint64]) -> Generator[None, None, None]:
        """Ask for the ends of topics that were not met before."""
        numbers = topics_of(keys)
        if not len(numbers):
            return
        if (size := int(numbers.max()) + 1) > len(self._base):
            size = max(size, 2 * len(self._base))
            self._base = _grown(self._base, size, _NOT_ASKED)
            self._count = _grown(self._count, size, 0)
        for place, number in enumerate(np.unique(numbers[self._base[numbers] == _NOT_ASKED]).tolist()):
            self._ask(number)
            if place % _TOPICS_A_STEP == _TOPICS_A_STEP - 1:
                yield

    def _ask(self, number: int) -> None:
        topic, high = self._names.topic_of(number)
        self._base[number] = len(self._ends)
        ends = self._by_topic.get(topic)
        if ends is not None:
            part = slice(high << PARTITION_BITS, (high + 1) << PARTITION_BITS)
            self._count[number] = len(ends.ends[part])
            self._starts.frombytes(ends.starts[part].astype(np.int64).tobytes())
            self._ends.frombytes(ends.ends[part].astype(np.int64).tobytes())

    def _lags(self, keys: NDArray[np.uint64], offsets: Int64s) -> Int64s:
        """Return the lag of each row; its topic was met."""
        numbers = topics_of(keys)
        partitions = (keys & np.uint64(PARTITION_MASK)).astype(np.int64)
        there = partitions < self._count[numbers]
        lags = np.full(len(keys), UNKNOWN, np.int64)
        places = (self._base[numbers] + partitions)[there]
        ends = np.frombuffer(self._ends, np.int64)[places]
        starts = np.frombuffer(self._starts, np.int64)[places]
        lag = np.maximum(ends - np.maximum(offsets[there], starts), 0)
        lags[there] = np.where(ends == UNKNOWN, UNKNOWN, lag)
        return lags


def _grown(column: Int64s, size: int, value: int) -> Int64s:
    return np.append(column, np.full(size - len(column), value, np.int64))
