"""The log lines and the counters of the events of shards."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from headgate.core.events import (
    Awaited,
    Event,
    GroupCreated,
    GroupDeleted,
    GroupExpired,
    GroupRebalanced,
    MemberAwaited,
    MemberJoined,
    MemberRemoved,
    OffsetsExpired,
    RemovalReason,
    TransactionTimedOut,
)
from headgate.domain.ids import GroupId, Millis
from headgate.runtime.gauges import counter, gauge
from headgate.server.metrics import Histogram

logger = logging.getLogger(__name__)

MOST_RECENT_REBALANCES = 20_000
MOST_WITH_A_SERIES = 100
"""Groups with a series of their own: those that rebalanced most often."""
_RECENT_MS = 600_000
MOST_CHANGED_GROUPS = 10_000
"""Groups whose changes are remembered until they rebalance: some never do."""
_AS_ASKED = (RemovalReason.LEFT, RemovalReason.REPLACED)


class EventLog:
    """Logs every event, and counts rebalances and removed members."""

    def __init__(self, steady_time: Callable[[], Millis]) -> None:
        self._steady_time = steady_time
        self._recent: deque[tuple[Millis, GroupId]] = deque(maxlen=MOST_RECENT_REBALANCES)
        """The last rebalances, with their times."""
        self._waits = Histogram()
        self._rebalances: Counter[str] = Counter()
        self._removed: Counter[RemovalReason] = Counter()
        self._changes: dict[GroupId, Counter[str]] = {}
        """What happened to the members of groups since their last rebalance."""

    def take(self, event: Event) -> None:
        """Log and count one event."""
        match event:
            case GroupCreated(group_id, group_type):
                logger.info("group created", extra={"group": group_id, "type": group_type})
            case MemberJoined():
                self._note(event.group_id, "joined")
                logger.info("member joined", extra=_member_fields(event))
            case GroupRebalanced():
                self._rebalanced(event)
            case MemberAwaited():
                rejoins = event.awaited is Awaited.REJOIN
                line = "member has not rejoined" if rejoins else "member has not synced"
                logger.warning(line, extra={**_member_fields(event), "waited_ms": event.waited_ms})
            case MemberRemoved():
                self._removed[event.reason] += 1
                self._note(event.group_id, str(event.reason))
                fields = {**_member_fields(event), "reason": str(event.reason)}
                if event.client_reason:
                    fields["client_reason"] = event.client_reason
                level = logging.INFO if event.reason in _AS_ASKED else logging.WARNING
                logger.log(level, "member removed", extra=fields)
            case OffsetsExpired(group_id, offset_count, reason, retention_ms):
                fields = {"group": group_id, "offsets": offset_count, "reason": str(reason)}
                logger.info("offsets expired", extra={**fields, "retention_ms": retention_ms})
            case GroupExpired(group_id):
                self._changes.pop(group_id, None)
                why = "it has no members and no offsets left"
                logger.info("group removed", extra={"group": group_id, "reason": why})
            case GroupDeleted(group_id):
                self._changes.pop(group_id, None)
                logger.info("group removed", extra={"group": group_id, "reason": "deleted by request"})
            case TransactionTimedOut(transactional_id, producer_id, timeout_ms, partition_count):
                fields = {"transactional_id": transactional_id, "producer_id": producer_id}
                limits = {"timeout_ms": timeout_ms, "partitions": partition_count}
                logger.warning("transaction timed out and is aborted", extra={**fields, **limits})

    def _note(self, group_id: GroupId, what: str) -> None:
        """Note a change of a group's members, for the reason of its next rebalance."""
        if group_id not in self._changes and len(self._changes) >= MOST_CHANGED_GROUPS:
            self._changes.pop(next(iter(self._changes)))
        self._changes.setdefault(group_id, Counter())[what] += 1

    def _rebalanced(self, event: GroupRebalanced) -> None:
        if not event.is_share:  # those are counted with their groups
            self._rebalances["consumer" if event.duration_ms is None else "classic"] += 1
        self._recent.append((self._steady_time(), event.group_id))
        fields: dict[str, object] = {
            "group": event.group_id,
            "epoch": event.epoch,
            "members": event.member_count,
            "reason": _reason(self._changes.pop(event.group_id, Counter())),
        }
        if event.duration_ms is not None:
            self._waits.observe(event.duration_ms / 1000)
            fields["waited_ms"] = event.duration_ms
        logger.info("group rebalanced", extra=fields)

    def gauges(self) -> Iterator[Metric]:
        """Yield the counters."""
        yield counter(
            "headgate_rebalances",
            "New generations of classic groups, and new target assignments of consumer groups.",
            [((protocol,), self._rebalances[protocol]) for protocol in ("classic", "consumer")],
            ("protocol",),
        )
        yield gauge(
            "headgate_group_recent_rebalances",
            "Rebalances of a group in the last ten minutes.",
            [((group_id,), count) for group_id, count in self._most_recent()],
            ("group",),
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

    def _most_recent(self) -> list[tuple[GroupId, int]]:
        since = self._steady_time() - _RECENT_MS
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        counts = Counter(group_id for _, group_id in self._recent)
        return counts.most_common(MOST_WITH_A_SERIES)


def _member_fields(event: MemberJoined | MemberAwaited | MemberRemoved) -> dict[str, object]:
    """Return the fields that name a member in the log."""
    return {
        "group": event.group_id,
        "member": event.member_id,
        "client": event.client_id,
        "host": event.client_host,
    }


def _reason(changes: Counter[str]) -> str:
    """Return why a group rebalanced: what happened to its members since the last time."""
    told = [f"{count} {what}" for what, count in sorted(changes.items())]
    return ", ".join(told) or "subscriptions, topics or pauses changed"
