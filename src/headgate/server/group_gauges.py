"""The numbers of groups and of their members, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from headgate.core.shard import GroupShard
from headgate.runtime.gauges import gauge


def group_gauges(shards: Sequence[GroupShard]) -> Iterator[Metric | None]:
    """Yield the metrics, and None where a slice may end."""
    groups: Counter[str] = Counter()
    members: Counter[str] = Counter()
    for shard in shards:
        of_shard, members_of_shard = yield from shard.counting_groups_by_state()
        groups.update(of_shard)
        members.update(members_of_shard)
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
