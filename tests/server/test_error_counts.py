"""Error codes in responses are found in every part of them, and counted."""

from __future__ import annotations

from headgate.domain.errors import ErrorCode
from headgate.server.error_counts import MOST_PARTS, ErrorCounts
from headgate.wire.messages.heartbeat import HeartbeatResponse
from headgate.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

STALE, FENCED = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH


def test_errors_are_found_at_every_depth() -> None:
    """Of the response, of a group in it, of a partition in that."""
    counts = ErrorCounts()
    partitions = [OffsetFetchResponsePartitions(error_code=code) for code in (0, FENCED, FENCED)]
    topics = [OffsetFetchResponseTopics(partitions=partitions)]
    groups = [OffsetFetchResponseGroup(error_code=STALE), OffsetFetchResponseGroup(topics=topics)]
    counts.count(9, OffsetFetchResponse(groups=groups))
    counts.count(9, OffsetFetchResponse(error_code=STALE))
    counts.count(12, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    counts.count(12, HeartbeatResponse())
    counts.count(12, HeartbeatResponse(error_code=12345))
    assert counts.by_api_and_code() == [
        ((9, "FENCED_MEMBER_EPOCH"), 2),
        ((9, "STALE_MEMBER_EPOCH"), 2),
        ((12, "REBALANCE_IN_PROGRESS"), 1),
        ((12, "12345"), 1),
    ]


def test_of_a_long_response_the_first_parts_are_looked_at() -> None:
    """However many there are."""
    counts = ErrorCounts()
    groups = [OffsetFetchResponseGroup(error_code=STALE) for _ in range(3 * MOST_PARTS)]
    counts.count(9, OffsetFetchResponse(groups=groups))
    assert counts.by_api_and_code() == [((9, "STALE_MEMBER_EPOCH"), MOST_PARTS)]
