"""Gauges of paused partitions (KIP-1249): how many there are in each group, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.core.pause.paused import PausedGroups
from headgate.domain.ids import Millis
from headgate.records.consumer_model import NEVER
from headgate.runtime.gauges import gauge

MOST_GROUPS: Final = 1000
"""Groups with a label of their own; those above are counted together."""
OTHERS: Final = "(others)"


def pause_gauges(paused_groups: Iterable[PausedGroups], now: Millis) -> Iterator[Metric | None]:
    """Yield the gauges of paused partitions, and None where a slice may end. `now`: system time, in ms."""
    partitions: Counter[str] = Counter()
    oldest: dict[str, Millis] = {}
    for paused in paused_groups:
        for group_id, topics in list(paused.by_group.items()):
            label = group_id if len(partitions) < MOST_GROUPS else OTHERS
            pauses = [pause for of_topic in topics.values() for pause in of_topic.values()]
            partitions[label] += len(pauses)
            known = [pause.since for pause in pauses if pause.since != NEVER]
            if known:
                oldest[label] = min(*known, oldest.get(label, known[0]))
            yield None
    yield gauge(
        "headgate_paused_partitions",
        "Paused partitions by group.",
        [((group_id,), count) for group_id, count in sorted(partitions.items())],
        ("group",),
    )
    yield gauge(
        "headgate_oldest_pause_seconds",
        "Time since the oldest pause of a group that has not been resumed.",
        [((group_id,), max(0, now - since) / 1000) for group_id, since in sorted(oldest.items())],
        ("group",),
    )
