"""Metrics of topics and their logs: traffic, sizes, backlog of compaction, failing disks.

`headgate.metrics.topics` topics have series of their own: the first ones by name. Sizes are those of open
logs; a log that nobody used since the start is not open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.log.backlog import backlog_of
from headgate.runtime.gauges import counter, gauge
from headgate.topics.topic import Topic

_PARTITIONS_A_STEP: Final = 50


@dataclass(slots=True)
class _Sizes:
    """The open logs of a topic."""

    log_bytes: int = 0
    segments: int = 0
    dirty_bytes: int = 0
    """Bytes of closed segments that were never compacted; 0 for a topic that is not compacted."""
    failing: set[str] = field(default_factory=set)
    """Logs that cannot be written or read because of a disk error."""


def log_gauges(
    topics: Iterable[Topic], failing_shards: set[str], most_topics: int
) -> Iterator[Metric | None]:
    """Yield the metrics of topics and logs, and None where a slice may end.

    `failing_shards`: logs that their coordinators cannot use.
    """
    by_topic: dict[Topic, _Sizes] = {}
    for topic in topics:
        by_topic[topic] = yield from _sizes_of(topic)
    yield from _totals(by_topic.values(), failing_shards)
    shown = sorted(by_topic, key=lambda topic: topic.name)[:most_topics]
    left_out = len(by_topic) - len(shown)
    yield gauge("headgate_topics_left_out", "Topics without series of their own.", [((), left_out)])
    yield None

    def rows(value_of: Callable[[Topic], int]) -> list[tuple[tuple[str, ...], float]]:
        return [((topic.name,), value_of(topic)) for topic in shown]

    label = ("topic",)
    produced, fetched = "Bytes of batches that producers wrote.", "Bytes of batches that consumers read."
    yield counter(
        "headgate_topic_produced_bytes", produced, rows(lambda one: one.traffic.produced_bytes), label
    )
    yield None
    yield counter("headgate_topic_fetched_bytes", fetched, rows(lambda one: one.traffic.fetched_bytes), label)
    yield None
    text = "Bytes of a topic's open logs."
    yield gauge("headgate_topic_log_bytes", text, rows(lambda one: by_topic[one].log_bytes), label)
    yield None
    text = "Segments of a topic's open logs."
    yield gauge("headgate_topic_log_segments", text, rows(lambda one: by_topic[one].segments), label)
    yield None
    text = "Bytes of closed segments of a compacted topic that were never compacted."
    yield gauge("headgate_topic_uncompacted_bytes", text, rows(lambda one: by_topic[one].dirty_bytes), label)


def _totals(sizes: Collection[_Sizes], failing_shards: set[str]) -> Iterator[Metric]:
    log_bytes = sum(one.log_bytes for one in sizes)
    failing = len(failing_shards.union(*(one.failing for one in sizes)))
    yield gauge("headgate_log_bytes", "Bytes of all logs that are open.", [((), log_bytes)])
    yield gauge(
        "headgate_logs_failing", "Logs that a disk error keeps from being written or read.", [((), failing)]
    )
    yield gauge("headgate_disk_failing", "1 if there is such a log, else 0.", [((), float(failing > 0))])


def _sizes_of(topic: Topic) -> Generator[None, None, _Sizes]:
    found, is_compacted = _Sizes(), topic.policy.is_compacted
    for number, partition in enumerate(topic.used_partitions()):
        if partition.is_failing:
            found.failing.add(str(partition))
        if partition.is_open:
            log = partition.log
            found.log_bytes += log.size_bytes
            found.segments += log.segment_count
            if is_compacted and log.failure is None:
                found.dirty_bytes += backlog_of(log, partition.high_watermark).dirty_bytes
        if number % _PARTITIONS_A_STEP == 0:
            yield
    yield
    return found
