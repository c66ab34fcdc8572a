"""The lag of groups, as metrics: of each group, of its topics, of its partitions.

The number of series is bounded: `headgate.metrics.groups` groups have a series of their own, and
`headgate.metrics.partitions` partitions of these. If there are more, the groups with the largest lag are
shown, and `headgate_lag_groups_left_out` counts the others. A partition whose lag is unknown has no series:
its topic does not exist, or its log was not read since the start, which the next scrapes make up for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import numpy as np
from prometheus_client.metrics_core import Metric

from headgate.core.offsets.lags import UNKNOWN, Ends, GroupLag, LagScan, PartitionLag, TopicEnds
from headgate.core.offsets.table import OffsetTable
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.runtime.gauges import gauge
from headgate.server.lag_times import LagTimes
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

MOST_OPENED: Final = 64
"""Logs that are opened after a scrape, because their ends are wanted and not known."""
_PARTITIONS_A_STEP: Final = 500
_AGES_A_STEP: Final = 50


class LagGauges:
    """Makes the metrics of one scrape after another."""

    def __init__(
        self, topics: Topics, settings: Settings, open_soon: Callable[[list[Partition]], None]
    ) -> None:
        """`open_soon` opens logs in a thread; called at the end of a scrape."""
        self._topics = topics
        self._settings = settings
        self._open_soon = open_soon
        self._times = LagTimes()

    def gauges(self, shards: Sequence[GroupShard], now: Millis) -> Iterator[Metric | None]:
        """Yield the metrics of lag, and None where a slice may end. `now` is steady time, in ms."""
        most: int = self._settings["headgate.metrics.groups"]
        if not most:
            return
        to_open: list[Partition] = []
        ends = yield from self._ends_of_all(to_open)
        self._times.note(now, ends, self._settings["headgate.metrics.partitions"])
        with ExitStack() as held:
            scans: dict[int, LagScan] = {}
            found: list[tuple[GroupLag, int]] = []
            for number, shard in enumerate(shards):
                _hold(held, shard.offsets)
                scans[number] = shard.offsets.lags(ends)
                found += [(lag, number) for lag in (yield from scans[number].groups())]
                yield None
            shown = _largest(found, most)
            yield from _of_groups([lag for lag, _ in shown], len(found) - len(shown))
            yield None
            rows = yield from self._of_partitions([(lag, scans[number]) for lag, number in shown])
        yield from self._in_seconds(rows, ends, now)
        self._open_soon(to_open)

    def _in_seconds(
        self, rows: Sequence[tuple[GroupId, PartitionLag]], ends: Ends, now: Millis
    ) -> Iterator[Metric | None]:
        """Yield for how long the oldest record of each group has waited, over the partitions in `rows`."""
        ages: dict[GroupId, int] = {}
        for number, (group_id, one) in enumerate(rows):
            age_ms = 0
            if one.lag and one.partition < len(ends[one.topic].ends):
                offset = int(ends[one.topic].ends[one.partition]) - one.lag
                age_ms = self._times.age_ms(one.topic, one.partition, offset, now)
            ages[group_id] = max(ages.get(group_id, 0), age_ms)
            if number % _AGES_A_STEP == _AGES_A_STEP - 1:
                yield None
        yield gauge(
            "headgate_group_lag_seconds",
            "Time since the oldest record after the committed offsets of a group was appended, estimated "
            "from the ends of the logs at past scrapes.",
            [((group_id,), age_ms / 1000) for group_id, age_ms in ages.items()],
            ("group",),
        )

    def _of_partitions(
        self, groups: Sequence[tuple[GroupLag, LagScan]]
    ) -> Generator[Metric | None, None, list[tuple[GroupId, PartitionLag]]]:
        """Yield the lag by topic and by partition. Return the lags of the partitions."""
        left: int = self._settings["headgate.metrics.partitions"]
        by_topic: Counter[tuple[str, str]] = Counter()
        rows: list[tuple[GroupId, PartitionLag]] = []
        for lag, scan in groups:
            if lag.known > left:
                continue
            left -= lag.known
            for one in (yield from scan.partitions(lag.group_id)):
                by_topic[lag.group_id, one.topic] += one.lag
                rows.append((lag.group_id, one))
        yield gauge(
            "headgate_group_topic_lag_records",
            "Records of a topic after the committed offsets of a group.",
            by_topic.items(),
            ("group", "topic"),
        )
        yield None
        family = gauge(
            "headgate_group_partition_lag_records",
            "Records of a partition after the committed offset of a group.",
            (),
            ("group", "topic", "partition"),
        )
        for number, (group_id, one) in enumerate(rows):
            family.add_metric((group_id, one.topic, str(one.partition)), one.lag)  # type: ignore[attr-defined]
            if number % _PARTITIONS_A_STEP == 0:
                yield None
        yield family
        return rows

    def _ends_of_all(self, to_open: list[Partition]) -> Generator[None, None, dict[TopicName, TopicEnds]]:
        """Return the ends of all topics but the internal ones; add up to `MOST_OPENED` logs to open."""
        found = {}
        for topic in self._topics.all():
            if not topic.is_internal:
                found[topic.name] = yield from _ends_of(topic, to_open)
        return found


def _largest(found: list[tuple[GroupLag, int]], most: int) -> list[tuple[GroupLag, int]]:
    """Return the groups with the largest lag; among equals always the same ones."""
    if len(found) <= most:
        return found
    lags = np.fromiter((lag.lag for lag, _ in found), np.int64, len(found))
    return [found[place] for place in np.argsort(-lags, kind="stable")[:most].tolist()]


def _hold(held: ExitStack, table: OffsetTable) -> None:
    table.hold()
    held.callback(table.release)


def _of_groups(groups: Sequence[GroupLag], left_out: int) -> Iterator[Metric]:
    yield gauge(
        "headgate_group_lag_records",
        "Records after the committed offsets of a group, over all partitions whose lag is known.",
        [((lag.group_id,), lag.lag) for lag in groups if lag.known],
        ("group",),
    )
    yield gauge(
        "headgate_group_lag_unknown_partitions",
        "Partitions with a committed offset of the group and an unknown lag.",
        [((lag.group_id,), lag.unknown) for lag in groups if lag.unknown],
        ("group",),
    )
    yield gauge("headgate_lag_groups_left_out", "Groups without a series of lag.", [((), left_out)])


def _ends_of(topic: Topic, to_open: list[Partition]) -> Generator[None, None, TopicEnds]:
    """Return the log start offsets and high watermarks of a topic's partitions."""
    starts, ends = np.zeros(topic.partition_count, np.int64), np.zeros(topic.partition_count, np.int64)
    yield
    for place, index in enumerate(topic.written_partitions()):
        partition = topic.find_partition(index)
        if partition is not None and partition.is_open:
            starts[index], ends[index] = partition.log_start_offset, partition.high_watermark
        else:
            ends[index] = UNKNOWN
            if partition is not None and len(to_open) < MOST_OPENED:
                to_open.append(partition)
        if place % _PARTITIONS_A_STEP == _PARTITIONS_A_STEP - 1:
            yield
    return TopicEnds(starts, ends)
