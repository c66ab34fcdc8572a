"""Single records of a share group: who has them, and changes of their deliveries. Kafka has none of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.domain.ids import GroupId, Millis, TopicPartition
from headgate.wire.extensions.alter_share_deliveries import (
    AlteredRangeData,
    AlterShareDeliveriesRequest,
    AlterShareDeliveriesResponse,
    OffsetRangeData,
)
from headgate.wire.extensions.describe_share_deliveries import (
    DeliveryRangeData,
    DescribeShareDeliveriesRequest,
    DescribeShareDeliveriesResponse,
)

_NONE: Final = -1
_PAGE: Final = 1_000
"""Ranges of one request."""
_LARGEST_OFFSET: Final = (1 << 63) - 1


class ShareRecordState(StrEnum):
    """The state of a record's delivery."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVING = "archiving"
    """It is not delivered any more, and waits for its dead letter."""
    ARCHIVED = "archived"


_STATES: Final = tuple(ShareRecordState)
_REASONS: Final = (
    None,
    "rejected by the member",
    "released at the delivery count limit",
    "lock ended at the delivery count limit",
    "member left at the delivery count limit",
    "archived by an administrator",
    "the delivery count limit was lowered",
)


class ShareAlteration(Enum):
    """What to do with records."""

    RELEASE = 0
    """Take them back from their members, as if these released them."""
    ARCHIVE = 1
    """Deliver them no more."""
    REDELIVER = 2
    """Deliver them again, as for the first time, if they have dead letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecords:
    """A range of records with the same delivery. Times are in ms since the epoch."""

    partition: TopicPartition
    first_offset: int
    last_offset: int
    state: ShareRecordState
    delivery_count: int
    member_id: str | None
    """The member that has the records, or that had them when they were rejected."""
    since: Millis | None
    """When they were acquired, or rejected."""
    locked_until: Millis | None
    is_changing: bool
    """Whether an acknowledgement is being written."""
    reason: str | None
    """Why they are not delivered any more; None: they are, were acknowledged, or it is not known any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredShareRecords:
    """What an alteration does, or would do, with a range of records."""

    partition: TopicPartition
    first_offset: int
    last_offset: int
    state: ShareRecordState | None
    """The state before; None: not known, their delivery was complete or has not begun."""
    delivery_count: int
    new_state: ShareRecordState | None
    """None: nothing happens."""
    reason: str | None
    """Why nothing happens."""


def share_records(
    cluster: Cluster, group_id: GroupId, partition: TopicPartition, first_offset: int = _NONE
) -> Iterator[ShareRecords]:
    """Yield the records of a share-partition whose delivery is known, from an offset on, page by page.

    Raises `RequestRefused` (GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION) and `VersionNotSupported`.
    """
    next_offset: int | None = first_offset
    while next_offset is not None:
        page = _page(cluster, group_id, partition, next_offset)
        for one in page.ranges:
            yield _records(partition, one)
        next_offset = None if page.next_offset == _NONE else page.next_offset


def _page(
    cluster: Cluster, group_id: GroupId, partition: TopicPartition, offset: int
) -> DescribeShareDeliveriesResponse:
    request = DescribeShareDeliveriesRequest(
        group_id=group_id,
        topic_name=partition.topic,
        partition_index=partition.partition,
        first_offset=offset,
        max_ranges=_PAGE,
    )

    def attempt() -> DescribeShareDeliveriesResponse:
        response = cluster.coordinator(group_id).request(request)
        check(f"{partition} of share group {group_id}", response.error_code, response.error_message)
        return response

    return cluster.retrying(attempt)


def _records(partition: TopicPartition, one: DeliveryRangeData) -> ShareRecords:
    return ShareRecords(
        partition=partition,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        state=_STATES[one.state],
        delivery_count=one.delivery_count,
        member_id=one.member_id,
        since=_time(one.since_ms),
        locked_until=_time(one.locked_until_ms),
        is_changing=one.is_changing,
        reason=_REASONS[one.cause] if one.cause < len(_REASONS) else None,
    )


def _time(time: int) -> Millis | None:
    return None if time == _NONE else Millis(time)


def alter_share_records(
    cluster: Cluster,
    group_id: GroupId,
    partition: TopicPartition,
    alteration: ShareAlteration,
    offsets: Iterable[tuple[int, int]],
    *,
    is_dry_run: bool,
) -> list[AlteredShareRecords]:
    """Alter the deliveries of ranges of offsets, first and last, or plan it. Returns when it is durable.

    Raises `RequestRefused`, also for a share-partition that nobody read yet (INVALID_REQUEST), and
    `VersionNotSupported`. What was altered before an error remains so.
    """
    ranges = _joined(offsets)
    found: list[AlteredShareRecords] = []
    while ranges:
        request = AlterShareDeliveriesRequest(
            group_id=group_id,
            topic_name=partition.topic,
            partition_index=partition.partition,
            operation=alteration.value,
            is_dry_run=is_dry_run,
            ranges=[OffsetRangeData(first_offset=first, last_offset=last) for first, last in ranges[:_PAGE]],
        )
        response = _altered(cluster, group_id, partition, request)
        found += [_alteration(partition, one) for one in response.ranges]
        rest = ranges[_PAGE:]
        if response.next_offset != _NONE:
            begin = response.next_offset
            rest = [(max(first, begin), last) for first, last in ranges if last >= begin]
        ranges = rest
    return found


def _altered(
    cluster: Cluster, group_id: GroupId, partition: TopicPartition, request: AlterShareDeliveriesRequest
) -> AlterShareDeliveriesResponse:
    def attempt() -> AlterShareDeliveriesResponse:
        response = cluster.coordinator(group_id).request(request)
        check(f"{partition} of share group {group_id}", response.error_code, response.error_message)
        return response

    return cluster.retrying(attempt)


def _joined(offsets: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same offsets as ascending ranges without overlaps. Raises ValueError."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(offsets):
        if first < 0 or last < first or last > _LARGEST_OFFSET:
            raise ValueError(f"{first} to {last} is no range of offsets")
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _alteration(partition: TopicPartition, one: AlteredRangeData) -> AlteredShareRecords:
    return AlteredShareRecords(
        partition=partition,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        state=None if one.before == _NONE else _STATES[one.before],
        delivery_count=one.delivery_count,
        new_state=None if one.after == _NONE else _STATES[one.after],
        reason=one.message or None,
    )
