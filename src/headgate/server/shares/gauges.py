"""Metrics of the delivery to share groups: what is in flight, and what was delivered and acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.ids import Millis
from headgate.domain.setting import LONG_MAX
from headgate.runtime.gauges import counter, gauge
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.partition import SharedPartition

_MOST_RANGES: Final = 200
"""Ranges of waiting dead letters that one slice counts."""


def _waiting(machine: SharePartition) -> Iterator[int]:
    """Yield numbers of records that wait for their dead letters, in slices."""
    due = machine.dead_letters(LONG_MAX, most_ranges=_MOST_RANGES)
    while due:
        yield sum(one.last_offset - one.first_offset + 1 for one in due)
        due = machine.dead_letters(LONG_MAX, due[-1].last_offset + 1, most_ranges=_MOST_RANGES)


def share_gauges(
    partitions: Iterable[SharedPartition], session_count: int, counts: ShareCounts, now: Millis
) -> Iterator[Metric | None]:
    """Yield the metrics at a steady time, and None where a slice may end."""
    loaded = in_flight = waiting = oldest_ms = 0
    for shared in partitions:
        if shared.machine is not None:
            loaded += 1
            holder = shared.machine.first_holder()
            if holder is not None:
                locked_at = holder[1] - shared.settings.limits.lock_duration_ms
                oldest_ms = max(oldest_ms, now - locked_at)
            in_flight += shared.machine.end_offset - shared.machine.start_offset
            for count in _waiting(shared.machine):
                waiting += count
                yield None
        yield None
    yield gauge("headgate_share_partitions", "Share-partitions in use.", [((), loaded)])
    yield gauge(
        "headgate_share_records_in_flight",
        "Records between the start offset and the end of the share-partitions in use.",
        [((), in_flight)],
    )
    yield gauge(
        "headgate_share_oldest_lock_seconds",
        "Age of the oldest lock among the first locked records of all share-partitions in use.",
        [((), oldest_ms / 1000)],
    )
    yield counter("headgate_share_partition_loads", "Share-partitions loaded.", [((), counts.loads)], ())
    yield counter(
        "headgate_share_partition_load_seconds",
        "Time that the loads of share-partitions took.",
        [((), counts.load_ms / 1000)],
        (),
    )
    yield counter(
        "headgate_share_acknowledgement_requests",
        "Acknowledgements of single share-partitions that were not refused.",
        [((), counts.acknowledgements)],
        (),
    )
    yield gauge(
        "headgate_share_dead_letters_waiting",
        "Records whose delivery ended and whose dead letters are not written yet.",
        [((), waiting)],
    )
    yield counter("headgate_share_dead_letters", "Dead letters written.", [((), counts.dead_letters)], ())
    yield counter(
        "headgate_share_dead_letter_writes",
        "Attempts to write dead letters, by whether they failed.",
        [(("appended",), counts.dead_letter_appends), (("failed",), counts.failed_dead_letters)],
        ("outcome",),
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
