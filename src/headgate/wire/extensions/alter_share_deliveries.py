"""AlterShareDeliveries (api key 20008), version 0, Headgate's own: release, archive, redeliver records."""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.message import EMPTY, Request, Response, Struct


class AlterShareDeliveriesRequest(Request["AlterShareDeliveriesResponse"]):
    """The request of api key 20008, for ranges of one share-partition, at most 1,000.

    `operation`: 0 takes records back from their members, 1 delivers them no more, 2 delivers records again of
    which there are dead letters. A dry run changes nothing.
    """

    API_KEY: ClassVar[int] = 20008
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    group_id: Annotated[str, "string"] = ""
    topic_name: Annotated[str, "string"] = ""
    partition_index: Annotated[int, "int32"] = 0
    operation: Annotated[int, "int8"] = 0
    is_dry_run: Annotated[bool, "bool"] = True
    ranges: Annotated[list[OffsetRangeData], "[]struct"] = EMPTY


class OffsetRangeData(Struct):
    """In `AlterShareDeliveriesRequest.ranges`: both offsets belong to it."""

    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0


class AlterShareDeliveriesResponse(Response):
    """The response of api key 20008. What lies from `next_offset` on was left alone; -1: nothing was."""

    API_KEY: ClassVar[int] = 20008
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    ranges: Annotated[list[AlteredRangeData], "[]struct"] = EMPTY
    next_offset: Annotated[int, "int64"] = -1


class AlteredRangeData(Struct):
    """In `AlterShareDeliveriesResponse.ranges`.

    States are those of DescribeShareDeliveries. `before` is -1 outside of the window; `after` is -1 if
    nothing happens, for the reason in `message`.
    """

    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    before: Annotated[int, "int8"] = -1
    delivery_count: Annotated[int, "int16"] = 0
    after: Annotated[int, "int8"] = -1
    message: Annotated[str, "string"] = ""
