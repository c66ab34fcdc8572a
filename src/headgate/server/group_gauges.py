"""The numbers of groups and of their members, and how long groups rebalance, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis
from headgate.runtime.gauges import gauge

MOST_REBALANCING: Final = 100
"""Groups with a series of their own: those that rebalance longest."""
MOST_REMEMBERED: Final = 10_000


class GroupGauges:
    """Counts groups at each scrape, and remembers since which scrape a group rebalances."""

    def __init__(self) -> None:
        self._rebalancing_since: dict[GroupId, Millis] = {}

    def gauges(self, shards: Sequence[GroupShard], now: Millis) -> Iterator[Metric | None]:
        """Yield the metrics, and None where a slice may end. `now`: steady time, in ms."""
        groups: Counter[str] = Counter()
        members: Counter[str] = Counter()
        since: dict[GroupId, Millis] = {}
        for shard in shards:
            counts = yield from shard.counting_groups_by_state()
            groups.update(counts.groups)
            members.update(counts.members)
            for group_id in counts.rebalancing[: MOST_REMEMBERED - len(since)]:
                since[group_id] = self._rebalancing_since.get(group_id, now)
        self._rebalancing_since = since
        yield gauge(
            "headgate_groups",
            "Groups by state.",
            [((state,), count) for state, count in sorted(groups.items())],
            ("state",),
        )
        yield gauge(
            "headgate_group_members",
            "Members of groups, by the state of their group.",
            [((state,), count) for state, count in sorted(members.items()) if count],
            ("state",),
        )
        longest = sorted(since.items(), key=lambda one: one[1])[:MOST_REBALANCING]
        yield gauge(
            "headgate_group_rebalancing_seconds",
            "Time for which a group has been rebalancing at every scrape.",
            [((group_id,), (now - began) / 1000) for group_id, began in longest],
            ("group",),
        )
