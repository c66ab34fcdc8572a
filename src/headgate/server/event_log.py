"""The log lines and the counters of the events of shards."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from headgate.core.events import (
    Event,
    GroupDeleted,
    GroupExpired,
    GroupRebalanced,
    MemberRemoved,
    OffsetsExpired,
    RemovalReason,
)
from headgate.runtime.gauges import counter
from headgate.server.metrics import Histogram

logger = logging.getLogger(__name__)


class EventLog:
    """Logs every event, and counts rebalances and removed members."""

    def __init__(self) -> None:
        self._waits = Histogram()
        self._rebalances: Counter[str] = Counter()
        self._removed: Counter[RemovalReason] = Counter()

    def take(self, event: Event) -> None:
        """Log and count one event."""
        match event:
            case GroupRebalanced(group_id, epoch, member_count, duration_ms):
                self._rebalances["consumer" if duration_ms is None else "classic"] += 1
                fields: dict[str, object] = {"group": group_id, "epoch": epoch, "members": member_count}
                if duration_ms is not None:
                    self._waits.observe(duration_ms / 1000)
                    fields["waited_ms"] = duration_ms
                logger.info("group rebalanced", extra=fields)
            case MemberRemoved(group_id, member_id, reason):
                self._removed[reason] += 1
                fields = {"group": group_id, "member": member_id, "reason": str(reason)}
                level = logging.INFO if reason is RemovalReason.LEFT else logging.WARNING
                logger.log(level, "member removed", extra=fields)
            case OffsetsExpired(group_id, offset_count, reason, retention_ms):
                fields = {"group": group_id, "offsets": offset_count, "reason": str(reason)}
                logger.info("offsets expired", extra={**fields, "retention_ms": retention_ms})
            case GroupExpired(group_id):
                logger.info("group removed", extra={"group": group_id, "reason": "its last offset expired"})
            case GroupDeleted(group_id):
                logger.info("group removed", extra={"group": group_id, "reason": "deleted by request"})

    def gauges(self) -> Iterator[Metric]:
        """Yield the counters."""
        yield counter(
            "headgate_rebalances",
            "New generations of classic groups, and new target assignments of consumer groups.",
            [((protocol,), self._rebalances[protocol]) for protocol in ("classic", "consumer")],
            ("protocol",),
        )
        waits = HistogramMetricFamily(
            "headgate_rebalance_seconds", "For how long a classic group waited for its members to join."
        )
        waits.add_metric([], self._waits.buckets(), self._waits.total_seconds)
        yield waits
        yield counter(
            "headgate_members_removed",
            "Members removed from groups, by reason.",
            [((reason,), self._removed[reason]) for reason in RemovalReason],
            ("reason",),
        )
