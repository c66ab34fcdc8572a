"""DescribeShareDeliveries (20007), version 0, Headgate's own: the deliveries of a share-partition, in pages.

Who has which records since when and until when, how often they were delivered, what waits to be delivered
again, and why records are not delivered any more. Ranges are as of the moment at which they are read: between
two pages, and within one, deliveries go on. Only the leader of the partition knows them: this node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.api.share_administration import Problem, needs_of, share_partition_of
from headgate.core.share.deliveries import DeliveryRange
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.extensions.describe_share_deliveries import (
    DeliveryRangeData,
    DescribeShareDeliveriesRequest,
    DescribeShareDeliveriesResponse,
)

_MADE_AT_ONCE: Final = 200


def handle(node: Node, call: Call, request: DescribeShareDeliveriesRequest) -> None:
    """Answer with one page."""
    if request.first_offset < -1 or request.max_ranges < 1:
        call.answer(DescribeShareDeliveriesResponse(error_code=ErrorCode.INVALID_REQUEST))
    else:
        call.answer_in_steps(_described(node, request))


def _described(
    node: Node, request: DescribeShareDeliveriesRequest
) -> RequestSteps[DescribeShareDeliveriesResponse]:
    key = yield from share_partition_of(node, request)
    if isinstance(key, Problem):
        return DescribeShareDeliveriesResponse(error_code=key.error, error_message=key.message)
    group_id = GroupId(request.group_id)
    administration = node.shares.administration
    page = yield from administration.describe(group_id, key, request.first_offset, request.max_ranges)
    response = DescribeShareDeliveriesResponse(
        error_code=page.error,
        error_message=page.message,
        topic_id=key[0],
        start_offset=page.start_offset,
        end_offset=page.end_offset,
        ranges=[],
        next_offset=page.next_offset,
    )
    for first in range(0, len(page.ranges), _MADE_AT_ONCE):
        response.ranges += _data(page.ranges[first : first + _MADE_AT_ONCE])
        yield None
    return response


def _data(ranges: Sequence[DeliveryRange]) -> list[DeliveryRangeData]:
    return [
        DeliveryRangeData(
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            state=one.state,
            delivery_count=one.delivery_count,
            member_id=one.member_id,
            since_ms=one.since,
            locked_until_ms=one.locked_until,
            is_changing=one.is_changing,
            cause=one.cause,
        )
        for one in ranges
    ]


API = Api(
    20007,
    "DescribeShareDeliveries",
    0,
    0,
    DescribeShareDeliveriesRequest,
    DescribeShareDeliveriesResponse,
    handle,
    needs=needs_of(Operation.DESCRIBE, Operation.DESCRIBE),
)
