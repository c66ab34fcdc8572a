"""DescribeOffsetExpiry (api key 20005), version 0, flexible: when each offset of a group will expire.

An extension of Headgate, written by hand.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.message import EMPTY, Request, Response, Struct


class DescribeOffsetExpiryRequest(Request["DescribeOffsetExpiryResponse"]):
    """The request of api key 20005."""

    API_KEY: ClassVar[int] = 20005
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    group_id: Annotated[str, "string"] = ""


class DescribeOffsetExpiryResponse(Response):
    """The response of api key 20005. Times are in ms since the epoch.

    `now_ms` is the time of the coordinator. `aging` 0: no offset expires now (the group has members that
    subscribe to everything or are rebalancing, or a partition is paused); 1: each offset ages since its
    commit; 2: all age since `empty_since_ms`. `retention_ms` -1: offsets do not expire. A sweep removes
    expired offsets every `check_interval_ms`.
    """

    API_KEY: ClassVar[int] = 20005
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    now_ms: Annotated[int, "int64"] = -1
    check_interval_ms: Annotated[int, "int64"] = -1
    aging: Annotated[int, "int8"] = 0
    empty_since_ms: Annotated[int, "int64"] = -1
    retention_ms: Annotated[int, "int64"] = -1
    is_own_retention: Annotated[bool, "bool"] = False
    topics: Annotated[list[DescribeOffsetExpiryResponseTopic], "[]struct"] = EMPTY


class DescribeOffsetExpiryResponseTopic(Struct):
    """In `DescribeOffsetExpiryResponse.topics`. A topic may occur more than once."""

    name: Annotated[str, "string"] = ""
    partitions: Annotated[list[DescribeOffsetExpiryResponsePartition], "[]struct"] = EMPTY


class DescribeOffsetExpiryResponsePartition(Struct):
    """In `DescribeOffsetExpiryResponseTopic.partitions`. `expires_ms` -1: the offset does not expire."""

    partition_index: Annotated[int, "int32"] = 0
    expires_ms: Annotated[int, "int64"] = -1
