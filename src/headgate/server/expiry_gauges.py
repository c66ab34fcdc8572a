"""Metrics of the expiry of offsets (KIP-211): what expired, and which groups will expire soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.core.events import ExpiryReason
from headgate.core.shard import GroupShard
from headgate.domain.ids import Millis
from headgate.runtime.gauges import counter, gauge

HORIZONS_MS: Final = {"1h": 3_600_000, "24h": 86_400_000, "7d": 7 * 86_400_000}
"""The times for which the groups that expire within them are counted."""


def expiry_gauges(shards: Sequence[GroupShard], now: Millis) -> Iterator[Metric | None]:
    """Yield the metrics of expiry, and None where a slice may end. `now`: system time, in ms."""
    untils = [Millis(now + within_ms) for within_ms in HORIZONS_MS.values()]
    soon = dict.fromkeys(HORIZONS_MS, 0)
    for shard in shards:
        counts = yield from shard.counting_expiring_groups(untils)
        for horizon, count in zip(HORIZONS_MS, counts, strict=True):
            soon[horizon] += count
        yield None
    yield gauge(
        "headgate_groups_expiring",
        "Groups without members of which an offset expires within the time.",
        [((horizon,), count) for horizon, count in soon.items()],
        ("within",),
    )
    expired: Counter[ExpiryReason] = Counter()
    for shard in shards:
        expired.update(shard.expiry_counts.offsets)
    yield counter(
        "headgate_offsets_expired",
        "Committed offsets removed by expiry, by reason.",
        [((reason,), expired[reason]) for reason in ExpiryReason],
        ("reason",),
    )
    groups = sum(shard.expiry_counts.groups for shard in shards)
    yield counter("headgate_groups_expired", "Groups removed after their last offset.", [((), groups)], ())
