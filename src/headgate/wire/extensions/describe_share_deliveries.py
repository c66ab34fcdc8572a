"""DescribeShareDeliveries (api key 20007), version 0, Headgate's own: who has which record."""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.message import EMPTY, ZERO_UUID, Request, Response, Struct


class DescribeShareDeliveriesRequest(Request["DescribeShareDeliveriesResponse"]):
    """The request of api key 20007: a page of one share-partition.

    `first_offset` is where the page begins, -1 for what is known first. `max_ranges` is at most 1,000.
    """

    API_KEY: ClassVar[int] = 20007
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    group_id: Annotated[str, "string"] = ""
    topic_name: Annotated[str, "string"] = ""
    partition_index: Annotated[int, "int32"] = 0
    first_offset: Annotated[int, "int64"] = -1
    max_ranges: Annotated[int, "int32"] = 1_000


class DescribeShareDeliveriesResponse(Response):
    """The response of api key 20007.

    `start_offset` and `end_offset` are those of the window, -1 if no member has read the share-partition yet.
    `next_offset` is where the next page begins, -1 after the last one.
    """

    API_KEY: ClassVar[int] = 20007
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    topic_id: Annotated[bytes, "uuid"] = ZERO_UUID
    start_offset: Annotated[int, "int64"] = -1
    end_offset: Annotated[int, "int64"] = -1
    ranges: Annotated[list[DeliveryRangeData], "[]struct"] = EMPTY
    next_offset: Annotated[int, "int64"] = -1


class DeliveryRangeData(Struct):
    """In `DescribeShareDeliveriesResponse.ranges`; times are system time in ms, -1 for none.

    `state`: 0 available, 1 acquired, 2 acknowledged, 3 archiving, 4 archived. `member_id` has the records, or
    had rejected ones last. `since_ms` is when they were acquired, or rejected. `cause` of rejected ones: 0
    unknown, 1 rejected by the member, 2 released, 3 lock ended, 4 member left (2 to 4 at the delivery count
    limit), 5 archived by an administrator, 6 the limit was lowered.
    """

    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    state: Annotated[int, "int8"] = 0
    delivery_count: Annotated[int, "int16"] = 0
    member_id: Annotated[str | None, "string null"] = None
    since_ms: Annotated[int, "int64"] = -1
    locked_until_ms: Annotated[int, "int64"] = -1
    is_changing: Annotated[bool, "bool"] = False
    cause: Annotated[int, "int8"] = 0
