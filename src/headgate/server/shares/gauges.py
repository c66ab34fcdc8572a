"""Metrics of the delivery to share groups: what is in flight, and what was delivered and acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric

from headgate.runtime.gauges import counter, gauge
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.partition import SharedPartition


def share_gauges(
    partitions: Iterable[SharedPartition], session_count: int, counts: ShareCounts
) -> Iterator[Metric | None]:
    """Yield the metrics, and None where a slice may end."""
    loaded = in_flight = 0
    for shared in partitions:
        if shared.machine is not None:
            loaded += 1
            in_flight += shared.machine.end_offset - shared.machine.start_offset
        yield None
    yield gauge("headgate_share_partitions", "Share-partitions in use.", [((), loaded)])
    yield gauge(
        "headgate_share_records_in_flight",
        "Records between the start offset and the end of the share-partitions in use.",
        [((), in_flight)],
    )
    yield gauge("headgate_share_sessions", "Open share sessions.", [((), session_count)])
    yield counter(
        "headgate_share_deliveries",
        "Records delivered to members of share groups, for the first time or again.",
        [(("first",), counts.first_deliveries), (("again",), counts.redeliveries)],
        ("delivery",),
    )
    yield counter(
        "headgate_share_acknowledgements",
        "Records acknowledged by members of share groups, by type.",
        [((known.name.lower(),), count) for known, count in counts.acknowledged.items()],
        ("type",),
    )
    yield counter(
        "headgate_share_locks_ended",
        "Records whose lock ended before an acknowledgement.",
        [((), counts.expired)],
        (),
    )
