"""Metrics of the share groups of this node: how many there are, and how often they were rebalanced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from headgate.core.shard import GroupShard
from headgate.core.share.membership.groups import ShareGroups
from headgate.runtime.gauges import counter, gauge


def share_group_gauges(shards: Sequence[GroupShard]) -> Iterator[Metric | None]:
    """Yield the metrics, and None where a slice may end."""
    kinds = [kind for shard in shards for kind in shard.groups.kinds if isinstance(kind, ShareGroups)]
    states: Counter[str] = Counter()
    for kind in kinds:
        states.update((yield from kind.counting_by_state()))
    yield gauge(
        "headgate_share_groups",
        "Share groups by state.",
        [((state,), count) for state, count in sorted(states.items())],
        ("state",),
    )
    yield counter(
        "headgate_share_rebalances",
        "Target assignments of share groups since their shards were loaded.",
        [((), sum(kind.rebalances for kind in kinds))],
        (),
    )
